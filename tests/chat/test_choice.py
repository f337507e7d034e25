"""Which candidates a choice means: with their policies, and in the order of whoever put them there."""

from __future__ import annotations

from typing import Any

import pytest

from rivermouth.chat.choice import AUTO, Chooser
from rivermouth.routing.catalog import Catalog, Entry
from rivermouth.routing.endpoint import Endpoint, Plan, Policy
from rivermouth.routing.policy import Needs, Selection, arranged, select
from tests.routing.test_catalog import Clock, FakeLister

pytestmark = pytest.mark.anyio

EU = Policy(id="eu", regions=("eu-*",))
ALONE = Policy(id="alone", fallback=False)
FIRST_B = Policy(id="first-b", prefer=("b",))


def endpoint(name: str, provider: str, region: str = "eu-west") -> Endpoint:
    return Endpoint(id=name, provider=provider, model="m", region=region)


A, B, C = endpoint("a", "one"), endpoint("b", "one"), endpoint("c", "one", "us-east")
D, E = endpoint("d", "two"), endpoint("e", "two")


def chooser(*entries: Entry) -> Chooser:
    """Of two providers, whose models are called m; behind "one/m", "two/m" stand these entries."""
    providers: dict[str, Any] = {name: FakeLister(name, "m") for name in ("one", "two")}
    models = {f"{name}/m": entry for name, entry in zip(providers, entries, strict=False)}
    catalog = Catalog(models=models, providers=providers, now_s=Clock())
    return Chooser(
        catalog,
        providers=tuple(providers),
        own=(),
        models={},
        prefer_local=False,
        arrange=lambda plan: arranged(plan.candidates, plan, busy={}, draw=lambda: 0.5),
    )


def selected(plan: Plan, *always: Policy) -> Selection:
    return select(plan, (), always, needs=Needs, busy={}, draw=lambda: 0.5)


def ids(chosen: Plan | Selection) -> list[str]:
    return [candidate.endpoint.id for candidate in chosen.candidates]


async def test_a_provider_means_all_that_stands_behind_its_model() -> None:
    entry = Entry(endpoints=(C, A, B), policy=EU, order="weighted", weights={"b": 2.0})
    plan = await chooser(entry).plan("one")
    assert (plan.model, ids(plan), plan.order, plan.weights) == ("one", ["c", "a", "b"], "weighted", {"b": 2.0})
    assert all(candidate.policies == (EU,) for candidate in plan.candidates)
    assert set(ids(selected(plan))) == {"a", "b"}


async def test_auto_asks_one_provider_after_the_other_each_in_its_own_order() -> None:
    chosen = chooser(
        Entry(endpoints=(A, B), policy=FIRST_B), Entry(endpoints=(D, E), order="weighted", weights={"d": 0.0})
    )
    plan = await chosen.plan(AUTO)
    assert (plan.order, ids(plan)) == ("listed", ["b", "a", "e", "d"])
    assert [c.policies for c in plan.candidates] == [(FIRST_B,), (FIRST_B,), (), ()]
    assert ids(selected(plan)) == ["b", "a", "e", "d"]


async def test_what_one_name_prefers_orders_no_other() -> None:
    cheap = Policy(id="cheap", prefer=("e",))
    plan = await chooser(Entry(endpoints=(A,), policy=cheap), Entry(endpoints=(D, E))).plan(AUTO)
    assert ids(selected(plan)) == ["a", "d", "e"]
    assert ids(selected(plan, cheap)) == ["e", "a", "d"], "that of the whole server does"


@pytest.mark.promise(57)
async def test_each_name_keeps_to_its_own_policy() -> None:
    plan = await chooser(Entry(endpoints=(C, A), policy=EU), Entry(endpoints=(D,))).plan(AUTO)
    assert ids(selected(plan)) == ["a", "d"]


@pytest.mark.promise(57)
@pytest.mark.parametrize(
    ("first", "second", "tried"),
    [(ALONE, None, ["a"]), (None, ALONE, ["a", "b", "d"]), (None, None, ["a", "b", "d", "e"])],
)
async def test_nobody_is_asked_after_one_whose_policy_has_no_fallback(
    first: Policy | None, second: Policy | None, tried: list[str]
) -> None:
    plan = await chooser(Entry(endpoints=(A, B), policy=first), Entry(endpoints=(D, E), policy=second)).plan(AUTO)
    selection = selected(plan)
    assert ids(selection) == tried
    refused = {v.candidate.endpoint.id for v in selection.verdicts if v.refusals}
    assert refused == {"a", "b", "d", "e"} - set(tried)

"""Model names to plans (R27), with providers that are fakes: they only list."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.reply import ModelInfo
from rivermouth.routing.catalog import LIST_FRESH_S, LIST_RETRY_S, Catalog, Entry
from rivermouth.routing.endpoint import Endpoint, Policy
from rivermouth.routing.explain import explained
from rivermouth.routing.policy import Needs, Refused, select

pytestmark = pytest.mark.anyio


class FakeLister:
    """A provider of which only the list of models exists."""

    dialect = None

    def __init__(self, name: str, *models: str) -> None:
        self.name = name
        self.names = models
        self.asked = 0
        self.broken = False
        self.gate: asyncio.Event | None = None

    async def models(self) -> list[ModelInfo]:
        self.asked += 1
        if self.gate is not None:
            await self.gate.wait()
        if self.broken:
            raise ApiError(Kind.NETWORK, "no answer")
        return [ModelInfo(id=name, owner=self.name) for name in self.names]


LAB_EU = Endpoint(id="lab-eu", provider="lab", model="x-2026", region="eu-west", retention="none")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def catalog(*providers: FakeLister, clock: Clock | None = None, own: tuple[str, ...] = ("local",)) -> Catalog:
    return Catalog(
        models={
            "writer": Entry(endpoints=(LAB_EU, Endpoint(id="b/y", provider="b", model="y"))),
            "odd/name": Entry(endpoints=(LAB_EU,)),
        },
        endpoints=[LAB_EU],
        providers={p.name: p for p in providers},  # type: ignore[misc]
        own=tuple(o for o in own if o in {p.name for p in providers}),
        now_s=clock or Clock(),
    )


async def ids(names: Catalog, model: str) -> list[str]:
    return [c.endpoint.id for c in (await names.plan(model)).candidates]


async def test_an_exact_entry_of_the_config_wins_in_its_order_also_with_a_slash_in_it() -> None:
    names = catalog(FakeLister("local", "writer"), FakeLister("odd", "name"))
    assert await ids(names, "writer") == ["lab-eu", "b/y"]
    assert await ids(names, "odd/name") == ["lab-eu"]


async def test_provider_and_model_always_work_for_an_enabled_provider() -> None:
    lab = FakeLister("lab")
    assert await ids(catalog(lab), "lab/anything/with/slashes") == ["lab/anything/with/slashes"]
    assert lab.asked == 0


async def test_what_the_config_says_of_a_model_holds_however_it_is_asked_for() -> None:
    plan = await catalog(FakeLister("lab")).plan("lab/x-2026")
    assert plan.candidates[0].endpoint == LAB_EU


async def test_a_bare_name_is_first_a_local_model_with_or_without_its_tag() -> None:
    names = catalog(FakeLister("local", "m:latest", "n:7b"), FakeLister("lab", "m", "n:7b"))
    assert await ids(names, "m") == ["local/m:latest"]
    assert await ids(names, "m:latest") == ["local/m:latest"]
    assert await ids(names, "n:7b") == ["local/n:7b"]


async def test_then_the_one_provider_that_lists_it() -> None:
    names = catalog(FakeLister("a", "x"), FakeLister("b", "y"))
    assert await ids(names, "y") == ["b/y"]


async def test_several_holders_are_a_404_that_names_them() -> None:
    names = catalog(FakeLister("a", "x"), FakeLister("b", "x"))
    with pytest.raises(ApiError, match="a/x, b/x") as caught:
        await names.plan("x")
    assert (caught.value.status, caught.value.code, caught.value.param) == (404, "model_not_found", "model")


async def test_an_unknown_name_is_a_404_with_the_near_names() -> None:
    names = catalog(FakeLister("local", "smollm2:135m"), FakeLister("a", "gpt-x-2026"))
    with pytest.raises(ApiError, match="smollm2:135m"):
        await names.plan("smolm2:135m")
    with pytest.raises(ApiError, match="a/gpt-x-2026"):
        await names.plan("gpt-x-2025")
    with pytest.raises(ApiError, match="writer"):
        await names.plan("writers")
    with pytest.raises(ApiError) as caught:
        await names.plan("nothing-like-it-at-all-0123456789")
    assert caught.value.kind is Kind.NOT_FOUND
    assert "; there are: writer, " in caught.value.message


@pytest.mark.parametrize("name", ["small:1b", "small:latest", "small"])
async def test_an_unknown_name_that_can_be_pulled_is_a_404_that_says_how(name: str) -> None:
    local = FakeLister("local", "small:2b")
    names = Catalog(
        models={},
        providers={"local": local},  # type: ignore[dict-item]
        own=("local",),
        pullable=frozenset({"small:1b", "small:latest"}),
        now_s=Clock(),
    )
    with pytest.raises(ApiError) as caught:
        await names.plan(name)
    assert caught.value.message == f"model '{name}' not found; to get it: rivermouth pull {name}"
    assert (caught.value.status, caught.value.code) == (404, "model_not_found")
    with pytest.raises(ApiError, match=r"'small:3b' not found; near names: small:2b"):
        await names.plan("small:3b")
    local.names = (name if ":" in name else f"{name}:latest",)
    assert await ids(names, name) == [f"local/{local.names[0]}"]


async def test_a_default_that_can_be_pulled_says_how() -> None:
    names = Catalog(
        models={}, providers={}, own=(), default="small:1b", pullable=frozenset({"small:1b"}), now_s=Clock()
    )
    with pytest.raises(
        ApiError, match=r"server\.default_model says 'small:1b', .*; to get it: rivermouth pull small:1b"
    ):
        await names.plan("tgi")


async def test_a_slash_name_of_an_unknown_provider_is_looked_up_as_a_bare_name() -> None:
    names = catalog(FakeLister("router", "meta/llama"))
    assert await ids(names, "meta/llama") == ["router/meta/llama"]


NOWHERE = Policy(id="nowhere", regions=())
WRITERS = "lab-eu: policy nowhere: its region is eu-west, not any that is allowed; b/y: policy nowhere: "


@pytest.mark.parametrize(
    ("asked", "candidates"),
    [
        ("writer", WRITERS),
        ("lab/x", "lab/x: policy nowhere: "),
        ("m", "local/m:latest: policy nowhere: "),
        ("x", "lab/x: policy nowhere: "),
        ("tgi", WRITERS),
    ],
)
async def test_who_refuses_calls_the_model_what_the_client_called_it(asked: str, candidates: str) -> None:
    """What the endpoints call it stands with them, and what a key may ask for is matched with what it does ask for."""
    local, lab = FakeLister("local", "m:latest"), FakeLister("lab", "x")
    entry = Entry(endpoints=(LAB_EU, Endpoint(id="b/y", provider="b", model="y")))
    names = Catalog(
        models={"writer": entry},
        providers={"local": local, "lab": lab},  # type: ignore[dict-item]
        own=("local",),
        default="writer",
        now_s=Clock(),
    )
    plan = await names.plan(asked)
    decide = partial(select, plan, (NOWHERE,), needs=Needs, busy={}, draw=lambda: 0.5)
    with pytest.raises(Refused) as refused:
        decide()
    assert refused.value.message.startswith(f"no endpoint for '{asked}' is allowed: {candidates}")
    told = explained(plan, (NOWHERE,), (), decide, (asked,))
    assert (told.model, told.code) == (asked, "policy_refused")


async def test_a_plan_that_is_made_again_by_its_name_is_the_same() -> None:
    names = catalog(FakeLister("local", "x:latest"), FakeLister("lab", "x"))
    for asked in ("lab/x", "x", "x:latest", "writer", "odd/name"):
        plan = await names.plan(asked)
        assert await names.plan(plan.model) == plan


async def test_lists_are_fetched_once_kept_a_while_and_survive_a_failure() -> None:
    clock, lab = Clock(), FakeLister("lab", "x")
    names = catalog(lab, clock=clock)
    await names.plan("x")
    await names.plan("x")
    assert lab.asked == 1
    clock.now += LIST_FRESH_S + 1
    lab.broken = True
    assert await ids(names, "x") == ["lab/x"]
    assert lab.asked == 2
    await names.plan("x")
    assert lab.asked == 2
    clock.now += LIST_RETRY_S + 1
    await names.plan("x")
    assert lab.asked == 3


async def test_two_who_ask_at_once_share_one_fetch_and_one_who_leaves_does_not_stop_it() -> None:
    lab = FakeLister("lab", "x")
    lab.gate = asyncio.Event()
    names = catalog(lab)
    first, second = asyncio.create_task(names.plan("x")), asyncio.create_task(names.plan("x"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    first.cancel()
    lab.gate.set()
    assert (await second).candidates[0].endpoint.id == "lab/x"
    assert lab.asked == 1


async def test_the_list_of_models_has_configured_names_own_models_and_the_providers_with_a_slash() -> None:
    names = catalog(FakeLister("local", "m:latest"), FakeLister("lab", "x"))
    assert {m.id for m in await names.models()} == {"writer", "odd/name", "m:latest", "lab/x"}


async def test_one_model_can_be_looked_up_under_every_spelling_that_can_be_called() -> None:
    names = catalog(FakeLister("local", "m:latest"), FakeLister("lab", "x"))
    assert (await names.model("m")).id == "m:latest"
    assert (await names.model("lab/x")).owner == "lab"
    assert (await names.model("lab/unlisted")).owner == "lab"
    with pytest.raises(ApiError):
        await names.model("absent")


async def test_looking_up_one_model_asks_only_the_provider_that_has_it() -> None:
    slow = FakeLister("slow", "y")
    slow.gate = asyncio.Event()
    names = catalog(FakeLister("local", "m:latest"), slow)
    assert (await names.model("m")).id == "m:latest"
    assert (await names.model("writer")).owner == "rivermouth"
    assert slow.asked == 0


async def test_a_name_that_names_no_model_means_the_configured_default() -> None:
    local = FakeLister("local", "m:latest")
    names = Catalog(models={}, providers={"local": local}, own=("local",), default="m", now_s=Clock())  # type: ignore[dict-item]
    assert await ids(names, "dummy") == ["local/m:latest"]
    assert await ids(names, "tgi") == ["local/m:latest"]
    with pytest.raises(
        ApiError, match=r"no model was named \('dummy'\), and server.default_model, .* is not set; there are"
    ):
        await catalog(local).plan("dummy")
    names = Catalog(models={}, providers={"local": local}, own=("local",), default="mm", now_s=Clock())  # type: ignore[dict-item]
    with pytest.raises(ApiError, match=r"server\.default_model says 'mm', which is not found; there are: m"):
        await names.model("tgi")

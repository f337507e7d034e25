"""What a policy admits, in which order, and that it fails closed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.config import Capability, Order, Price, Retention
from rivermouth.ir.errors import Kind
from rivermouth.routing.endpoint import Candidate, Endpoint, Plan, Policy
from rivermouth.routing.policy import DEFAULT_ID, JUDGES, Needs, Refused, Selection, policy_id, select

EUROS = Price(input=2.0, output=8.0, currency="EUR")


def endpoint(name: str, **known: Any) -> Endpoint:
    return Endpoint(id=name, provider=known.pop("provider", "lab"), model="m", **known)


def plan(*endpoints: Endpoint, order: Order = "listed", policies: tuple[Policy, ...] = (), **more: Any) -> Plan:
    return Plan("m", tuple(Candidate(e, "configured", policies) for e in endpoints), order, **more)


def chosen(
    wanted: Plan,
    *bound: Policy,
    always: tuple[Policy, ...] = (),
    needs: Needs = Needs(),  # noqa: B008
    busy: dict[str, int] | None = None,
    draw: Callable[[], float] = lambda: 0.5,
) -> Selection:
    return select(wanted, bound, always, needs=lambda: needs, busy=busy or {}, draw=draw)


def ids(selection: Selection) -> list[str]:
    return [c.endpoint.id for c in selection.candidates]


RULES: list[tuple[Policy, dict[str, Any], dict[str, Any], str]] = [
    (Policy(id="p", regions=("eu-*",)), {"region": "EU-west"}, {"region": "us-east"}, "region is us-east, not eu-*"),
    (Policy(id="p", classes=("own", "eu")), {"sovereignty": "eu"}, {"sovereignty": "us"}, "class is us, not own or eu"),
    (Policy(id="p", providers=("lab*",)), {"provider": "lab2"}, {"provider": "other"}, "provider is other, not lab*"),
    (
        Policy(id="p", retention_max_s=86_400.0),
        {"retention": "12h", "retention_s": 43_200.0},
        {"retention": "30d", "retention_s": 2_592_000.0},
        "retention is 30d, too long",
    ),
    (
        Policy(id="p", price_max=EUROS),
        {"price": EUROS},
        {"price": Price(input=2.0, output=8.1, currency="EUR")},
        "price for output is above the ceiling",
    ),
    (
        Policy(id="p", requires=("tools", "images")),
        {"capabilities": frozenset({"tools", "images", "audio"})},
        {"capabilities": frozenset({"tools"})},
        "it has no images",
    ),
    (
        Policy(id="p", context_min_tokens=8000),
        {"context_tokens": 8000},
        {"context_tokens": 7999},
        "context is 7999 tokens, less than 8000",
    ),
]


@pytest.mark.parametrize(("policy", "good", "bad", "reason"), RULES, ids=[rule[3] for rule in RULES])
def test_each_rule_admits_what_keeps_it_refuses_what_does_not_and_what_says_nothing(
    policy: Policy, good: dict[str, Any], bad: dict[str, Any], reason: str
) -> None:
    assert ids(chosen(plan(endpoint("bad", **bad), endpoint("good", **good)), policy)) == ["good"]
    with pytest.raises(Refused, match=reason) as refused:
        chosen(plan(endpoint("bad", **bad)), policy)
    assert refused.value.kind is Kind.PERMISSION
    assert refused.value.status == 403
    if "provider" not in bad:
        with pytest.raises(Refused, match="not known"):
            chosen(plan(endpoint("silent")), policy)


def test_every_rule_is_in_the_table() -> None:
    others = ("id", "order", "prefer", "weights", "fallback", "records_text")
    rules = [f for f in Policy.__struct_fields__ if f not in others]
    assert len(JUDGES) == len(rules) == len(RULES)
    for rule in rules:
        default = getattr(Policy(id="p"), rule)
        assert any(getattr(policy, rule) != default for policy, *_ in RULES), rule


def test_an_empty_list_admits_nothing() -> None:
    for policy in (Policy(id="p", regions=()), Policy(id="p", classes=()), Policy(id="p", providers=())):
        with pytest.raises(Refused):
            chosen(plan(endpoint("a", region="eu", sovereignty="own")), policy)


def test_a_price_in_another_currency_is_above_any_ceiling() -> None:
    dollars = endpoint("a", price=Price(input=0.1, output=0.1, currency="USD"))
    with pytest.raises(Refused, match="in USD, the ceiling in EUR"):
        chosen(plan(dollars), Policy(id="p", price_max=EUROS))


def test_prices_for_different_amounts_are_compared_for_the_same() -> None:
    small = endpoint("a", price=Price(input=0.002, output=0.008, currency="EUR", per=1000))
    assert ids(chosen(plan(small), Policy(id="p", price_max=EUROS))) == ["a"]


def test_a_refusal_names_each_candidate_and_why() -> None:
    eu = Policy(id="eu", regions=("eu-*",))
    with pytest.raises(Refused) as refused:
        chosen(plan(endpoint("us", region="us-east"), endpoint("dark")), eu)
    assert refused.value.code == "policy_refused"
    assert refused.value.message == (
        "no endpoint for 'm' is allowed: us: policy eu: its region is us-east, not eu-*; "
        "dark: policy eu: its region is not known"
    )
    assert [v.candidate.endpoint.id for v in refused.value.verdicts] == ["us", "dark"]


def test_all_policies_hold_at_once_whoever_bound_them() -> None:
    eu, cheap, own = (
        Policy(id="eu", regions=("eu",)),
        Policy(id="cheap", price_max=EUROS),
        Policy(id="own", classes=("own",)),
    )
    both = endpoint("both", region="eu", price=EUROS, sovereignty="own")
    wanted = plan(endpoint("a", region="eu"), endpoint("b", price=EUROS), both, policies=(cheap,))
    selection = chosen(wanted, eu, always=(own,))
    assert ids(selection) == ["both"]
    assert policy_id(selection.candidates[0]) == "eu+cheap+own"
    assert [bool(v.refusals) for v in selection.verdicts] == [True, True, False]


def test_without_a_policy_the_id_is_the_default() -> None:
    assert policy_id(chosen(plan(endpoint("a"))).candidates[0]) == DEFAULT_ID


def test_what_a_request_needs_goes_where_it_is_not_known_to_be_missing() -> None:
    blind = endpoint("blind", capabilities=frozenset({"tools"}))
    silent = endpoint("silent")
    pictures: frozenset[Capability] = frozenset({"images"})
    assert ids(chosen(plan(blind, silent), needs=Needs(pictures))) == ["silent"]
    with pytest.raises(Refused, match="blind: it has no images") as refused:
        chosen(plan(blind), needs=Needs(pictures))
    assert (refused.value.kind, refused.value.code) == (Kind.INVALID_REQUEST, "capability_missing")


def test_a_prompt_goes_where_it_fits() -> None:
    small, large = endpoint("small", context_tokens=100), endpoint("large", context_tokens=1000)
    assert ids(chosen(plan(small, large), needs=Needs(tokens=101))) == ["large"]
    with pytest.raises(Refused) as refused:
        chosen(plan(small, large), needs=Needs(tokens=1001))
    assert refused.value.code == "context_length_exceeded"


def test_needs_are_not_asked_where_nobody_says_what_it_can() -> None:
    def never() -> Needs:
        raise AssertionError

    assert select(plan(endpoint("a"), endpoint("b")), needs=never, busy={}, draw=never)  # type: ignore[arg-type]


def test_the_cheapest_first_and_what_has_no_price_last() -> None:
    prices = {"b": Price(input=1, output=2, currency="EUR"), "c": EUROS}
    wanted = plan(*(endpoint(n, price=prices.get(n)) for n in "acb"), order="price")
    assert ids(chosen(wanted)) == ["b", "c", "a"]


def test_weights_are_the_chances_to_be_first_and_zero_comes_last() -> None:
    wanted = plan(*map(endpoint, "abc"), order="weighted", weights={"a": 3.0, "b": 1.0, "c": 0.0})
    draw = random.Random(7).random
    firsts = Counter()  # type: Counter[str]
    for _ in range(2000):
        order = ids(chosen(wanted, draw=draw))
        assert order[-1] == "c"
        firsts[order[0]] += 1
    assert 0.70 < firsts["a"] / 2000 < 0.80


def test_the_least_busy_first_for_its_weight() -> None:
    wanted = plan(*map(endpoint, "abc"), order="least_busy", weights={"b": 4.0})
    assert ids(chosen(wanted, busy={"a": 1, "b": 4})) == ["c", "b", "a"]


def test_who_is_equally_busy_is_drawn() -> None:
    wanted = plan(*map(endpoint, "ab"), order="least_busy")
    draw = random.Random(7).random
    assert {ids(chosen(wanted, draw=draw))[0] for _ in range(50)} == {"a", "b"}


def test_the_narrowest_order_holds_and_what_is_preferred_comes_first_in_it() -> None:
    mine = Policy(id="mine", order="price", prefer=("z*",))
    theirs = Policy(id="theirs", order="listed", prefer=("a",))
    wanted = plan(
        endpoint("a", price=EUROS), endpoint("b", price=Price(input=1, output=1, currency="EUR")), endpoint("z")
    )
    assert ids(chosen(wanted, mine, always=(theirs,))) == ["z", "b", "a"]


def test_without_fallback_there_is_one() -> None:
    selection = chosen(plan(*map(endpoint, "abc")), Policy(id="p", fallback=False))
    assert ids(selection) == ["a"]
    assert [v.why for v in selection.verdicts] == ["configured", "policy p: no fallback", "policy p: no fallback"]


REGIONS = st.sampled_from([None, "eu-west", "eu-north", "us-east"])
ENDPOINTS = st.builds(
    Endpoint,
    id=st.text("abcdef", min_size=1, max_size=6),
    provider=st.sampled_from(["lab", "other"]),
    model=st.just("m"),
    region=REGIONS,
    sovereignty=st.sampled_from([None, "own", "eu", "world"]),
    retention_s=st.sampled_from([None, 0.0, 3600.0, 2_592_000.0]),
    price=st.none()
    | st.builds(Price, input=st.integers(0, 9), output=st.integers(0, 9), currency=st.sampled_from(["EUR", "USD"])),
    capabilities=st.none() | st.frozensets(st.sampled_from(["tools", "images"])),
    context_tokens=st.none() | st.integers(1, 1000),
)
POLICIES = st.builds(
    Policy,
    id=st.text("pqr", min_size=1, max_size=4),
    regions=st.none() | st.lists(st.sampled_from(["eu-*", "us-*", "*"]), max_size=2).map(tuple),
    classes=st.none() | st.lists(st.sampled_from(["own", "eu"]), max_size=2).map(tuple),
    providers=st.none() | st.lists(st.sampled_from(["lab", "other"]), max_size=2).map(tuple),
    retention_max_s=st.sampled_from([None, 0.0, 86_400.0]),
    price_max=st.none() | st.builds(Price, input=st.integers(0, 9), output=st.integers(0, 9), currency=st.just("EUR")),
    requires=st.lists(st.sampled_from(["tools", "images"]), max_size=2).map(tuple),
    context_min_tokens=st.none() | st.integers(1, 1000),
    order=st.sampled_from([None, "listed", "price", "weighted", "least_busy"]),
    fallback=st.booleans(),
)


@given(
    endpoints=st.lists(ENDPOINTS, min_size=1, max_size=5, unique_by=lambda e: e.id),
    bound=st.lists(POLICIES, max_size=2),
    further=POLICIES,
    own=st.lists(POLICIES, max_size=1).map(tuple),
    seed=st.integers(0, 9),
)
def test_a_further_policy_only_narrows_and_nothing_refused_is_selected(
    endpoints: list[Endpoint], bound: list[Policy], further: Policy, own: tuple[Policy, ...], seed: int
) -> None:
    wanted = plan(*endpoints, policies=own)

    def admitted(*policies: Policy) -> set[str]:
        try:
            selection = chosen(wanted, *policies, draw=random.Random(seed).random)
        except Refused:
            return set()
        held = {p.id: p for p in (*policies, *own)}.values()
        for candidate in selection.candidates:
            assert all(judge(policy, candidate.endpoint) is None for policy in held for judge in JUDGES)
        allowed = {v.candidate.endpoint.id for v in selection.verdicts if not v.refusals}
        assert allowed == set(ids(selection))
        return {
            v.candidate.endpoint.id for v in selection.verdicts if not any("no fallback" not in r for r in v.refusals)
        }

    if further.id not in {p.id for p in (*bound, *own)}:
        assert admitted(*bound, further) <= admitted(*bound)


@pytest.mark.parametrize(
    ("words", "seconds"),
    [
        ("none", 0.0),
        ("0", 0.0),
        ("12h", 43_200.0),
        ("30d", 2_592_000.0),
        ("2W", 1_209_600.0),
        ("zero-ish", None),
        ("", None),
    ],
)
def test_a_retention_is_a_time_or_words(words: str, seconds: float | None) -> None:
    assert Retention(words).seconds == seconds

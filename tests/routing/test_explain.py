"""An explanation says what `select` decides, and in its words."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rivermouth.routing.endpoint import Candidate, Endpoint, Plan, Policy
from rivermouth.routing.explain import Explanation, explained, lines
from rivermouth.routing.policy import Needs, Refused, Selection, select

EU = Endpoint(id="eu", provider="lab", model="m", region="eu-west", capabilities=frozenset())
US = Endpoint(id="us", provider="lab", model="m", region="us-east")
EUROPE, NOWHERE = Policy(id="europe", regions=("eu-*",)), Policy(id="nowhere", regions=())
NOTHING = Needs()
PRICED = Policy(id="priced", order="price")


def deciding(
    plan: Plan, bound: tuple[Policy, ...], always: tuple[Policy, ...], needs: Needs
) -> Callable[[], Selection]:
    return lambda: select(plan, bound, always, needs=lambda: needs, busy={}, draw=lambda: 0.5)


def told(
    *bound: Policy,
    own: tuple[Policy, ...] = (),
    always: tuple[Policy, ...] = (),
    needs: Needs = NOTHING,
    **more: object,
) -> Explanation:
    plan = Plan("m", (Candidate(US, "first", own), Candidate(EU, "second", own)))
    return explained(plan, bound, always, deciding(plan, bound, always, needs), **more)  # type: ignore[arg-type]


def test_who_may_serve_has_a_place_in_the_order():
    found = told()
    assert (found.allowed, found.code, found.policies, found.order) == (True, None, (), "listed")
    assert [(c.endpoint_id, c.allowed, c.place, c.reason) for c in found.candidates] == [
        ("us", True, 1, "first"),
        ("eu", True, 2, "second"),
    ]


def test_who_may_not_has_a_reason_and_no_place():
    found = told(EUROPE)
    assert [(c.endpoint_id, c.allowed, c.place) for c in found.candidates] == [("us", False, None), ("eu", True, 1)]
    assert found.candidates[0].reason == "policy europe: its region is us-east, not eu-*"


def test_a_refusal_is_that_of_a_call():
    plan = Plan("m", (Candidate(US, "first"),))
    decide = deciding(plan, (NOWHERE,), (), Needs())
    with pytest.raises(Refused) as refused:
        decide()
    found = explained(plan, (NOWHERE,), (), decide)
    assert (found.allowed, found.code, found.message) == (False, refused.value.code, refused.value.message)


def test_what_is_needed_is_judged_too():
    found = told(EUROPE, needs=Needs(frozenset({"tools"})))
    assert (found.allowed, found.code) == (False, "capability_missing")
    assert found.candidates[1].reason == "it has no tools"


def test_policies_are_named_the_narrowest_first_and_once():
    found = told(EUROPE, own=(PRICED,), always=(EUROPE, NOWHERE))
    assert found.policies == ("europe", "priced", "nowhere")
    assert found.order == "price"


def test_a_model_that_the_key_may_not_ask_for_has_no_candidate_left():
    found = told(EUROPE, models=("gpt-*",))
    assert (found.allowed, found.code) == (False, "model_not_allowed")
    assert {(c.allowed, c.place, c.reason) for c in found.candidates} == {
        (False, None, "this key may not ask for 'm'"),
    }
    assert told(models=("m*",)).allowed


def test_for_people_it_is_in_lines():
    assert lines(told(EUROPE)) == [
        "m: allowed",
        "policies   europe",
        "order      listed",
        "  1.       eu: second",
        "no         us: policy europe: its region is us-east, not eu-*",
    ]
    assert lines(told(NOWHERE))[0] == "m: refused (policy_refused)"
    assert lines(told())[1] == "policies   none"

"""What the gate refuses, in which words, and what a call leaves behind in it."""

from __future__ import annotations

import pytest

from rivermouth.config import Budget, Price, RateLimits, parse
from rivermouth.engine.call import Call
from rivermouth.ir.allowance import Allowance, Quota
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.platform.gate import PlatformGate
from rivermouth.platform.terms import Subject, Terms, terms_of
from rivermouth.routing.cost import Cost
from rivermouth.routing.endpoint import Policy
from rivermouth.routing.policy import Refused, Selection
from rivermouth.store.platform.port import LateRow, Spent, SpentRow
from rivermouth.store.port import NANO
from tests.platform.calls import Clock, admitted, call, candidate, final, selection

KEY = Subject("key", "k")
EU = Subject("policy", "eu")
TEN = Budget(amount=10, currency="EUR", period="day")
DOLLARS = Price(input=1.0, output=1.0, currency="USD")


def gate_of(clock: Clock, *, read: bool = True, **terms: object) -> PlatformGate:
    gate = clock.gate()
    gate.adopt(Terms(**terms))  # type: ignore[arg-type]
    if read:
        for since_ns, until_ns in gate.unread():
            gate.read(since_ns, until_ns, Spent((), ()))
    return gate


def refused(gate: PlatformGate, made: Call, offered: Selection | None = None) -> ApiError:
    with pytest.raises(ApiError) as caught:
        admitted(gate, made, offered)
    return caught.value


def test_a_gate_with_nothing_to_keep_is_not_asked() -> None:
    clock = Clock()
    gate = gate_of(clock)
    assert not gate.active
    gate.adopt(Terms(server=RateLimits(concurrent=1)))
    assert gate.active


def test_calls_a_minute() -> None:
    clock = Clock(1_796_000_000.0)
    gate = gate_of(clock, limits={"k": RateLimits(requests_per_minute=2)})
    for left in (1, 0):
        made = call(clock)
        admitted(gate, made)
        assert made.allowance == Allowance(requests=Quota(2, left, 61.0))
    late = call(clock)
    error = refused(gate, late)
    assert (error.kind, error.status, error.code, error.retry_after_s) == (
        Kind.RATE_LIMITED,
        429,
        "rate_limit_exceeded",
        61.0,
    )
    assert error.message == "the key 'k' may have 2 calls a minute"
    assert late.allowance == Allowance(requests=Quota(2, 0, 61.0))
    admitted(gate, call(clock, key="another"))
    clock.unix_s += 61.0
    admitted(gate, call(clock))


def test_tokens_a_minute_are_estimated_first_and_counted_last() -> None:
    clock = Clock()
    gate = gate_of(clock, limits={"k": RateLimits(tokens_per_minute=25)})
    first = call(clock, prompt=4, answer=16)
    reservation = admitted(gate, first)
    assert refused(gate, call(clock, prompt=4, answer=2)).status == 429
    gate.settle(reservation, final(first, tokens=(5, 3)))
    second = call(clock, prompt=4, answer=13)
    admitted(gate, second)
    assert second.allowance is not None
    assert second.allowance.tokens == Quota(25, 0, 61.0)


@pytest.mark.parametrize(
    ("tokens", "left"), [((5, 3), 17), (None, 25), ((0, 0), 25)], ids=["answered", "failed", "nothing"]
)
def test_what_a_call_did_not_use_is_given_back(tokens: tuple[int, int] | None, left: int) -> None:
    clock = Clock()
    gate = gate_of(clock, limits={"k": RateLimits(tokens_per_minute=25)})
    made = call(clock, prompt=4, answer=16)
    gate.settle(admitted(gate, made), final(made, tokens=tokens))
    quota = gate.limit_state("k").allowance.tokens
    assert quota is not None
    assert quota.remaining == left


def test_a_call_that_never_fits_is_not_told_to_wait() -> None:
    clock = Clock()
    gate = gate_of(clock, limits={"k": RateLimits(tokens_per_minute=10)})
    error = refused(gate, call(clock, prompt=4, answer=7))
    assert (error.status, error.code, error.retry_after_s, error.retryable) == (
        413,
        "token_limit_too_small",
        None,
        False,
    )


def test_calls_at_once() -> None:
    clock = Clock()
    gate = gate_of(clock, limits={"k": RateLimits(concurrent=1)})
    made = call(clock)
    reservation = admitted(gate, made)
    assert refused(gate, call(clock)).retry_after_s == 1.0
    gate.settle(reservation, final(made, tokens=None))
    admitted(gate, call(clock))


def test_the_servers_limits_are_those_of_all_together_with_or_without_a_key() -> None:
    clock = Clock()
    gate = gate_of(clock, limits={"k": RateLimits(concurrent=5)}, server=RateLimits(concurrent=2))
    made = call(clock, key="k")
    admitted(gate, made)
    guest = call(clock, key=None)
    admitted(gate, guest)
    assert guest.allowance is None
    error = refused(gate, call(clock, key="k"))
    assert error.message == "this server may have 2 calls at once"
    assert gate.limit_state("k").running == 1
    assert gate.limit_state(None).running == 2


def test_a_budget_holds_what_calls_may_cost_and_then_what_they_did() -> None:
    clock = Clock()
    gate = gate_of(clock, budgets={KEY: TEN})
    first = call(clock, prompt=4, answer=4)
    reservation = admitted(gate, first)
    error = refused(gate, call(clock, prompt=4, answer=1))
    assert (error.status, error.code, error.retry_after_s) == (402, "budget_exceeded", 5.0)
    assert error.message == ("the budget of the key 'k' is 10 EUR a day; 2 are left, and this call may cost 5")
    gate.settle(reservation, final(first, tokens=(4, 1)))
    state = gate.budget_states()[0]
    assert (state.spent_nano, state.reserved_nano) == (5 * NANO, 0)
    admitted(gate, call(clock, prompt=4, answer=1))


def test_a_spent_budget_says_when_there_is_money_again() -> None:
    clock = Clock(1_796_000_000.0)
    gate = gate_of(clock, budgets={KEY: TEN})
    made = call(clock, prompt=4, answer=6)
    gate.settle(admitted(gate, made), final(made, tokens=(4, 6)))
    error = refused(gate, call(clock))
    midnight_s = (1_796_000_000 // 86_400 + 1) * 86_400
    assert error.retry_after_s == midnight_s - 1_796_000_000
    clock.unix_s = midnight_s
    admitted(gate, call(clock))


def test_a_call_that_the_whole_budget_could_not_pay_is_not_told_to_wait() -> None:
    clock = Clock()
    gate = gate_of(clock, budgets={KEY: TEN})
    assert refused(gate, call(clock, prompt=4, answer=7)).retry_after_s is None


def test_a_call_counts_in_the_period_in_which_it_started() -> None:
    clock = Clock(1_796_000_000.0 // 86_400 * 86_400 - 1)
    gate = gate_of(clock, budgets={KEY: TEN})
    made = call(clock, prompt=4, answer=6)
    reservation = admitted(gate, made)
    clock.unix_s += 2
    admitted(gate, call(clock, prompt=4, answer=6))
    gate.settle(reservation, final(made, tokens=(4, 6)))
    assert gate.budget_states()[0].spent_nano == 0


def test_the_dearest_endpoint_that_may_serve_is_reserved_for() -> None:
    clock = Clock()
    gate = gate_of(clock, budgets={KEY: TEN})
    half = Price(input=500_000.0, output=500_000.0, currency="EUR")
    offered = selection(candidate("cheap", half), candidate("dear"))
    admitted(gate, call(clock, prompt=4, answer=4), offered)
    assert gate.budget_states()[0].reserved_nano == 8 * NANO


def test_endpoints_whose_price_a_budget_cannot_be_kept_with_are_not_asked() -> None:
    clock = Clock()
    gate = gate_of(clock, budgets={KEY: TEN})
    offered = selection(candidate("dollars", DOLLARS), candidate("euros"), candidate("unknown", None))
    left = admitted(gate, call(clock), offered).selection
    assert [c.endpoint.id for c in left.candidates] == ["euros"]
    assert [v.why for v in left.verdicts] == [
        "budget of the key 'k': its price is in USD, the budget in EUR",
        "configured",
        "budget of the key 'k': its price is not known",
    ]
    error = refused(gate, call(clock), selection(candidate("dollars", DOLLARS)))
    assert isinstance(error, Refused)
    assert (error.status, error.code) == (403, "price_refused")
    assert "dollars: budget of the key 'k': its price is in USD" in error.message


def test_what_has_no_price_may_be_declared_free() -> None:
    clock = Clock()
    free = Budget(amount=0, currency="EUR", unpriced="free")
    gate = gate_of(clock, budgets={KEY: free})
    admitted(gate, call(clock), selection(candidate("local", None)))
    assert refused(gate, call(clock), selection(candidate("local", None), candidate("dear"))).status == 402


def test_a_policys_budget_is_that_of_all_calls_for_which_it_holds() -> None:
    clock = Clock()
    gate = gate_of(clock, budgets={EU: TEN})
    bound = candidate(policies=(Policy(id="eu"), Policy(id="no-cn")))
    made = call(clock, key="a", prompt=4, answer=4)
    reservation = admitted(gate, made, selection(bound))
    assert refused(gate, call(clock, key="b", prompt=4, answer=4), selection(bound)).code == "budget_exceeded"
    admitted(gate, call(clock, key="b", prompt=4, answer=4), selection(candidate()))
    gate.settle(reservation, final(made, tokens=(4, 4), policy_id="eu+no-cn"))
    assert gate.budget_states()[0].spent_nano == 8 * NANO


def test_a_refusal_takes_nothing_of_anything() -> None:
    clock = Clock()
    limits = RateLimits(requests_per_minute=5, tokens_per_minute=100, concurrent=3)
    gate = gate_of(clock, limits={"k": limits}, server=limits, budgets={KEY: TEN, EU: Budget(amount=1, currency="EUR")})
    before = gate.limit_state("k"), gate.limit_state(None), gate.budget_states()
    refused(gate, call(clock), selection(candidate(policies=(Policy(id="eu"),))))
    assert (gate.limit_state("k"), gate.limit_state(None), gate.budget_states()) == before


def test_other_limits_keep_what_is_taken() -> None:
    clock = Clock()
    gate = gate_of(clock, limits={"k": RateLimits(requests_per_minute=1)}, budgets={KEY: TEN})
    made = call(clock, prompt=4, answer=1)
    gate.settle(admitted(gate, made), final(made, tokens=(4, 1)))
    more = Budget(amount=20, currency="EUR", period="day")
    gate.adopt(Terms(limits={"k": RateLimits(requests_per_minute=2)}, budgets={KEY: more}))
    assert gate.unread() == ()
    state = gate.budget_states()[0]
    assert (state.spent_nano, state.amount_nano) == (5 * NANO, 20 * NANO)
    admitted(gate, call(clock))
    assert refused(gate, call(clock)).status == 429


# -- a budget that begins to be watched while its period runs


def row(key: str, nano: int, currency: str = "EUR", policy: str | None = None) -> SpentRow:
    return SpentRow(key_name=key, policy_id=policy, currency=currency, nano=nano)


def late(call_id: str, nano: int) -> LateRow:
    return LateRow(key_name="k", policy_id=None, currency="EUR", nano=nano, call_id=call_id)


def test_a_budget_refuses_until_it_is_read_what_was_spent_of_it() -> None:
    clock = Clock()
    gate = gate_of(clock, budgets={KEY: TEN}, read=False)
    error = refused(gate, call(clock))
    assert (error.status, error.retry_after_s) == (503, 1.0)
    ((since_ns, until_ns),) = gate.unread()
    rows = (row("k", 3 * NANO), row("k", 9 * NANO, "USD"), row("other", 50 * NANO), row("k", NANO, policy="default"))
    gate.read(since_ns, until_ns, Spent(rows, ()))
    assert gate.budget_states()[0].spent_nano == 4 * NANO
    assert gate.unread() == ()


def test_calls_that_end_while_it_is_read_count_once() -> None:
    clock = Clock()
    gate = gate_of(clock, budgets={KEY: TEN}, read=False)
    ((since_ns, until_ns),) = gate.unread()
    written, unwritten = call(clock), call(clock)
    for made in (written, unwritten):
        gate.settle(None, final(made, tokens=(1, 0)))
    assert gate.watched_since(since_ns) <= written.ledger.opened.started_ns
    found = Spent((row("k", NANO),), (late(written.id, NANO), late("one of before", 2 * NANO)))
    gate.read(since_ns, until_ns, found)
    gate.read(since_ns, until_ns, found)
    assert gate.budget_states()[0].spent_nano == (1 + 2 + 1 + 1) * NANO


def test_a_period_that_begins_later_needs_no_reading() -> None:
    clock = Clock()
    gate = gate_of(clock, budgets={KEY: TEN})
    clock.unix_s += 86_400
    admitted(gate, call(clock))
    assert gate.unread() == ()


def test_a_clock_that_is_set_back_into_an_unknown_period_is_read_again() -> None:
    clock = Clock()
    gate = gate_of(clock, budgets={KEY: TEN})
    clock.unix_s -= 3 * 86_400
    assert refused(gate, call(clock)).status == 503
    assert len(gate.unread()) == 1


def test_what_was_spent_is_not_forgotten_by_a_clock_that_was_far_ahead_for_a_while() -> None:
    clock = Clock()
    gate = gate_of(clock, budgets={KEY: TEN})
    clock.unix_s += 86_400
    made = call(clock)
    gate.settle(admitted(gate, made), spent := final(made, tokens=(4, 5)))
    today_s = clock.unix_s
    for days in (5, 10, 15):
        clock.unix_s = today_s + days * 86_400
        far = call(clock, prompt=4, answer=1)
        gate.settle(admitted(gate, far), final(far, tokens=None))
    clock.unix_s = today_s
    assert refused(gate, call(clock)).status == 503
    (period,) = gate.unread()
    paid = LateRow(key_name="k", policy_id=None, currency="EUR", nano=9 * NANO, call_id=spent.id)
    gate.read(period.since_ns, period.until_ns, Spent((), (paid,)))
    assert refused(gate, call(clock)).status == 402


def test_an_attempt_after_one_that_had_its_price_is_paid_for_too() -> None:
    clock = Clock()
    gate = gate_of(clock, budgets={KEY: TEN})
    made = call(clock, prompt=4, answer=0)
    reservation = admitted(gate, made)
    assert gate.again(reservation, Cost(4 * NANO, "EUR"))
    assert gate.budget_states()[0].reserved_nano == 8 * NANO
    assert not gate.again(reservation, Cost(8 * NANO, "EUR"))
    assert gate.budget_states()[0].reserved_nano == 8 * NANO
    gate.settle(reservation, final(made, tokens=(8, 0)))
    state = gate.budget_states()[0]
    assert (state.reserved_nano, state.spent_nano) == (0, 8 * NANO)


def test_a_number_of_hundreds_of_digits_is_refused_like_any_other() -> None:
    clock = Clock()
    gate = gate_of(clock, budgets={KEY: TEN})
    assert refused(gate, call(clock, answer=10**400)).code == "budget_exceeded"


def test_the_end_of_a_call_looks_at_its_own_budgets_and_at_no_others() -> None:
    clock = Clock()
    gate = gate_of(clock, budgets={KEY: TEN, EU: TEN, Subject("key", "j"): TEN, Subject("policy", "us"): TEN})
    made = call(clock)
    gate.settle(admitted(gate, made), final(made, tokens=(4, 5), policy_id="eu+more"))
    assert [(b.name, b.spent_nano // NANO) for b in gate.budget_states()] == [("k", 9), ("eu", 9), ("j", 0), ("us", 0)]


def test_another_currency_is_another_budget() -> None:
    clock = Clock()
    gate = gate_of(clock, budgets={KEY: TEN})
    gate.adopt(Terms(budgets={KEY: Budget(amount=10, currency="USD", period="day")}))
    assert len(gate.unread()) == 1


def test_policy_rows_are_found_by_each_of_their_names() -> None:
    clock = Clock()
    gate = gate_of(clock, budgets={EU: TEN}, read=False)
    ((since_ns, until_ns),) = gate.unread()
    rows = (row("a", NANO, policy="eu+x"), row("b", NANO, policy="y+eu"), row("c", NANO, policy="eu2"))
    gate.read(since_ns, until_ns, Spent(rows, ()))
    assert gate.budget_states()[0].spent_nano == 2 * NANO


def test_terms_name_what_limits_something_and_nothing_else() -> None:
    text = """
        [keys.ci]
        key = "a-long-enough-secret"
        limits = { concurrent = 2 }
        budget = { amount = 5, currency = "EUR" }
        [keys.free]
        key = "another-long-secret"
        [policies.eu]
        budget = { amount = 7, currency = "EUR", period = "day", zone = "Europe/Berlin" }
        [limits]
        tokens_per_minute = 1000
        expected_output_tokens = 77
    """
    terms = terms_of(parse(text, "x.toml", {}, frozenset()), ())
    assert terms.limits == {"ci": RateLimits(concurrent=2)}
    assert set(terms.budgets) == {Subject("key", "ci"), EU}
    assert terms.server == RateLimits(tokens_per_minute=1000)
    assert terms.expected_output_tokens == 77

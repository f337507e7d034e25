"""Any order of calls, ends, pauses and changed terms: nothing is let in beyond a limit or a budget, nothing leaks.

The model beside the gate is a plain list of what was let in; each rule is checked against it, not against the gate.
"""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, precondition, rule

from rivermouth.config import Budget, RateLimits
from rivermouth.engine.call import Call
from rivermouth.engine.reservation import Reservation
from rivermouth.ir.errors import ApiError
from rivermouth.platform.periods import Period, period_at
from rivermouth.platform.terms import Subject, Terms
from rivermouth.platform.windows import KEPT_S, SPAN_S
from rivermouth.store.platform.port import Spent
from rivermouth.store.port import NANO
from tests.platform.calls import Clock, admitted, call, final
from tests.thorough import THOROUGH

KEY = Subject("key", "k")
REFUSALS = ((402, "budget_exceeded"), (429, "rate_limit_exceeded"), (413, "token_limit_too_small"))
COUNTED = st.one_of(st.none(), st.integers(1, 8))


class Entry:
    """One call that was let in."""

    def __init__(self, made: Call, reservation: Reservation, at_s: float, estimate: int) -> None:
        self.call = made
        self.reservation = reservation
        self.at_s = at_s
        self.tokens = estimate
        self.cost = 0
        self.running = True


class Gate(RuleBasedStateMachine):
    running = Bundle("running")

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.gate = self.clock.gate()
        self.entries: list[Entry] = []
        self.terms(None, None, None, 30)
        self.read()

    def read(self) -> None:
        """As at the start of a server without records."""
        for since_ns, until_ns in self.gate.unread():
            self.gate.read(since_ns, until_ns, Spent((), ()))

    @rule(
        requests=COUNTED,
        tokens=st.one_of(st.none(), st.integers(20, 60)),
        concurrent=COUNTED,
        amount=st.integers(0, 90),
    )
    def terms(self, requests: int | None, tokens: int | None, concurrent: int | None, amount: int) -> None:
        self.limits = RateLimits(requests_per_minute=requests, tokens_per_minute=tokens, concurrent=concurrent)
        self.budget = Budget(amount=amount, currency="EUR", period="day", zone="Europe/Berlin")
        self.gate.adopt(Terms(limits={"k": self.limits}, budgets={KEY: self.budget}))

    @rule(target=running, prompt=st.integers(4, 20), answer=st.integers(1, 20))
    def begin(self, prompt: int, answer: int) -> Entry | None:
        made, estimate = call(self.clock, prompt=prompt, answer=answer), prompt + answer
        now_s = self.clock.now_s()
        before = self.seen()
        try:
            reservation = admitted(self.gate, made)
        except ApiError as refused:
            self.was_right(refused, before, estimate, now_s)
            return None
        assert self.fits(estimate, now_s, slack_s=KEPT_S - SPAN_S)
        entry = Entry(made, reservation, now_s, estimate)
        self.entries.append(entry)
        return entry

    def was_right(self, refused: ApiError, before: object, estimate: int, now_s: float) -> None:
        assert self.seen() == before, "a refusal took something"
        assert not self.fits(estimate, now_s, slack_s=0), refused
        assert (refused.status, refused.code) in REFUSALS

    @rule(entry=consumes(running), tokens=st.one_of(st.none(), st.tuples(st.integers(0, 25), st.integers(0, 25))))
    def end(self, entry: Entry | None, tokens: tuple[int, int] | None) -> None:
        if entry is None:
            return
        record = final(entry.call, tokens=tokens)
        self.gate.settle(entry.reservation, record)
        entry.running = False
        entry.tokens = sum(tokens or ())
        entry.cost = record.price_nano or 0

    @rule(tokens=st.tuples(st.integers(0, 3), st.integers(0, 3)))
    def end_of_a_call_that_was_never_asked_about(self, tokens: tuple[int, int]) -> None:
        """One that began before the key had anything to keep: it is paid for all the same."""
        made = call(self.clock)
        record = final(made, tokens=tokens)
        self.gate.settle(None, record)
        entry = Entry(made, Reservation(selection=None), -1e9, 0)  # type: ignore[arg-type]
        entry.running, entry.cost = False, record.price_nano or 0
        self.entries.append(entry)

    @rule(pause_s=st.sampled_from((0.2, 1.0, 7.5, 30.0, 61.0, 40_000.0)))
    def pause(self, pause_s: float) -> None:
        self.clock.unix_s += pause_s

    @invariant()
    def everything_adds_up(self) -> None:
        (state,) = self.gate.budget_states()
        assert state.spent_nano == self.spent()
        assert state.reserved_nano == self.reserved()
        assert self.gate.limit_state("k").running == sum(e.running for e in self.entries if e.at_s >= 0)

    @precondition(lambda self: not any(e.running for e in self.entries))
    @invariant()
    def nothing_is_left_of_calls_that_ended(self) -> None:
        (state,) = self.gate.budget_states()
        assert state.reserved_nano == 0
        assert self.gate.limit_state("k").running == 0

    def teardown(self) -> None:
        for entry in self.entries:
            if entry.running:
                self.gate.settle(entry.reservation, final(entry.call, tokens=None))
        self.clock.unix_s += KEPT_S
        state = self.gate.limit_state("k")
        assert state.running == 0
        for quota in (state.allowance.requests, state.allowance.tokens):
            assert quota is None or (quota.remaining, quota.reset_s) == (quota.limit, 0.0)
        assert self.gate.budget_states()[0].reserved_nano == 0

    # the model

    def period(self) -> Period:
        return period_at("day", "Europe/Berlin", self.clock.now_ns())

    def today(self) -> list[Entry]:
        return [e for e in self.entries if self.period().holds(e.call.ledger.opened.started_ns)]

    def spent(self) -> int:
        return sum(e.cost for e in self.today())

    def reserved(self) -> int:
        return sum(hold.nano for e in self.today() if e.running for _, hold in e.reservation.held.holds)

    def fits(self, estimate: int, now_s: float, slack_s: float) -> bool:
        """By the list: would this call have kept every limit?  slack_s: how much later than a minute is forgotten."""
        recent = [e for e in self.entries if e.at_s >= 0 and now_s - e.at_s < KEPT_S - slack_s]
        checks = (
            (self.limits.requests_per_minute, len(recent) + 1),
            (self.limits.tokens_per_minute, sum(e.tokens for e in recent) + estimate),
            (self.limits.concurrent, sum(e.running for e in self.entries) + 1),
            (self.budget.amount * NANO, self.spent() + self.reserved() + estimate * NANO),
        )
        return all(limit is None or value <= limit for limit, value in checks)

    def seen(self) -> tuple[object, ...]:
        """Without what passes with time alone."""
        (state,) = self.gate.budget_states()
        limits = self.gate.limit_state("k")
        return state, limits


TestGate = pytest.mark.thorough(quick=True)(Gate.TestCase)
TestGate.settings = settings(max_examples=1000 if THOROUGH else 50, stateful_step_count=30, deadline=None)

"""The engine's `Gate`: limits and budgets, for the key of the call, for its policies, and for the whole server.

    admit    what the call may come to is estimated; who has no price that a budget could be kept with is left out;
             every limit and every budget is asked; if all consent, all are taken from, else none is
    settle   the tokens and the money are corrected to what the record says

All of it happens on the event loop and awaits nothing, so two calls cannot be let in with the same last token.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final, Literal

import msgspec

from rivermouth.config import Budget, Price, RateLimits
from rivermouth.engine.call import Call
from rivermouth.engine.reservation import Reservation
from rivermouth.ir.allowance import Allowance
from rivermouth.ir.errors import Kind
from rivermouth.ir.request import EmbedRequest, Request
from rivermouth.platform.budgets import LATE_NS, Book, Hold, subjects_of
from rivermouth.platform.estimate import Estimate, estimate, weigh
from rivermouth.platform.meters import Meter, Pledge
from rivermouth.platform.periods import Period
from rivermouth.platform.terms import NO_LIMITS, Subject, Terms
from rivermouth.routing.cost import Cost
from rivermouth.routing.endpoint import Candidate
from rivermouth.routing.policy import Refused, Selection, Verdict
from rivermouth.store.platform.port import Spent
from rivermouth.store.port import NANO, CallRecord

SERVER: Final = "this server"


class LimitState(msgspec.Struct, frozen=True, kw_only=True):
    """What is taken of the limits.  key: None for the whole server.  allowance: what is left.  running: calls."""

    key: str | None
    limits: RateLimits
    allowance: Allowance
    running: int


class BudgetState(msgspec.Struct, frozen=True, kw_only=True):
    """How a budget stands in its present period; money in billionths of the currency, times in Unix nanoseconds.

    known: False while it is still being read what was spent before the server started.
    """

    kind: Literal["key", "policy"]
    name: str
    budget: Budget
    amount_nano: int
    spent_nano: int
    reserved_nano: int
    since_ns: int
    until_ns: int
    known: bool


class Held(msgspec.Struct, frozen=True):
    """What one call was let in with."""

    estimate: Estimate
    pledges: list[Pledge]
    holds: list[tuple[Book, Hold]]


class PlatformGate:
    """now_s: seconds of a clock that never goes back.  clock_ns: Unix nanoseconds."""

    def __init__(
        self, *, now_s: Callable[[], float] = time.monotonic, clock_ns: Callable[[], int] = time.time_ns
    ) -> None:
        self._now_s = now_s
        self._clock_ns = clock_ns
        self._terms = Terms()
        self._server = Meter(SERVER)
        self._meters: dict[str, Meter] = {}
        self._books: dict[tuple[str, str], Book] = {}
        self.active = False

    # what the engine asks

    @property
    def weigh(self) -> Callable[[Request | EmbedRequest], int]:
        return weigh

    def admit(self, call: Call, selection: Selection) -> Reservation:
        opened, terms, now_s = call.ledger.opened, self._terms, self._now_s()
        books = self._books_of(opened.key_name, selection.candidates)
        meters = self._meters_of(opened.key_name)
        try:
            guess = estimate(call.request, terms.expected_output_tokens, call.asked.of(weigh))
            if books:
                selection = affordable(call.request.model, selection, books)
            costs = dearest(books, selection.candidates, guess)
            tokens = guess.total
            for limits, meter in meters:
                if (refusal := meter.refusal(limits, tokens, now_s)) is not None:
                    raise refusal
            for book, nano in costs:
                if (refusal := book.refusal(nano, opened.started_ns)) is not None:
                    raise refusal
            pledges = [meter.take(tokens, now_s) for _, meter in meters]
            holds = [(book, book.reserve(nano, opened.started_ns)) for book, nano in costs]
            return Reservation(selection, Held(guess, pledges, holds))
        finally:
            if meters and meters[0][1] is not self._server:
                limits, own = meters[0]
                call.allowance = own.allowance(limits, now_s)

    def settle(self, reservation: Reservation | None, final: CallRecord) -> None:
        for subject in subjects_of(final):
            book = self._books.get(subject)
            if book is not None:
                book.spend(final)
        if reservation is None:
            return
        held, now_s = reservation.held, self._now_s()
        tokens = came_to(final, held.estimate)
        for pledge in held.pledges:
            pledge.meter.settle(pledge, tokens, now_s)
        for _, hold in held.holds:
            hold.account.reserved -= hold.nano

    def again(self, reservation: Reservation, paid: Cost) -> bool:
        return all(book.extend(hold, paid) for book, hold in reservation.held.holds)

    # what it is told

    def adopt(self, terms: Terms) -> None:
        """From now on these hold.  What is taken and spent stays so."""
        self._terms = terms
        self._meters = {name: self._meters.get(name) or Meter(f"the key '{name}'") for name in terms.limits}
        self._books = {subject: self._book(subject, budget) for subject, budget in terms.budgets.items()}
        self.active = not terms.empty
        for book in self._books.values():
            book.account(self._clock_ns())

    def unread(self) -> tuple[Period, ...]:
        """Periods of budgets of which it is not known yet what was spent in them."""
        return tuple(dict.fromkeys(period for book in self._books.values() for period in book.unread()))

    def watched_since(self, since_ns: int) -> int:
        """Every call that ended later than this, and counts in the unread period that began then, was told here, or was
        not written when the period is read.
        """
        books = [b for b in self._books.values() if any(p.since_ns == since_ns for p in b.unread())]
        return min((book.watched_ns for book in books), default=self._clock_ns()) - LATE_NS

    def read(self, since_ns: int, until_ns: int, spent: Spent) -> None:
        """What the records say was spent in that period, the ones that were written before this was asked."""
        for book in self._books.values():
            book.read(Period(since_ns, until_ns), spent)

    # what it tells

    def limit_state(self, key: str | None) -> LimitState:
        """What is taken of a key's limits; None: of the server's."""
        limits = self._terms.server if key is None else self._terms.limits.get(key, NO_LIMITS)
        meter = self._server if key is None else self._meters.get(key) or Meter(key)
        return LimitState(
            key=key, limits=limits, allowance=meter.allowance(limits, self._now_s()), running=meter.running
        )

    def budget_states(self) -> tuple[BudgetState, ...]:
        """Every budget, as it stands now."""
        now_ns = self._clock_ns()
        return tuple(_state(book, now_ns) for book in self._books.values())

    def _book(self, subject: Subject, budget: Budget) -> Book:
        book = self._books.get(subject)
        if book is None or not book.same_money(budget):
            return Book(subject, budget, self._clock_ns())
        book.renew(budget)
        return book

    def _meters_of(self, key: str | None) -> list[tuple[RateLimits, Meter]]:
        """The key's first."""
        found = []
        limits = self._terms.limits.get(key) if key is not None else None
        if key is not None and limits is not None:
            found.append((limits, self._meters[key]))
        if self._terms.server != NO_LIMITS:
            found.append((self._terms.server, self._server))
        return found

    def _books_of(self, key: str | None, candidates: Iterable[Candidate]) -> list[Book]:
        """Each once: the key's, then those of the policies, as the candidates have them."""
        if not self._books:
            return []
        subjects = [("key", key)] if key is not None else []
        subjects += dict.fromkeys([("policy", p.id) for c in candidates for p in c.policies])
        return [book for subject in subjects if (book := self._books.get(subject)) is not None]


def affordable(model: str, selection: Selection, books: list[Book]) -> Selection:
    """Without the candidates with whose price a budget of theirs cannot be kept.

    Raises `Refused` where nobody is left.
    """
    unfit = {id(c): faults for c in selection.candidates if (faults := _unpriced(c, books))}
    if not unfit:
        return selection
    verdicts = tuple(
        Verdict(v.candidate, unfit[id(v.candidate)]) if not v.refusals and id(v.candidate) in unfit else v
        for v in selection.verdicts
    )
    left = tuple(c for c in selection.candidates if id(c) not in unfit)
    if not left:
        raise Refused(
            Kind.PERMISSION, f"no endpoint for '{model}' has a price that fits", verdicts, code="price_refused"
        )
    return Selection(left, verdicts)


def _unpriced(candidate: Candidate, books: list[Book]) -> tuple[str, ...]:
    price = candidate.endpoint.price
    found = []
    for book in books:
        if not _holds_for(book, candidate):
            continue
        wanted = book.budget.currency
        if price is None and book.budget.unpriced == "refuse":
            found.append(f"budget of {book.subject}: its price is not known")
        elif price is not None and price.currency != wanted:
            found.append(f"budget of {book.subject}: its price is in {price.currency}, the budget in {wanted}")
    return tuple(found)


def dearest(books: Iterable[Book], candidates: Iterable[Candidate], guess: Estimate) -> list[tuple[Book, int]]:
    """What the call may cost at most, in billionths, where each of these budgets has to pay for it."""
    prices = [(c, _nano(c.endpoint.price, guess)) for c in candidates]
    return [(book, max([nano for c, nano in prices if _holds_for(book, c)], default=0)) for book in books]


def came_to(final: CallRecord, guess: Estimate) -> int:
    """Tokens of a call that has ended: what is known of them, and the estimate of a prompt that was answered."""
    if final.output_tokens is None:
        return final.input_tokens or 0
    return (final.input_tokens if final.input_tokens is not None else guess.input) + final.output_tokens


def _nano(price: Price | None, guess: Estimate) -> int:
    return round(price.cost(guess.input, guess.output) * NANO) if price is not None else 0


def _holds_for(book: Book, candidate: Candidate) -> bool:
    kind, name = book.subject
    return kind == "key" or name in [p.id for p in candidate.policies]


def _state(book: Book, now_ns: int) -> BudgetState:
    account = book.account(now_ns)
    return BudgetState(
        kind=book.subject.kind,
        name=book.subject.name,
        budget=book.budget,
        amount_nano=book.amount_nano,
        spent_nano=account.spent,
        reserved_nano=account.reserved,
        since_ns=account.period.since_ns,
        until_ns=account.period.until_ns,
        known=account.known,
    )

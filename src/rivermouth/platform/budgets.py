"""Budgets: what is spent of them and what is reserved.  Pure: the time is an argument.

    admitted  -> the call's estimate is reserved; it must fit beside all that is spent and reserved
    ended     -> the reservation is given back, and what the record says the call cost is spent

A call counts in the period in which it started, whenever it ends, and it counts as its record does: so the sum of the
records of a period *is* what is spent in it, and a server that was killed knows it again from them.  A budget that
begins to be watched while its period runs is closed until that sum is read (`Book.read`).  Calls that end meanwhile are
counted here and left out there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeVar

import msgspec

from rivermouth.config import Budget
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.platform.periods import NS, Period, period_at
from rivermouth.platform.terms import Subject
from rivermouth.routing.cost import Cost
from rivermouth.store.platform.port import Spent, SpentRow
from rivermouth.store.port import NANO, CallRecord

R = TypeVar("R", bound=SpentRow)

READING_RETRY_S: Final = 1.0
SOON_S: Final = 5.0
"""When to try again where calls that run hold what is missing."""
PERIODS_KEPT: Final = 2
LATE_NS: Final = 600 * NS
"""How long before it is written down a call may have ended: it waits for its upstream to confirm that it stopped."""


class Account:
    """One period of a budget, in billionths.  known: what was spent before it was watched is in `spent`."""

    __slots__ = ("known", "late", "period", "reserved", "spent")

    def __init__(self, period: Period, *, known: bool) -> None:
        self.period = period
        self.known = known
        self.spent = 0
        self.reserved = 0
        self.late: dict[str, int] = {}
        """What calls cost that ended here before it was known."""


class Hold(msgspec.Struct):
    """What one call has reserved: what an attempt may cost, and what those before it did."""

    account: Account
    attempt_nano: int
    nano: int


class Book:
    """The budget of one subject.  watched_ns: since when every call that ends is told here."""

    def __init__(self, subject: Subject, budget: Budget, watched_ns: int) -> None:
        self.subject = subject
        self.renew(budget)
        self.watched_ns = watched_ns
        self._accounts: dict[int, Account] = {}
        self._forgotten_ns = 0
        self._last: Account | None = None

    def renew(self, budget: Budget) -> None:
        """So much there is from now on."""
        self.budget = budget
        self.amount_nano = round(budget.amount * NANO)

    def same_money(self, budget: Budget) -> bool:
        """What was spent of the one is spent of the other: only how much there is may differ."""
        return self._kind() == (budget.currency, budget.period, budget.zone)

    def _kind(self) -> tuple[str, str, str]:
        return self.budget.currency, self.budget.period, self.budget.zone

    def account(self, at_ns: int) -> Account:
        """Of the period in which that moment is."""
        last = self._last
        if last is not None and last.period.holds(at_ns):
            return last
        period = period_at(self.budget.period, self.budget.zone, at_ns)
        found = self._accounts.get(period.since_ns)
        if found is None:
            found = self._accounts[period.since_ns] = Account(period, known=self._knows(period))
            for old in sorted(self._accounts)[:-PERIODS_KEPT]:
                if old != period.since_ns and not self._accounts[old].reserved:
                    self._forgotten_ns = max(self._forgotten_ns, self._accounts.pop(old).period.until_ns)
        self._last = found
        return found

    def _knows(self, period: Period) -> bool:
        """Nothing was spent in it yet: it began under our eyes, and is none that was forgotten and is here again, as it
        may be when a clock was far ahead for a while."""
        return period.since_ns >= max(self.watched_ns, self._forgotten_ns)

    def refusal(self, nano: int, at_ns: int) -> ApiError | None:
        """Why a call that may cost so much may not begin; None if it may."""
        account, amount = self.account(at_ns), self.amount_nano
        if not account.known:
            text = f"what {self.subject} has spent is being read"
            return ApiError(Kind.OVERLOADED, text, retry_after_s=READING_RETRY_S)
        if account.spent + account.reserved + nano <= amount:
            return None
        wait_s: float | None = None
        if account.spent + nano <= amount:
            wait_s = SOON_S
        elif nano <= amount:
            wait_s = max((account.period.until_ns - at_ns) / NS, 1.0)
        left = max(amount - account.spent - account.reserved, 0) / NANO
        text = (
            f"the budget of {self.subject} is {self.budget.amount:g} {self.budget.currency} a {self.budget.period}; "
            f"{left:.6g} are left, and this call may cost {nano / NANO:.6g}"
        )
        return ApiError(Kind.RATE_LIMITED, text, status=402, code="budget_exceeded", retry_after_s=wait_s)

    def reserve(self, nano: int, at_ns: int) -> Hold:
        account = self.account(at_ns)
        account.reserved += nano
        return Hold(account, nano, nano)

    def extend(self, hold: Hold, paid: Cost) -> bool:
        """The call has come to so much and wants another attempt: that is reserved too, if it fits."""
        nano = hold.attempt_nano + (paid.nano if paid.currency == self.budget.currency else 0)
        more = nano - hold.nano
        if more > 0 and hold.account.spent + hold.account.reserved + more > self.amount_nano:
            return False
        hold.account.reserved += max(more, 0)
        hold.nano += max(more, 0)
        return True

    def spend(self, final: CallRecord) -> None:
        """The call has ended."""
        if final.price_currency != self.budget.currency or not final.price_nano:
            return
        account = self.account(final.started_ns)
        account.spent += final.price_nano
        if not account.known:
            account.late[final.id] = final.price_nano

    def unread(self) -> list[Period]:
        """Periods of which it is not known what was spent in them before they were watched."""
        return [account.period for account in self._accounts.values() if not account.known]

    def read(self, period: Period, spent: Spent) -> None:
        """What the records say of that period."""
        account = self._accounts.get(period.since_ns)
        if account is None or account.known or account.period != period:
            return
        account.spent += sum(row.nano for row in self._own(spent.sums))
        account.spent += sum(row.nano for row in self._own(spent.late) if row.call_id not in account.late)
        account.late.clear()
        account.known = True

    def _own(self, rows: Iterable[R]) -> Iterable[R]:
        return (row for row in rows if row.currency == self.budget.currency and self.subject in subjects_of(row))


def subjects_of(row: SpentRow | CallRecord) -> list[tuple[str, str]]:
    """Whose the call was: of a key, and of every policy under which it was made."""
    found = [("key", row.key_name)] if row.key_name is not None else []
    if row.policy_id is not None:
        found += [("policy", name) for name in row.policy_id.split("+")]
    return found

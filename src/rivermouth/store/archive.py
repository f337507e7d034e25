"""The records as those who answer for them need them: in pages, in sums, with their texts, and gone when they must be.

`CallStore` is what a running call writes by; this port is for everybody else.  Its reads may be called from any thread
and beside any writer.  Its writes take few rows at a time, so that whoever records calls never waits long, and what
they delete is overwritten, in the database and in its log.

A page is found by an index and a walk along it, `WALK_ROWS` calls at most: a filter that hardly any call passes gives a
short page, or an empty one, and the place to go on from.  So no page costs more for there being more calls.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import Final, Protocol

import msgspec

from rivermouth.store.port import CallFilter, CallRecord, CallText, Status, amount

WALK_ROWS: Final = 20_000
DAYS_CAP: Final = 800
SUMS_CAP: Final = 100_000
ERASED: Final = "(erased)"
"""The name of the key of a call from which what led to a person has been taken out."""


class Place(msgspec.Struct, frozen=True):
    """Between two calls of the list, the newest first: after this one."""

    started_ns: int
    seq: int


class Page(msgspec.Struct, frozen=True):
    """Calls with their attempts, the newest first.  next: where the next page begins; None when there is none."""

    calls: tuple[CallRecord, ...]
    next: Place | None


class Group(StrEnum):
    """What sums can be made by."""

    DAY = "day"
    MODEL = "model"
    KEY = "key"
    PROVIDER = "provider"
    ENDPOINT = "endpoint"
    POLICY = "policy"
    STATUS = "status"


class Day(msgspec.Struct, frozen=True):
    """A day of some time zone: [since, until) in Unix nanoseconds."""

    name: str
    since_ns: int
    until_ns: int


class Sums(msgspec.Struct, frozen=True, kw_only=True):
    """Sums over the calls of one group, one status and one currency.

    group: what the calls have in common, in the order asked for; None where a call has none.
    Sums are over the known values; `estimated` and `at_least` say how many of the calls carry such a number.
    """

    group: tuple[str | None, ...]
    status: Status
    currency: str | None
    calls: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    reasoning_tokens: int
    price_nano: int
    priced: int
    price_estimated: int
    estimated: int
    at_least: int

    @property
    def price_amount(self) -> float | None:
        """In units of the currency; None where no call had a price."""
        return amount(self.price_nano) if self.priced else None


class Keeping(msgspec.Struct, frozen=True, kw_only=True):
    """What may still be there.  Times are Unix nanoseconds; None: however old.

    calls_since_ns, texts_since_ns: of calls that started then or later.  texts: any text may be.
    mute_policies, mute_endpoints: of calls that these held for, or that went there, no text may be, and no answer.
    answers: answers may be kept that clients can ask for again.  answers_since_ns: of such that began then or later.
    now_ns: those whose own time has come may not.
    answers_of_policies, answers_of_endpoints: as answers_since_ns, for calls that these held for, or that went there.
    """

    calls_since_ns: int | None = None
    texts_since_ns: int | None = None
    texts: bool = True
    answers: bool = True
    answers_since_ns: int | None = None
    now_ns: int | None = None
    answers_of_policies: Mapping[str, int] = {}
    answers_of_endpoints: Mapping[str, int] = {}
    mute_policies: Collection[str] = ()
    mute_endpoints: Collection[str] = ()


class Purged(msgspec.Struct, frozen=True):
    """How many records, and how many texts and kept answers beside those, are gone."""

    calls: int
    texts: int
    answers: int = 0


class Erased(msgspec.Struct, frozen=True):
    """calls: from so many records what led to a person was taken out.  texts, answers: so many are gone with it.

    running: so many have not ended, and are as they were: to be asked for again.
    """

    calls: int
    texts: int
    running: int
    answers: int = 0


class CallArchive(Protocol):
    """The port.  Every method may block.  Raises `StoreError`."""

    def page(self, limit: int, where: CallFilter = ..., after: Place | None = None) -> Page:
        """At most `limit` calls behind `after`.  Whoever follows `next` meets each call that was there at the first
        page exactly once, however many are added meanwhile."""
        ...

    def get(self, call_id: str) -> CallRecord | None:
        """The call with its attempts."""
        ...

    def text(self, call_id: str) -> CallText | None:
        """What was said in it, if that is kept."""
        ...

    def sums(
        self, by: Sequence[Group], days: Sequence[Day], where: CallFilter = ..., limit: int = ...
    ) -> Sequence[Sums]:
        """Sums by these groups, status and currency, in their order; the first `limit` of them.

        days: with `Group.DAY`, the days that are meant, at most `DAYS_CAP`; other calls are in none of them.
        """
        ...

    def purge(self, keeping: Keeping) -> Purged:
        """Deletes what may not be there any more; calls that run are left."""
        ...

    def erase(self, where: CallFilter) -> Erased:
        """Takes out of these calls what leads to a person: texts, kept answers, messages, the client's ids, the key's
        name.

        What they cost and used stays, so sums are what they were.
        """
        ...

    def fact(self, name: str, new: str) -> str:
        """The value of that name; `new` becomes it where there is none."""
        ...

    def dispose(self) -> None:
        """Release connections.  Idempotent."""
        ...

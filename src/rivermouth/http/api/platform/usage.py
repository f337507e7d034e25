"""What was used and what it cost: sums of the records, by whatever they have in common."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta, tzinfo
from typing import Annotated, Final

import msgspec
from litestar import get
from litestar.handlers import HTTPRouteHandler
from litestar.params import QueryParameter

from rivermouth.config.zones import zone_of
from rivermouth.http.api.platform.asking import least
from rivermouth.http.api.platform.days import days
from rivermouth.http.api.platform.desk import Desk
from rivermouth.http.api.platform.filters import FILTERED, LARGEST, Filtered
from rivermouth.http.api.platform.shapes import Money, moment
from rivermouth.ir.errors import invalid
from rivermouth.store.archive import DAYS_CAP, Group, Sums
from rivermouth.store.port import NANO, CallFilter, Status

LATELY: Final = timedelta(days=30)
GROUPS_CAP: Final = 20_000

By = Annotated[
    list[Group] | None,
    QueryParameter(description="What to sum by, as often as wanted; without it by day.", max_items=len(Group)),
]
Zone = Annotated[
    str, QueryParameter(description="Whose days are meant, as in Europe/Berlin.", min_length=1, max_length=100)
]


class Calls(msgspec.Struct, frozen=True, kw_only=True):
    """How many, and how they ended."""

    total: int
    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    interrupted: int = 0
    open: int = 0


class Used(msgspec.Struct, frozen=True, kw_only=True):
    """Sums over what is known.  estimated_calls: of so many the tokens were counted here; at_least_calls: so many may
    have had more.
    """

    input: int
    output: int
    cached: int
    reasoning: int
    estimated_calls: int
    at_least_calls: int


class UsageRow(msgspec.Struct, frozen=True, kw_only=True):
    """group: what these calls have in common; null where a call has none.  unpriced_calls: so many cost what is not
    known.
    """

    group: dict[str, str | None]
    calls: Calls
    tokens: Used
    cost: list[Money]
    unpriced_calls: int


class UsageList(msgspec.Struct, frozen=True, kw_only=True):
    """since, until: what was summed.  total: all rows together.  next: always null; the list is whole."""

    since: datetime
    until: datetime
    zone: str
    data: list[UsageRow]
    total: UsageRow
    next: str | None = None


class Question(msgspec.Struct, frozen=True):
    """A question for sums, complete."""

    by: tuple[Group, ...]
    where: CallFilter
    zone_name: str
    zone: tzinfo

    @property
    def since_ns(self) -> int:
        return self.where.since_ns or 0

    @property
    def until_ns(self) -> int:
        return self.where.until_ns or 0


def routes(desk: Desk) -> list[HTTPRouteHandler]:
    @get("/platform/v1/usage", guards=[least("user")], tags=["usage"], dependencies=FILTERED)
    async def usage(
        where: Filtered,
        group_by: By = None,
        zone: Zone = "UTC",
    ) -> UsageList:
        """Calls, tokens and cost of the last 30 days, or of another time.  Cancelled, failed and interrupted calls are
        in it, each counted as what it was.
        """
        question = complete(group_by, where, zone, desk.now_ns())
        return await asyncio.to_thread(_answered, desk, question)

    return [usage]


def _answered(desk: Desk, question: Question) -> UsageList:
    """Blocks."""
    sums = summed(desk, question)
    return UsageList(
        since=moment(question.since_ns),
        until=moment(question.until_ns),
        zone=question.zone_name,
        data=rows(sums, question.by),
        total=merged({}, sums),
    )


def complete(by: Sequence[Group] | None, where: Filtered, zone: str, now_ns: int) -> Question:
    """The question with what it left out.  Raises `ApiError` for one that cannot be answered."""
    try:
        known = zone_of(zone)
    except ValueError as error:
        raise invalid(str(error), "zone", "unknown_zone") from None
    until_ns = where.until_ns if where.until_ns is not None else now_ns + 1
    since_ns = where.since_ns if where.since_ns is not None else max(until_ns - int(LATELY.total_seconds()) * NANO, 0)
    groups = tuple(dict.fromkeys(by)) if by else (Group.DAY,)
    if Group.DAY in groups and until_ns - since_ns > (DAYS_CAP - 2) * 86_400 * NANO:
        raise invalid(f"sums by day are made of {DAYS_CAP - 2} days at most; ask with since and until", "since")
    return Question(groups, msgspec.structs.replace(where, since_ns=since_ns, until_ns=until_ns), zone, known)


def summed(desk: Desk, question: Question) -> Sequence[Sums]:
    """The sums.  Blocks.  Raises `ApiError` where there are more groups than anybody reads."""
    until_ns = min(question.until_ns, LARGEST)
    calendar = days(question.since_ns, until_ns, question.zone) if Group.DAY in question.by else []
    found = desk.archive.sums(question.by, calendar, question.where, GROUPS_CAP + 1)
    if len(found) > GROUPS_CAP:
        raise invalid(f"these are more than {GROUPS_CAP} groups; ask for fewer, or for a shorter time", "group_by")
    return found


def rows(sums: Sequence[Sums], by: Sequence[Group]) -> list[UsageRow]:
    """One row for each group, in the order of the sums."""
    together: dict[tuple[str | None, ...], list[Sums]] = {}
    for each in sums:
        together.setdefault(each.group, []).append(each)
    names = [group.value for group in by]
    return [merged(dict(zip(names, group, strict=True)), found) for group, found in together.items()]


def merged(group: dict[str, str | None], sums: Sequence[Sums]) -> UsageRow:
    """Sums of several statuses and currencies as one row; money of two currencies stays apart."""
    by_status = {status: sum(s.calls for s in sums if s.status is status) for status in Status}
    return UsageRow(
        group=group,
        calls=Calls(total=sum(by_status.values()), **{status.value: count for status, count in by_status.items()}),
        tokens=Used(
            input=sum(s.input_tokens for s in sums),
            output=sum(s.output_tokens for s in sums),
            cached=sum(s.cached_tokens for s in sums),
            reasoning=sum(s.reasoning_tokens for s in sums),
            estimated_calls=sum(s.estimated for s in sums),
            at_least_calls=sum(s.at_least for s in sums),
        ),
        cost=list(_costs(sums)),
        unpriced_calls=sum(s.calls - s.priced for s in sums),
    )


def _costs(sums: Sequence[Sums]) -> Iterable[Money]:
    for currency in sorted({s.currency for s in sums if s.currency is not None and s.priced}):
        mine = [s for s in sums if s.currency == currency]
        nano, guessed = sum(s.price_nano for s in mine), any(s.price_estimated for s in mine)
        yield Money(nano / NANO, currency, "estimated" if guessed else "measured")

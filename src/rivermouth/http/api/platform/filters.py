"""The filters that lists, sums and exports of calls have in common: parameters, and the store's filter made of them."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Final

import msgspec
from litestar.di import NamedDependency, Provide
from litestar.params import QueryParameter

from rivermouth.http.api.platform.asking import Asked, visitor
from rivermouth.ir.errors import Kind, invalid
from rivermouth.store.archive import Place
from rivermouth.store.port import NANO, CallFilter, Status

LARGEST: Final = 7_258_118_400 * NANO
"""The year 2200: what a store can hold, and a day behind it too."""
_CURSOR: Final = re.compile(r"([0-9]{1,19})-([0-9]{1,19})")

MOMENT: Final = {"oneOf": [{"type": "string", "format": "date-time"}, {"type": "null"}]}

OfStatus = Annotated[Status | None, QueryParameter(description="How the call stands.")]
OfKind = Annotated[Kind | None, QueryParameter(description="What a failed call failed of.")]
OfModel = Annotated[
    str | None, QueryParameter(description="The model's name, as asked for or as used.", min_length=1, max_length=300)
]
OfProvider = Annotated[str | None, QueryParameter(description="Who was asked last.", min_length=1, max_length=300)]
OfEndpoint = Annotated[
    str | None, QueryParameter(description="Which endpoint was asked last.", min_length=1, max_length=300)
]
OfPolicy = Annotated[str | None, QueryParameter(description="A policy that held.", min_length=1, max_length=300)]
OfKey = Annotated[str | None, QueryParameter(description="The name of the key.", min_length=1, max_length=300)]
Since = Annotated[str | None, QueryParameter(description="Only calls that started then or later.", schema_extra=MOMENT)]
Until = Annotated[str | None, QueryParameter(description="Only calls that started before.", schema_extra=MOMENT)]
Limit = Annotated[int, QueryParameter(description="At most so many.", ge=1, le=500)]
After = Annotated[
    str | None, QueryParameter(description="The `next` of the page before.", pattern="^[0-9]{1,19}-[0-9]{1,19}$")
]


async def wanted(
    request: Asked,
    status: OfStatus = None,
    kind: OfKind = None,
    model: OfModel = None,
    provider: OfProvider = None,
    endpoint: OfEndpoint = None,
    policy: OfPolicy = None,
    key_name: OfKey = None,
    since: Since = None,
    until: Until = None,
) -> CallFilter:
    """The filter, as whoever asks may use it."""
    where = CallFilter(
        status=status,
        kind=kind,
        model=model,
        provider=provider,
        endpoint_id=endpoint,
        policy=policy,
        key_name=key_name,
        since_ns=unix_ns(_moment(since, "since"), "since"),
        until_ns=unix_ns(_moment(until, "until"), "until"),
    )
    return visitor(request).narrowed(where)


Filtered = NamedDependency[CallFilter]
FILTERED: Final = {"where": Provide(wanted)}
"""For routes that take `where: Filtered`: all of these are parameters of theirs."""


def _moment(text: str | None, param: str) -> datetime | None:
    """A moment as RFC 3339 writes it, and in no other way."""
    if text is None:
        return None
    try:
        return msgspec.convert(text, datetime)
    except msgspec.ValidationError:
        raise invalid(f"{param} is a moment as in 2026-01-31T12:00:00Z", param) from None


def unix_ns(moment: datetime | None, param: str) -> int | None:
    """A moment that says its zone, as the store has it; before and after all calls where it is out of reach."""
    if moment is None:
        return None
    if moment.tzinfo is None:
        raise invalid(f"{param} needs its offset from UTC, as in 2026-01-31T12:00:00Z", param)
    return min(max(int(moment.timestamp()) * NANO + moment.microsecond * 1000, 0), LARGEST)


def place(after: str | None) -> Place | None:
    """Raises `ApiError` for what is no cursor."""
    if after is None:
        return None
    found = _CURSOR.fullmatch(after)
    if found is None:
        raise invalid("after is the `next` of another page", "after")
    return Place(min(int(found[1]), LARGEST), min(int(found[2]), LARGEST))

"""The log of changes to keys."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final

import msgspec
from litestar import get
from litestar.handlers import HTTPRouteHandler
from litestar.params import QueryParameter

from rivermouth.http.api.platform.asking import Asked, least
from rivermouth.http.api.platform.desk import Desk
from rivermouth.http.api.platform.shapes import maybe_moment, moment
from rivermouth.store.platform.port import ChangeRow
from rivermouth.wire import json

Entries = Annotated[int, QueryParameter(description="At most so many.", ge=1, le=500)]
Before = Annotated[str | None, QueryParameter(description="The `next` of the page before.", pattern="^[0-9]{1,18}$")]
Target = Annotated[
    str | None, QueryParameter(description="Only changes of the thing with this id.", min_length=1, max_length=200)
]


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of the log of changes.  before, after: what is another; null where there was nothing."""

    id: str
    at: datetime
    who: str
    action: str
    target: str
    name: str
    before: Any
    after: Any


class ChangeList(msgspec.Struct, frozen=True):
    data: list[Change]
    next: str | None


def routes(desk: Desk) -> list[HTTPRouteHandler]:
    @get("/platform/v1/changes", guards=[least("auditor")], tags=["keys"])
    async def changes(request: Asked, limit: Entries = 50, after: Before = None, target: Target = None) -> ChangeList:
        """Who changed what, the newest first."""
        rows = await desk.platform.changes(limit + 1, int(after) if after is not None else None, target)
        more = str(rows[limit - 1].seq) if len(rows) > limit else None
        return ChangeList([_change(row) for row in rows[:limit]], more)

    return [changes]


def _change(row: ChangeRow) -> Change:
    return Change(
        id=str(row.seq),
        at=moment(row.at_ns),
        who=row.who,
        action=row.action,
        target=row.target,
        name=row.name,
        before=_told(json.decode(row.before.encode())),
        after=_told(json.decode(row.after.encode())),
    )


MOMENTS: Final = {
    "created_ns": "created_at",
    "expires_ns": "expires_at",
    "revoked_ns": "revoked_at",
    "old_until_ns": "old_secret_until",
}
"""What the log of changes has in nanoseconds, by the names that a key's document has for it."""


def _told(values: Any) -> Any:
    """What the log has of a key, as a key's document says it."""
    if not isinstance(values, dict):
        return values
    return {
        MOMENTS.get(name, name): maybe_moment(value) if name in MOMENTS else value for name, value in values.items()
    }

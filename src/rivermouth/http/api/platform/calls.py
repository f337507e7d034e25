"""The records of calls: in pages, and one with everything."""

from __future__ import annotations

import asyncio

from litestar import get
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath

from rivermouth.http.api.platform.asking import Asked, least, visitor
from rivermouth.http.api.platform.desk import Desk
from rivermouth.http.api.platform.filters import FILTERED, After, Filtered, Limit, place
from rivermouth.http.api.platform.shapes import CallDocument, CallList, cursor, document, summary
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.store.archive import Place
from rivermouth.store.port import CallFilter


def routes(desk: Desk) -> list[HTTPRouteHandler]:
    @get("/platform/v1/calls", guards=[least("user")], tags=["calls"], dependencies=FILTERED)
    async def calls(
        where: Filtered,
        limit: Limit = 50,
        after: After = None,
    ) -> CallList:
        """Calls, the newest first.  A page is a walk of bounded length: where few calls match it may be short, or
        empty, and still have a `next`.
        """
        return await asyncio.to_thread(_listed, desk, limit, where, place(after))

    @get("/platform/v1/calls/{call_id:str}", guards=[least("user")], tags=["calls"])
    async def call(request: Asked, call_id: FromPath[str]) -> CallDocument:
        """One call, by its id: the trace_id of its routing block, the x-request-id of its answer.  With its attempts,
        every candidate and why, its routing block, and what was said, where that is kept.
        """
        found = await asyncio.to_thread(desk.archive.get, call_id)
        here = visitor(request)
        own = here.caller.name if here.caller is not None else None
        if found is None or not (here.may("auditor") or (own is not None and found.key_name == own)):
            raise ApiError(Kind.NOT_FOUND, f"there is no call '{call_id[:100]}'", code="call_not_found")
        return document(found, await asyncio.to_thread(desk.archive.text, call_id))

    return [calls, call]


def _listed(desk: Desk, limit: int, where: CallFilter, after: Place | None) -> CallList:
    """Blocks."""
    page = desk.archive.page(limit, where, after)
    return CallList([summary(call) for call in page.calls], cursor(page.next))

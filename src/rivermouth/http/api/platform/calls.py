"""The records of calls: in pages, and one with everything."""

from __future__ import annotations

import asyncio
from typing import Literal

import msgspec
from litestar import get, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath

from rivermouth.engine.interrupt import By
from rivermouth.http.api.platform.asking import Asked, least, visitor
from rivermouth.http.api.platform.desk import Desk
from rivermouth.http.api.platform.filters import FILTERED, After, Filtered, Limit, place
from rivermouth.http.api.platform.shapes import CallDocument, CallList, cursor, document, summary
from rivermouth.http.api.platform.visitor import Visitor
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.store.archive import Place
from rivermouth.store.port import CallFilter, CallRecord


class Cancelling(msgspec.Struct, frozen=True):
    """The call has been told to end; its record says when it has."""

    id: str
    status: Literal["cancelling"] = "cancelling"


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
        if found is None or not (here.may("auditor") or _is_of(here, found)):
            raise _unknown(call_id)
        return document(found, await asyncio.to_thread(desk.archive.text, call_id))

    @post("/platform/v1/calls/{call_id:str}/cancel", guards=[least("user")], status_code=202, tags=["calls"])
    async def cancel(request: Asked, call_id: FromPath[str]) -> Cancelling:
        """Ends a call that runs: an admin any, every other key those that it made.  Who reads its answer is told so in
        the words of its dialect, its upstream is closed, and its record says that it was cancelled by request.
        """
        here = visitor(request)
        running = next((call for call in desk.inflight() if call.id == call_id), None)
        found = running.ledger.opened if running is not None else await asyncio.to_thread(desk.archive.get, call_id)
        if found is None or not (here.may("admin") or _is_of(here, found)):
            raise _unknown(call_id)
        if running is None:
            raise ApiError(Kind.INVALID_REQUEST, "this call has ended already", status=409, code="call_ended")
        running.interrupt.cancel(By.REQUEST)
        return Cancelling(call_id)

    return [calls, call, cancel]


def _is_of(here: Visitor, call: CallRecord) -> bool:
    """The visitor's key has made it."""
    own = here.caller.name if here.caller is not None else None
    return own is not None and call.key_name == own


def _unknown(call_id: str) -> ApiError:
    return ApiError(Kind.NOT_FOUND, f"there is no call '{call_id[:100]}'", code="call_not_found")


def _listed(desk: Desk, limit: int, where: CallFilter, after: Place | None) -> CallList:
    """Blocks."""
    page = desk.archive.page(limit, where, after)
    return CallList([summary(call) for call in page.calls], cursor(page.next))

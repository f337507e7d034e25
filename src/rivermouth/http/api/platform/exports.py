"""Calls and sums for other programs: CSV (RFC 4180) and JSON lines, each a document of its own media type.

A document is made while it is sent, a page of the archive at a time, so that a year of calls needs no more memory than
a day; and it is made in threads, so that nobody's stream waits for it.  When the database fails on the way the
connection is cut before the document's end: nobody can take half of it for all.  So is that of a client which takes
nothing for `STALL_S`: it would keep its connection, and the edition it asks, for as long as it likes.

A cell that begins as a formula does would be one in a spreadsheet, and what stands in a cell may be a client's word; so
it gets an apostrophe in front, which spreadsheets take for "this is text".
"""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
import structlog
from litestar import get
from litestar.handlers import HTTPRouteHandler
from litestar.openapi import ResponseSpec
from litestar.response import Stream

from rivermouth.http.api.platform.asking import Asked, least
from rivermouth.http.api.platform.desk import Desk
from rivermouth.http.api.platform.filters import FILTERED, Filtered
from rivermouth.http.api.platform.shapes import document
from rivermouth.http.api.platform.usage import By, Question, Zone, complete, summed
from rivermouth.http.protocol import HANG_UP
from rivermouth.store.archive import Place, Sums
from rivermouth.store.port import CallFilter, StoreError
from rivermouth.wire import json

log = structlog.get_logger()

PAGE_ROWS: Final = 500
PIECE_BYTES: Final = 64 * 1024
STALL_S: Final = 60.0
"""How long a client may take for a piece."""
CSV: Final = "text/csv"
LINES: Final = "application/jsonl"
FORMULA: Final = tuple("=+-@\t\r\n＝＋－＠")
APOSTROPHE: Final = "'"

CALL_COLUMNS: Final = (
    "id",
    "started_at",
    "ended_at",
    "status",
    "kind",
    "cancelled_by",
    "operation",
    "dialect",
    "surface",
    "stream",
    "model",
    "model_used",
    "provider",
    "endpoint_id",
    "policy_id",
    "key_name",
    "end_user",
    "client_request_id",
    "finish_reason",
    "tokens.input",
    "tokens.output",
    "tokens.cached",
    "tokens.reasoning",
    "tokens.estimated",
    "tokens.at_least",
    "text_chars",
    "timings.first_token_ms",
    "timings.total_ms",
    "cost.amount",
    "cost.currency",
    "cost.basis",
    "message",
)
SUM_COLUMNS: Final = (
    "status",
    "currency",
    "calls",
    "input_tokens",
    "output_tokens",
    "cached_tokens",
    "reasoning_tokens",
    "amount",
    "priced",
    "price_estimated",
    "estimated",
    "at_least",
)

EXPORTS: Final[Mapping[str, Any]] = {"guards": [least("user")], "tags": ["exports"], "dependencies": FILTERED}

Pages = AsyncIterator[Sequence[Mapping[str, Any]]]
Written = Callable[[Sequence[Mapping[str, Any]]], bytes]


def routes(desk: Desk) -> list[HTTPRouteHandler]:
    def calls(name: str, media: str) -> HTTPRouteHandler:
        @get(f"/platform/v1/{name}", name=name, responses=_document(media), **EXPORTS)
        async def export(
            request: Asked,
            where: Filtered,
        ) -> Stream:
            """Every call that matches, the newest first; without texts."""
            return _sent(request, name, media, CALL_COLUMNS, pages(desk, where))

        return export

    def usage(name: str, media: str) -> HTTPRouteHandler:
        @get(f"/platform/v1/{name}", name=name, responses=_document(media), **EXPORTS)
        async def export(
            request: Asked,
            where: Filtered,
            group_by: By = None,
            zone: Zone = "UTC",
        ) -> Stream:
            """The sums, one line for each group, status and currency."""
            question = complete(group_by, where, zone, desk.now_ns())
            sums = await asyncio.to_thread(summed, desk, question)
            flat = await asyncio.to_thread(lambda: [_flat(each, question) for each in sums])
            columns = (*(group.value for group in question.by), *(c for c in SUM_COLUMNS if c not in question.by))
            return _sent(request, name, media, columns, _once(flat))

        return export

    return [
        calls("calls.csv", CSV),
        calls("calls.jsonl", LINES),
        usage("usage.csv", CSV),
        usage("usage.jsonl", LINES),
    ]


def _document(media: str) -> dict[int, ResponseSpec]:
    whole = ResponseSpec(str, description="The document.", media_type=media, generate_examples=False)
    return {200: whole}


def _sent(request: Asked, name: str, media: str, columns: Sequence[str], found: Pages) -> Stream:
    written = csv_of(columns) if media == CSV else json_lines
    head = csv_lines([columns]) if media == CSV else b""
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return Stream(_bytes(request, head, written, found), media_type=media, headers=headers)


async def _bytes(request: Asked, head: bytes, written: Written, found: Pages) -> AsyncIterator[bytes]:
    extensions: Any = request.scope.get("extensions") or {}
    hang_up: Callable[[], None] | None = extensions.get(HANG_UP)
    path = request.scope["path"]
    yield head
    try:
        async for page in found:
            data = await asyncio.to_thread(written, page)
            for start in range(0, len(data), PIECE_BYTES):
                with _Taken(path, hang_up):
                    yield data[start : start + PIECE_BYTES]
        with _Taken(path, hang_up):
            yield b""  # nothing is sent before what was sent earlier is taken
    except StoreError as error:
        log.error("export.cut", path=path, reason=str(error))
        if hang_up is None:
            raise
        hang_up()


class _Taken:
    """`with _Taken(...)`: hangs up on the client if the block, which waits for it, takes longer than `STALL_S`."""

    def __init__(self, path: str, hang_up: Callable[[], None] | None) -> None:
        self._path = path
        self._hang_up = hang_up
        self._clock: asyncio.TimerHandle | None = None

    def __enter__(self) -> None:
        if self._hang_up is not None:
            self._clock = asyncio.get_running_loop().call_later(STALL_S, self._stalled, self._hang_up)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if self._clock is not None:
            self._clock.cancel()

    def _stalled(self, hang_up: Callable[[], None]) -> None:
        log.info("export.stalled", path=self._path)
        hang_up()


async def pages(desk: Desk, where: CallFilter) -> Pages:
    """The calls as documents without text."""
    after: Place | None = None
    while True:
        found, after = await asyncio.to_thread(_page, desk, where, after)
        yield found
        if after is None:
            return


def _page(desk: Desk, where: CallFilter, after: Place | None) -> tuple[Sequence[Mapping[str, Any]], Place | None]:
    """Blocks."""
    page = desk.archive.page(PAGE_ROWS, where, after)
    return [msgspec.to_builtins(document(call, None)) for call in page.calls], page.next


async def _once(rows: Sequence[Mapping[str, Any]]) -> Pages:
    for start in range(0, len(rows), PAGE_ROWS):
        yield rows[start : start + PAGE_ROWS]


def _flat(each: Sums, question: Question) -> dict[str, Any]:
    named = dict(zip((group.value for group in question.by), each.group, strict=True))
    counted = {name: getattr(each, name) for name in SUM_COLUMNS if name not in ("amount", "status")}
    return {**named, "status": each.status.value, **counted, "amount": each.price_amount}


def json_lines(page: Sequence[Mapping[str, Any]]) -> bytes:
    """One document on each line."""
    return b"".join(json.encode(row) + b"\n" for row in page)


def csv_of(columns: Sequence[str]) -> Written:
    """Rows of these columns; "a.b" is the b of the table a."""

    def written(page: Sequence[Mapping[str, Any]]) -> bytes:
        return csv_lines([cell(_at(row, name)) for name in columns] for row in page)

    return written


def csv_lines(lines: Iterable[Sequence[str]]) -> bytes:
    out = io.StringIO(newline="")
    csv.writer(out).writerows(lines)
    return out.getvalue().encode()


def _at(row: Any, name: str) -> Any:
    for part in name.split("."):
        row = row.get(part) if row is not None else None
    return row


def cell(value: object) -> str:
    """A value as CSV has it: null is empty, and no text is a formula."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.9f}".rstrip("0").rstrip(".")
    text = str(value)
    return APOSTROPHE + text if text.startswith(FORMULA) and not isinstance(value, int) else text

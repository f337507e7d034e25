"""How the frames of a stream stand on the wire: server-sent events, or the elements of one JSON array (R20).

The array's separator is written behind each element that is not the last, so that every frame is complete at once and
constant but for its payload.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from rivermouth.dialects.dialect import Route, Surface
from rivermouth.wire import json_array
from rivermouth.wire.frame import Frame, Reader
from rivermouth.wire.json_array import JsonArrayReader
from rivermouth.wire.sse import SseReader

ARRAY: Final = "array"  # a surface's option: streams are one JSON array

SSE_TYPE: Final = "text/event-stream; charset=utf-8"
ARRAY_TYPE: Final = "application/json"

_BLANK: Final = b" \t\r\n"
_ALT: Final = ("alt", "$alt")


class Framing(NamedTuple):
    """What stands around payloads: once at the beginning, before each, behind each, and behind the last."""

    opening: bytes
    before: bytes
    after: bytes
    last: bytes


SSE: Final = Framing(b"", b"data: ", b"\n\n", b"\n\n")
JSON_ARRAY: Final = Framing(json_array.OPEN, b"", json_array.BETWEEN, json_array.CLOSE)


def framing(surface: Surface) -> Framing:
    return JSON_ARRAY if ARRAY in surface.options else SSE


def variant(surface: Surface, route: Route, query: Mapping[str, str], headers: Mapping[str, str]) -> Surface:
    """The surface as `alt` asks for it: `sse` and `json` are the same everywhere, without it the surface decides."""
    alt = next((query[name].lower() for name in _ALT if name in query), "")
    if alt == "sse" and ARRAY in surface.options:
        return msgspec.structs.replace(surface, stream_type=SSE_TYPE, options=surface.options - {ARRAY})
    if alt == "json" and ARRAY not in surface.options:
        return msgspec.structs.replace(surface, stream_type=ARRAY_TYPE, options=surface.options | {ARRAY})
    return surface


class StreamReader:
    """Bytes of either framing to frames, by their first byte.

    Events are always asked for; servers that do not know `alt` send an array, or one object after all.
    """

    __slots__ = ("_reader",)

    def __init__(self) -> None:
        self._reader: Reader | None = None

    def feed(self, data: bytes) -> list[Frame]:
        reader = self._reader
        if reader is None:
            data = data.lstrip(_BLANK)
            if not data:
                return []
            reader = self._reader = _reader_of(data)
        return reader.feed(data)

    def statistics(self) -> dict[str, int]:
        return (self._reader or SseReader()).statistics()


def _reader_of(data: bytes) -> Reader:
    if not data.startswith((json_array.OPEN, b"{")):
        return SseReader()
    reader = JsonArrayReader()
    if not data.startswith(json_array.OPEN):
        reader.feed(json_array.OPEN)  # one object alone is an array of one that was not opened
    return reader

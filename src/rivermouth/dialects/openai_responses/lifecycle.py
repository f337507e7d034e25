"""The life of a kept response: how it begins, what its last event says, and where in its stream an event stands.

A stream is cut at blank lines, which stand nowhere inside an event: JSON of one line has none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from rivermouth.dialects.dialect import Answer, Begun, Ended
from rivermouth.dialects.openai_responses.frames import Frames
from rivermouth.dialects.openai_responses.items import IN_PROGRESS
from rivermouth.dialects.openai_responses.response import Template
from rivermouth.ir.errors import WireError, invalid
from rivermouth.wire import json, sse

BEGINS: Final = frozenset({"response.created", "response.queued", "response.in_progress"})
FAILED: Final = "response.failed"
ENDS: Final = frozenset({"response.completed", "response.incomplete", FAILED})
CANCELLED: Final = "cancelled"
EVENTS_GONE: Final = "events_gone"
INTERRUPTED: Final = {"code": "server_error", "message": "interrupted: the server stopped before the answer was there"}
_BLANK: Final = b"\n\n"
_DATA: Final = b"data: "


class _Event(msgspec.Struct, frozen=True):
    type: str = ""
    sequence_number: int | None = None
    response: msgspec.Raw = msgspec.Raw()


class _Numbered(msgspec.Struct, frozen=True):
    sequence_number: int | None = None


_event: Final = json.typed(_Event)
_numbered: Final = json.typed(_Numbered)


def begun(answer: Answer) -> Begun:
    template, frames, out = Template(answer), Frames(), list[bytes]()
    now = template.fill(IN_PROGRESS, ())
    frames.lifecycle("created", now, out)
    frames.lifecycle("in_progress", now, out)
    return Begun(now, b"".join(out))


def headless(stream: bytes) -> bytes | None:
    at = 0
    for block in _blocks(stream):
        if block.startswith(b":") or _read(block).type in BEGINS:
            at += len(block) + len(_BLANK)
        else:
            return stream[at:]
    return None


def ended(stream: bytes) -> Ended | None:
    last = _last(stream)
    if last is None or not bytes(last.response):
        return None
    return Ended(bytes(last.response), last.sequence_number or 0, failed=last.type == FAILED)


def cancelled(stream: bytes) -> bytes:
    """The protocol has no event of its own for it: the response of the last one says so."""
    last = _last(stream)
    if last is None or last.type != FAILED:
        return stream
    body = stream.rstrip(b"\n")
    head = body[: body.rfind(_BLANK) + len(_BLANK)] if _BLANK in body else b""
    response = _changed(last.response, status=CANCELLED, error=None)
    event = {"type": last.type, "sequence_number": last.sequence_number, "response": msgspec.Raw(response)}
    return head + sse.event(last.type, json.encode(event))


def interrupted(answer: bytes) -> bytes:
    return _changed(msgspec.Raw(answer), status="failed", error=INTERRUPTED)


def seek(read: Callable[[int], bytes], first: int, end: int, after: int) -> int:
    """Halves what is left: numbers only grow, so a look at one event tells on which side of it the place is."""
    low, high = first, end
    before: int | None = None  # the number of the last event that is not wanted
    while low < high:
        middle = (low + high) // 2
        event = _event_from(read, middle, end)
        if event is not None and event.number <= after:
            before, low = event.number, event.ends - len(_BLANK)  # the next one begins behind this blank line
        else:
            high = middle
    found = _event_from(read, low, end)
    if before is None and first and (found is None or found.number != after + 1):
        begins = f"; the stream begins after {found.number - 1} now" if found is not None else ""
        raise invalid(f"what follows event {after} is not kept any more{begins}", "starting_after", EVENTS_GONE)
    if found is not None:
        return found.begins
    if after >= 0 and before != after:
        raise invalid(f"there is no event {after} yet", "starting_after", "invalid_value")
    return low + len(_BLANK) if before is not None else first


class _Place(msgspec.Struct, frozen=True):
    """An event in a stream: its number, and the offsets of its first byte and of the one behind its last."""

    number: int
    begins: int
    ends: int


def _event_from(read: Callable[[int], bytes], at: int, end: int) -> _Place | None:
    """The first numbered event that begins behind a blank line from that offset on; one that is not whole is none.

    At the offset 0 one begins without a blank line before it.
    """
    begins = at if at == 0 else _behind_blank(read, at, end)
    while begins is not None:
        ends = _behind_blank(read, begins, end)
        if ends is None:
            return None
        number = _number(_bytes(read, begins, ends - len(_BLANK)))
        if number is not None:
            return _Place(number, begins, ends)
        begins = ends
    return None


def _behind_blank(read: Callable[[int], bytes], at: int, end: int) -> int | None:
    """The offset behind the next blank line."""
    tail = b""
    while at < end:
        piece = read(at)
        place = (tail + piece).find(_BLANK)
        if place >= 0:
            return at - len(tail) + place + len(_BLANK)
        at += len(piece)
        tail = piece[-1:]
    return None


def _bytes(read: Callable[[int], bytes], at: int, ends: int) -> bytes:
    pieces: list[bytes] = []
    while at < ends:
        pieces.append(read(at)[: ends - at])
        at += len(pieces[-1])
    return b"".join(pieces)


def _number(block: bytes) -> int | None:
    """None for what is no event, as a comment is none."""
    payload = next((line[len(_DATA) :] for line in block.split(b"\n") if line.startswith(_DATA)), b"")
    try:
        return json.decode_as(_numbered, payload).sequence_number
    except WireError:
        return None


def _blocks(stream: bytes) -> Iterator[bytes]:
    return (block for block in stream.split(_BLANK) if block)


def _last(stream: bytes) -> _Event | None:
    """The event that ends a stream."""
    for block in reversed(stream.split(_BLANK)):
        if block and not block.startswith(b":"):
            event = _read(block)
            if event.type in ENDS:
                return event
    return None


def _read(block: bytes) -> _Event:
    payload = block.partition(_DATA)[2] if block.startswith((b"event:", _DATA)) else b""
    try:
        return json.decode_as(_event, payload)
    except WireError:
        return _Event()


def _changed(answer: msgspec.Raw, **changes: Any) -> bytes:
    return json.encode({**json.fields(answer), **changes})

"""What stands in a chat's log: our own events, before anybody's wire form.

    turn.open   the turn has a writer: ids, and when        generation-0, always
    chosen      which provider answers                      before the first piece of it
    said        events of the neutral model, coalesced      `at`: characters that were said before
    warned      words of ours in the answer's text
    snapshot    everything so far, in place of what is gone
    turn.fence  another writer has come                     generation-0
    turn.end    how it ended, after its row says so         always the last

Followers encode these for their own client, each by itself and all alike; a recovery folds them into the row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from rivermouth.ir import events as ir
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.wire import json

Parts = tuple[Any, ...]


class Opened(msgspec.Struct, frozen=True, tag="turn.open"):
    turn: int
    message_id: int
    user_message_id: int
    created_ns: int


class Chosen(msgspec.Struct, frozen=True, tag="chosen"):
    provider: str
    model: str
    call_id: str


class Said(msgspec.Struct, frozen=True, tag="said", omit_defaults=True):
    """events: each as its name and its fields.  calls: the ids of the tool calls that they are pieces of, by part."""

    at: int
    events: list[list[Any]]
    calls: dict[str, str] = {}


class Warned(msgspec.Struct, frozen=True, tag="warned"):
    at: int
    text: str


class Snapshot(msgspec.Struct, frozen=True, tag="snapshot"):
    """parts: as a row has them.  text: what a person sees of them."""

    turn: int
    message_id: int
    parts: msgspec.Raw
    text: str
    provider: str | None


class Fenced(msgspec.Struct, frozen=True, tag="turn.fence"):
    turn: int
    message_id: int


class Ended(msgspec.Struct, frozen=True, tag="turn.end"):
    """state: a terminal one.  error: why it failed, as a client is told.  text_chars, digest: of the final text."""

    turn: int
    message_id: int | None
    state: str
    provider: str | None
    error: dict[str, str] | None
    text_chars: int
    digest: str


Frame = Opened | Chosen | Said | Warned | Snapshot | Fenced | Ended

_frame: Final[Any] = json.typed(Frame)  # type: ignore[arg-type]


def encode(frame: Frame) -> bytes:
    return json.encode(frame)


def decode(body: bytes) -> Frame:
    decoded: Frame = json.decode_as(_frame, body)
    return decoded


# -- events as values of JSON

_LOGGED: Final[dict[str, type[Any]]] = {
    kind.__name__: kind
    for kind in (
        ir.Start,
        ir.PartStart,
        ir.TextDelta,
        ir.ReasoningDelta,
        ir.Signature,
        ir.ArgsDelta,
        ir.MediaDelta,
        ir.PartEnd,
        ir.Usage,
        ir.Warn,
        ir.Finish,
    )
}
"""Those that are kept.  An error is told by `turn.end`; what we do not model is nobody's here."""


def pack(event: ir.Event) -> list[Any] | None:
    """An event as its name and its fields; None for one that is not kept."""
    name = type(event).__name__
    return [name, *msgspec.structs.astuple(event)] if name in _LOGGED else None


def unpack(packed: Sequence[Any]) -> ir.Event:
    """The inverse of `pack`, after JSON."""
    name, *fields = packed
    kind = _LOGGED[name]
    if kind is ir.TextDelta:  # by far the commonest
        return ir.TextDelta(*fields)
    named = dict(zip(kind.__struct_fields__, fields, strict=True))
    event: ir.Event = json.convert(named, kind)
    return event


def pack_all(events: Iterable[ir.Event]) -> list[list[Any]]:
    return [packed for event in events if (packed := pack(event)) is not None]


# -- the engine's answer to a client in this process

_ERROR: Final = "Error"
_lines: Final = json.typed(list[list[Any]])


def to_line(events: Iterable[ir.Event]) -> bytes:
    """Events of one read as one line; an error too."""
    packed: list[list[Any]] = []
    for event in events:
        if isinstance(event, ir.Error):
            packed.append([_ERROR, *_error_fields(event.error)])
        elif (one := pack(event)) is not None:
            packed.append(one)
    return json.encode(packed) + b"\n" if packed else b""


def from_lines(data: bytes) -> list[ir.Event]:
    """The inverse of `to_line`, for any number of whole lines."""
    found: list[ir.Event] = []
    for line in data.split(b"\n"):
        if line:
            decoded = json.decode_as(_lines, line)
            found += [_error(packed) if packed[0] == _ERROR else unpack(packed) for packed in decoded]
    return found


def _error_fields(error: ApiError) -> list[Any]:
    return [error.kind.value, error.message, error.code, error.provider, error.clock, error.status]


def _error(packed: Sequence[Any]) -> ir.Error:
    _, kind, message, code, provider, clock, status = packed
    return ir.Error(ApiError(Kind(kind), message, code=code, provider=provider, clock=clock, status=status))

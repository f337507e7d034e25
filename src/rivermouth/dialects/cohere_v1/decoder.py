"""An upstream's lines to events.

Calls come in pieces, then whole, then whole again in the last line: whichever says one first is believed, and it is
said once (F19).  Citations, search results and whatever is newer pass as `Unknown`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final

import msgspec

from rivermouth.dialects.cohere_v1.calls import Call, arguments_text
from rivermouth.dialects.cohere_v1.tables import FAILED, NAME, REASONS, STOP_SEQUENCE, reason_of
from rivermouth.ir.call_ids import call_id
from rivermouth.ir.errors import Kind, WireError, truncated
from rivermouth.ir.events import (
    ArgsDelta,
    Error,
    Event,
    Finish,
    PartEnd,
    PartKind,
    PartStart,
    Start,
    TextDelta,
    Unknown,
    Warn,
)
from rivermouth.ir.names import quoted
from rivermouth.ir.request import Request
from rivermouth.vendors.cohere.counts import Counts, read_counts
from rivermouth.vendors.cohere.failures import upstream_error, words
from rivermouth.wire import json
from rivermouth.wire.frame import FRAME_CAP_BYTES, Frame

# A server that numbers its calls freely must not make us keep a hole for each number.
CALLS_CAP: Final = 1024


class _Line(msgspec.Struct, gc=False):
    """What is read of each line: text lines hold nothing else."""

    event_type: str | None = None
    text: str | None = None


class _Start(msgspec.Struct):
    generation_id: str | None = None


class _Piece(msgspec.Struct):
    index: int | float | None = None
    name: str | None = None
    parameters: str | None = None
    text: str | None = None
    id: str | None = None


class _Chunk(msgspec.Struct):
    tool_call_delta: _Piece | None = None
    text: str | None = None


class _Calls(msgspec.Struct):
    tool_calls: list[Call] | None = None
    text: str | None = None


class _Response(msgspec.Struct):
    """A whole answer, which ends a stream too: the members that are read here."""

    text: str | None = None
    tool_calls: list[Call] | None = None
    finish_reason: str | None = None
    generation_id: str | None = None
    response_id: str | None = None
    meta: Counts | None = None
    error: Any = None


class _End(msgspec.Struct):
    finish_reason: str | None = None
    response: _Response | None = None
    error: Any = None


_LINE: Final = json.typed(_Line)
_START: Final = json.typed(_Start)
_CHUNK: Final = json.typed(_Chunk)
_CALLS: Final = json.typed(_Calls)
_END: Final = json.typed(_End)
_WHOLE: Final = json.typed(_Response)
_decode: Final = json.decode_as


class _OpenCall:
    """A call that is coming in pieces; it is a part once its name is known."""

    __slots__ = ("chars", "held", "id", "part")

    def __init__(self) -> None:
        self.part: int | None = None
        self.id: str | None = None
        self.held: list[str] = []
        self.chars = 0

    def hold(self, arguments: str) -> None:
        """Arguments that come before the name.  Raises `WireError` above the cap of a frame."""
        self.held.append(arguments)
        self.chars += len(arguments)
        if self.chars > FRAME_CAP_BYTES:
            raise WireError("the arguments of a tool call without a name are too long")


class Decoder:
    """Lines to events, exactly one Finish or Error.  `Finish` comes with `stream-end` and with nothing else (F10)."""

    __slots__ = (
        "_begun", "_calls", "_done", "_id", "_ids", "_last", "_made", "_next", "_spoke", "_stop", "_text", "_whole",
    )  # fmt: skip

    def __init__(self, request: Request | None = None) -> None:
        self._begun = False
        self._done = False
        self._last: str | None = None
        self._id = ""
        self._ids: set[str] = set()
        self._next = 0  # the next part's number
        self._text: int | None = None  # the open text part
        self._spoke = False
        self._calls: dict[int, _OpenCall] = {}
        self._made = 0  # calls that are parts
        self._whole = False  # whether the calls were said whole
        # The protocol does not say which sequence stopped the model; where only one was asked for, it was that one.
        self._stop = request.stop[0] if request is not None and len(request.stop) == 1 else None

    def feed(self, frame: Frame) -> list[Event]:
        """The events of one line; after the end always [].  Raises `WireError` on what is no line of this protocol."""
        if self._done:
            return []
        found = _decode(_LINE, frame.data)
        kind = found.event_type
        if kind == "text-generation":
            if self._text is not None and found.text:  # the hot path: more of the text that is already flowing
                return [TextDelta(self._text, found.text)]
            self._last = kind
            events = self._begin()
            self._say(found.text, events)
            return events
        if kind is None:
            return self._nameless(frame)
        self._last = kind[:64]
        handler = self._HANDLERS.get(kind)
        return handler(self, frame) if handler is not None else [*self._begin(), Unknown(kind, frame.data)]

    def eof(self) -> list[Event]:
        """The upstream closed: fine after `stream-end`, else the answer was cut (F10)."""
        if self._done:
            return []
        self._done = True
        return [Error(truncated(NAME, self._last))]

    def _begin(self, identity: str | None = None) -> list[Event]:
        if self._begun:
            return []
        self._begun = True
        self._id = identity or ""
        return [Start(identity or None)]

    def _nameless(self, frame: Frame) -> list[Event]:
        """A line that does not say what it is: a whole answer of a server that does not stream, an error object (F11),
        or nothing that is known."""
        whole = _decode(_WHOLE, frame.data)
        if whole.text is not None or whole.tool_calls:
            return self._end(whole.finish_reason or "COMPLETE", whole, words(whole.error))
        text = words(json.decode(frame.data))
        if not text:
            return [*self._begin(), Unknown("", frame.data)]
        self._done = True
        return [Error(upstream_error(NAME, text))]

    def _on_start(self, frame: Frame) -> list[Event]:
        return self._begin(_decode(_START, frame.data).generation_id)

    # -- text ---------------------------------------------------------------------------------------------------------

    def _say(self, text: str | None, events: list[Event]) -> None:
        if not text:
            return
        if self._text is None:
            self._text = self._number()
            events.append(PartStart(self._text, PartKind.TEXT))
            self._spoke = True
        events.append(TextDelta(self._text, text))

    def _end_text(self, events: list[Event]) -> None:
        if self._text is not None:
            events.append(PartEnd(self._text))
            self._text = None

    def _number(self) -> int:
        self._next += 1
        return self._next - 1

    # -- calls --------------------------------------------------------------------------------------------------------

    def _on_chunk(self, frame: Frame) -> list[Event]:
        """A piece of a call, or of what the model says before its calls."""
        found = _decode(_CHUNK, frame.data)
        piece = found.tool_call_delta or _Piece()
        events = self._begin()
        self._say(found.text or piece.text, events)
        if not (piece.name or piece.parameters):
            return events
        self._end_text(events)
        index = int(piece.index) if piece.index is not None and abs(piece.index) < CALLS_CAP else len(self._calls)
        call = self._calls.get(index)
        if call is None:
            if len(self._calls) == CALLS_CAP:
                raise WireError(f"more than {CALLS_CAP} tool calls at once")
            call = self._calls[index] = _OpenCall()
        call.id = call.id or piece.id
        if piece.name and call.part is None:
            self._open(call, piece.name, events)
        if piece.parameters:
            if call.part is None:
                call.hold(piece.parameters)
            else:
                events.append(ArgsDelta(call.part, piece.parameters))
        return events

    def _open(self, call: _OpenCall, name: str, events: list[Event]) -> None:
        call.part = self._number()
        identity = call_id(call.id, self._id, self._made, self._ids)
        self._made += 1
        events.append(PartStart(call.part, PartKind.TOOL, 0, identity, name))
        events += [ArgsDelta(call.part, held) for held in call.held]
        call.held = []

    def _on_calls(self, frame: Frame) -> list[Event]:
        found = _decode(_CALLS, frame.data)
        events = self._begin()
        if not self._spoke:
            self._say(found.text, events)
        self._say_calls(found.tool_calls or [], events)
        return events

    def _say_calls(self, calls: list[Call], events: list[Event]) -> None:
        """The calls that did not come in pieces; those that did are over."""
        self._end_text(events)
        if self._whole or not calls:
            return
        self._whole = True
        come = [call for call in self._calls.values() if call.part is not None]
        self._end_calls(events)
        for call in calls[len(come) :]:
            if not call.name:
                raise WireError("a tool call without a name")
            part = self._number()
            events.append(
                PartStart(part, PartKind.TOOL, 0, call_id(call.id, self._id, self._made, self._ids), call.name)
            )
            self._made += 1
            arguments = arguments_text(call.parameters)
            events += [ArgsDelta(part, arguments)] if arguments else []
            events.append(PartEnd(part))

    def _end_calls(self, events: list[Event]) -> None:
        events += [PartEnd(call.part) for call in self._calls.values() if call.part is not None]
        self._calls = {}

    # -- the end ------------------------------------------------------------------------------------------------------

    def _on_end(self, frame: Frame) -> list[Event]:
        end = _decode(_END, frame.data)
        response = end.response or _Response()
        return self._end(end.finish_reason or response.finish_reason, response, words(end.error or response.error))

    def _end(self, word: str | None, response: _Response, error: str) -> list[Event]:
        events = self._begin(response.generation_id or response.response_id)
        usage = read_counts(response.meta)
        if word in FAILED or error:
            self._done = True
            said: list[Event] = [usage] if usage is not None else []
            return [*events, *said, Error(upstream_error(NAME, error, FAILED.get(word or "", Kind.UPSTREAM)))]
        if word is None:
            return events + self.eof()
        if not self._spoke:
            self._say(response.text, events)
        self._say_calls(response.tool_calls or [], events)
        if any(call.part is None for call in self._calls.values()):
            raise WireError("a tool call without a name")
        self._end_calls(events)
        if usage is not None:
            events.append(usage)
        if word not in REASONS:
            events.append(Warn(f"the upstream's finish_reason {quoted(word)} is not known", "finish_reason"))
        self._done = True
        return [*events, Finish(reason_of(word, called=self._made > 0), self._stop if word == STOP_SEQUENCE else None)]

    _HANDLERS: ClassVar[dict[str, Callable[[Decoder, Frame], list[Event]]]] = {
        "stream-start": _on_start,
        "tool-calls-chunk": _on_chunk,
        "tool-calls-generation": _on_calls,
        "stream-end": _on_end,
    }

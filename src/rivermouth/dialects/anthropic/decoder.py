"""An upstream's stream to events.

Blocks are looked up by their wire index and become parts lazily: a block that never says anything is no part (F21).
The kind of a part follows what is said, not only what was announced (F23).  Blocks of a kind that the neutral model
does not have (server tools, citations ...) pass as `Unknown`, which only a client of this dialect ever sees.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final

import msgspec

from rivermouth.dialects.anthropic import usage as counts
from rivermouth.dialects.anthropic.errors import parse_stream_error
from rivermouth.dialects.anthropic.opaque import signature_from_wire, tool_id_from_wire
from rivermouth.dialects.anthropic.tables import REASONS, reason_of
from rivermouth.ir.errors import WireError, truncated
from rivermouth.ir.events import (
    ArgsDelta,
    Error,
    Event,
    Finish,
    PartEnd,
    PartKind,
    PartStart,
    ReasoningDelta,
    Signature,
    Start,
    TextDelta,
    Unknown,
    Warn,
)
from rivermouth.ir.names import quoted
from rivermouth.ir.request import Request
from rivermouth.wire import json
from rivermouth.wire.frame import Frame


class _Text(msgspec.Struct, gc=False, tag="text_delta"):
    text: str


class _Thinking(msgspec.Struct, gc=False, tag="thinking_delta"):
    thinking: str


class _Args(msgspec.Struct, gc=False, tag="input_json_delta"):
    partial_json: str | None = None


class _Signature(msgspec.Struct, gc=False, tag="signature_delta"):
    signature: str


class _BlockDelta(msgspec.Struct, gc=False):
    index: int
    delta: _Text | _Args | _Thinking | _Signature


class _Typed(msgspec.Struct):
    type: str | None = None


class _OddDelta(msgspec.Struct):
    index: int
    delta: _Typed


class _Message(msgspec.Struct):
    id: str | None = None
    model: str | None = None
    usage: counts.Counts | None = None


class _MessageStart(msgspec.Struct):
    message: _Message


class _Block(msgspec.Struct):
    type: str
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: Any = None
    id: str | None = None
    name: str | None = None
    input: Any = None


class _BlockStart(msgspec.Struct):
    index: int
    content_block: _Block


class _OddBlock(msgspec.Struct):
    index: int
    content_block: _Typed


class _BlockStop(msgspec.Struct):
    index: int


class _Ending(msgspec.Struct):
    stop_reason: str | None = None
    stop_sequence: str | None = None


class _MessageDelta(msgspec.Struct):
    delta: _Ending | None = None
    usage: counts.Counts | None = None


class _Nameless(msgspec.Struct):
    type: str | None = None
    error: Any = None


_block_delta: Final = json.typed(_BlockDelta)
_odd_delta: Final = json.typed(_OddDelta)
_message_start: Final = json.typed(_MessageStart)
_block_start: Final = json.typed(_BlockStart)
_odd_block: Final = json.typed(_OddBlock)
_block_stop: Final = json.typed(_BlockStop)
_message_delta: Final = json.typed(_MessageDelta)
_nameless: Final = json.typed(_Nameless)

_DELTA_TYPES: Final = frozenset({"text_delta", "thinking_delta", "input_json_delta", "signature_delta"})
_BLOCK_TYPES: Final = frozenset({"text", "thinking", "redacted_thinking", "tool_use"})
_NO_NAMES: Final = frozenset({"", "message"})  # "message" is what the standard calls an event without a name


def frame_type(frame: Frame) -> str:
    """What a frame is: its event name, else the type that its data says.  An error object needs no type (F11).

    Raises `WireError` when a frame without a name is no JSON object.
    """
    if frame.name not in _NO_NAMES:
        return frame.name
    if frame.data == b"[DONE]":  # some servers end so; whether the answer was whole is known without it
        return "ping"
    peek = json.decode_as(_nameless, frame.data)
    if peek.type is None and peek.error is not None:
        return "error"
    return peek.type or ""


class Decoder:
    """Upstream frames to events.  Pure: same frames in, same events out.

    A part exists from the first thing that its block says.  A block has at most one open part.
    """

    __slots__ = (
        "_args",
        "_begun",
        "_called",
        "_counts",
        "_done",
        "_foreign",
        "_id",
        "_ids",
        "_inputs",
        "_last",
        "_next",
        "_signatures",
        "_stop_reason",
        "_stop_sequence",
        "_texts",
        "_thoughts",
    )

    def __init__(self, request: Request | None = None) -> None:
        self._begun = False
        self._done = False
        self._last: str | None = None
        self._id = ""
        self._next = 0  # the next part's number
        self._texts: dict[int, int] = {}  # wire index -> open part, for each kind
        self._thoughts: dict[int, int] = {}
        self._args: dict[int, int] = {}
        self._foreign: set[int] = set()  # wire indexes of blocks that pass as Unknown
        self._inputs: dict[int, str] = {}  # a tool's whole input, if its first frame brought it
        self._signatures: dict[int, str] = {}
        self._ids: set[str] = set()
        self._called = False
        self._counts = counts.Counts()
        self._stop_reason: str | None = None
        self._stop_sequence: str | None = None

    def feed(self, frame: Frame) -> list[Event]:
        if self._done:
            return []
        name = frame.name
        if name == "content_block_delta":
            return self._on_delta(frame)
        return self._HANDLERS.get(name if name not in _NO_NAMES else frame_type(frame), Decoder._on_unknown)(
            self, frame
        )

    def eof(self) -> list[Event]:
        if self._done:
            return []
        self._done = True
        return [Error(truncated("anthropic", self._last))]

    def _on_delta(self, frame: Frame) -> list[Event]:
        try:
            block = json.decode_as(_block_delta, frame.data)
        except WireError:
            if json.decode_as(_odd_delta, frame.data).delta.type in _DELTA_TYPES:
                raise
            return self._on_unknown(frame)
        delta = block.delta
        if type(delta) is _Text:
            part = self._texts.get(block.index)
            if part is not None and delta.text:
                return [TextDelta(part, delta.text)]
        elif type(delta) is _Args:
            part = self._args.get(block.index)
            if part is not None and delta.partial_json:
                self._inputs.pop(block.index, None)
                return [ArgsDelta(part, delta.partial_json)]
        elif type(delta) is _Thinking:
            part = self._thoughts.get(block.index)
            if part is not None and delta.thinking:
                return [ReasoningDelta(part, delta.thinking)]
        return self._first_delta(frame, block.index, delta)

    def _first_delta(self, frame: Frame, index: int, delta: _Text | _Args | _Thinking | _Signature) -> list[Event]:
        """A delta that finds no open part of its kind, or that says nothing."""
        if index in self._foreign:
            return self._on_unknown(frame)
        match delta:
            case _Text():
                return self._say(index, self._texts, PartKind.TEXT, delta.text)
            case _Thinking():
                return self._say(index, self._thoughts, PartKind.REASONING, delta.thinking)
            case _Signature():
                self._signatures[index] = delta.signature
                return []
            case _Args():
                if delta.partial_json and index not in self._args:
                    raise WireError("input_json_delta for a block that is no open tool_use")
                return []

    def _on_message_start(self, frame: Frame) -> list[Event]:
        message = json.decode_as(_message_start, frame.data).message
        events: list[Event] = []
        if not self._begun:
            self._begun = True
            self._id = message.id or ""
            events.append(Start(message.id, message.model))
        return events + self._count(message.usage)

    def _on_block_start(self, frame: Frame) -> list[Event]:
        try:
            start = json.decode_as(_block_start, frame.data)
        except WireError:
            odd = json.decode_as(_odd_block, frame.data)
            if odd.content_block.type in _BLOCK_TYPES:
                raise
            start = _BlockStart(odd.index, _Block(odd.content_block.type or ""))
        index, block = start.index, start.content_block
        events = self._close(index)
        self._foreign.discard(index)
        match block.type:
            case "text":
                events += self._say(index, self._texts, PartKind.TEXT, block.text or "")
            case "thinking":
                if block.signature:
                    self._signatures[index] = block.signature
                events += self._say(index, self._thoughts, PartKind.REASONING, block.thinking or "")
            case "redacted_thinking":
                events += self._redacted(index, block.data)
            case "tool_use":
                events += self._call(index, block)
            case _:
                self._foreign.add(index)
                events += self._on_unknown(frame)
        return events

    def _on_block_stop(self, frame: Frame) -> list[Event]:
        index = json.decode_as(_block_stop, frame.data).index
        if index in self._foreign:
            self._foreign.discard(index)
            return self._on_unknown(frame)
        return self._close(index)

    def _on_message_delta(self, frame: Frame) -> list[Event]:
        message = json.decode_as(_message_delta, frame.data)
        if message.delta is not None and message.delta.stop_reason is not None:
            self._stop_reason = message.delta.stop_reason
            self._stop_sequence = message.delta.stop_sequence
        return self._count(message.usage)

    def _on_message_stop(self, frame: Frame) -> list[Event]:
        if self._stop_reason is None:
            return self.eof()
        events = self._begin()
        for index in [*self._texts, *self._thoughts, *self._args, *self._signatures]:
            events += self._close(index)
        if self._stop_reason not in REASONS:
            events.append(Warn(f"the upstream's stop_reason {quoted(self._stop_reason)} is not known", "stop_reason"))
        reason = reason_of(self._stop_reason, called=self._called)
        self._done = True
        return [*events, Finish(reason, self._stop_sequence if self._stop_reason == "stop_sequence" else None)]

    def _on_error(self, frame: Frame) -> list[Event]:
        self._done = True
        return [Error(parse_stream_error(frame.data))]

    def _on_ping(self, frame: Frame) -> list[Event]:
        return []

    def _on_unknown(self, frame: Frame) -> list[Event]:
        return [Unknown(frame.name, frame.data)] if self._begun else []

    def _begin(self) -> list[Event]:
        """Start, for an upstream that goes without message_start."""
        if self._begun:
            return []
        self._begun = True
        return [Start()]

    def _open(self, index: int, parts: dict[int, int], kind: PartKind, redacted: bool = False) -> list[Event]:
        events = [*self._begin(), *self._close(index, keep_signature=kind is PartKind.REASONING)]
        parts[index] = self._next
        self._next += 1
        self._last = f"part {parts[index]} ({kind.value})"
        return [*events, PartStart(parts[index], kind, redacted=redacted)]

    def _say(self, index: int, parts: dict[int, int], kind: PartKind, text: str) -> list[Event]:
        """Text of a block, after opening its part; empty text is absent."""
        if not text:
            return []
        events = [] if index in parts else self._open(index, parts, kind)
        said = TextDelta(parts[index], text) if kind is PartKind.TEXT else ReasoningDelta(parts[index], text)
        return [*events, said]

    def _redacted(self, index: int, data: object) -> list[Event]:
        if not isinstance(data, str) or signature_from_wire(data) is None:
            return []
        events = self._open(index, self._thoughts, PartKind.REASONING, redacted=True)
        self._signatures[index] = data
        return events

    def _call(self, index: int, block: _Block) -> list[Event]:
        """A tool call.  A missing or repeated id is replaced by one made from the message's id and the part (F20)."""
        if not block.name:
            raise WireError("a tool_use block without a name")
        events = self._begin()
        tool_id = tool_id_from_wire(block.id or "")
        if not tool_id or tool_id in self._ids:
            tool_id = f"toolu_{self._id.removeprefix('msg_') or 'call'}_{self._next}"
        self._ids.add(tool_id)
        part = self._args[index] = self._next
        self._next += 1
        self._called = True
        self._last = f"part {part} (tool_call)"
        if block.input:
            self._inputs[index] = json.encode(block.input).decode()
        return [*events, PartStart(part, PartKind.TOOL, id=tool_id, name=block.name)]

    def _close(self, index: int, *, keep_signature: bool = False) -> list[Event]:
        """Ends the open part of a block, if it has one."""
        part = self._texts.pop(index, None)
        if part is not None:
            return [PartEnd(part)]
        part = self._args.pop(index, None)
        if part is not None:
            whole = self._inputs.pop(index, None)
            return [PartEnd(part)] if whole is None else [ArgsDelta(part, whole), PartEnd(part)]
        if keep_signature:
            return []
        signature = signature_from_wire(self._signatures.pop(index, None))
        part = self._thoughts.get(index)
        if signature is not None:
            events = [] if part is not None else self._open(index, self._thoughts, PartKind.REASONING)
            part = self._thoughts.pop(index)
            return [*events, Signature(part, signature), PartEnd(part)]
        self._thoughts.pop(index, None)
        return [] if part is None else [PartEnd(part)]

    def _count(self, said: counts.Counts | None) -> list[Event]:
        if said is None:
            return []
        self._counts = counts.merge(self._counts, said)
        usage = counts.to_neutral(self._counts)
        return [] if usage is None else [*self._begin(), usage]

    _HANDLERS: ClassVar[dict[str, Callable[[Decoder, Frame], list[Event]]]] = {
        "message_start": _on_message_start,
        "content_block_start": _on_block_start,
        "content_block_delta": _on_delta,
        "content_block_stop": _on_block_stop,
        "message_delta": _on_message_delta,
        "message_stop": _on_message_stop,
        "error": _on_error,
        "ping": _on_ping,
    }

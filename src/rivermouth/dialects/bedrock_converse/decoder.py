"""An upstream's stream to events.

Blocks are looked up by their wire index and become parts lazily: a block that never says anything is no part (F21).
The kind of a part follows what is said.  The stream is whole when the message has stopped and been counted:
`messageStop` and `metadata`, in either order.  Blocks that the neutral model does not have pass as `Unknown`, which
only a client of this dialect ever sees.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final

import msgspec

from rivermouth.dialects.bedrock_converse.opaque import hidden_from_wire
from rivermouth.dialects.bedrock_converse.tables import FAILED_REASONS, IMAGES, NAME, REASONS, STOP_SEQUENCE, reason_of
from rivermouth.dialects.bedrock_converse.usage import Counts, to_neutral
from rivermouth.ir.call_ids import call_id
from rivermouth.ir.errors import ApiError, Kind, WireError, truncated
from rivermouth.ir.events import (
    ArgsDelta,
    Error,
    Event,
    Finish,
    MediaDelta,
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
from rivermouth.vendors.anthropic.signatures import signature_from_wire
from rivermouth.vendors.bedrock.failures import message_error
from rivermouth.wire import json
from rivermouth.wire.frame import Frame


class _Args(msgspec.Struct, gc=False):
    input: str | None = None


class _Thought(msgspec.Struct, gc=False):
    text: str | None = None
    signature: str | None = None
    hidden: str | None = msgspec.field(name="redactedContent", default=None)


class _Source(msgspec.Struct, gc=False):
    data: str | None = msgspec.field(name="bytes", default=None)


class _Picture(msgspec.Struct, gc=False):
    source: _Source | None = None


class _Delta(msgspec.Struct, gc=False):
    text: str | None = None
    args: _Args | None = msgspec.field(name="toolUse", default=None)
    thought: _Thought | None = msgspec.field(name="reasoningContent", default=None)
    image: _Picture | None = None


class _BlockDelta(msgspec.Struct, gc=False):
    index: int = msgspec.field(name="contentBlockIndex")
    delta: _Delta


class _Call(msgspec.Struct):
    id: str | None = msgspec.field(name="toolUseId", default=None)
    name: str | None = None
    type: str | None = None


class _Format(msgspec.Struct):
    format: str | None = None


class _Start(msgspec.Struct, frozen=True):
    call: _Call | None = msgspec.field(name="toolUse", default=None)
    image: _Format | None = None


class _BlockStart(msgspec.Struct):
    index: int = msgspec.field(name="contentBlockIndex")
    start: _Start = _Start()


class _BlockStop(msgspec.Struct):
    index: int = msgspec.field(name="contentBlockIndex")


class _Stop(msgspec.Struct):
    reason: str = msgspec.field(name="stopReason")
    more: dict[str, Any] | None = msgspec.field(name="additionalModelResponseFields", default=None)


class _Metadata(msgspec.Struct):
    usage: Counts | None = None


_block_delta: Final = json.typed(_BlockDelta)
_block_start: Final = json.typed(_BlockStart)
_block_stop: Final = json.typed(_BlockStop)
_stop: Final = json.typed(_Stop)
_metadata: Final = json.typed(_Metadata)


def stopped_by(word: str, more: Any) -> str | None:
    """Which stop sequence it was, if that was asked for and is said."""
    said = more.get(STOP_SEQUENCE) if isinstance(more, dict) else None
    return said if word == STOP_SEQUENCE and isinstance(said, str) else None


def failed(word: str) -> ApiError | None:
    """The failure that an end is; None for a good one."""
    text = FAILED_REASONS.get(word)
    return None if text is None else ApiError(Kind.UPSTREAM, text, code=word, provider=NAME)


def unknown_word(word: str) -> list[Warn]:
    if word in REASONS:
        return []
    return [Warn(f"the upstream's stopReason {quoted(word)} is not known", "stopReason")]


class Decoder:
    """Upstream frames to events.  Pure: same frames in, same events out.  A block has at most one open part."""

    __slots__ = (
        "_args",
        "_begun",
        "_called",
        "_counted",
        "_done",
        "_end",
        "_foreign",
        "_formats",
        "_ids",
        "_last",
        "_next",
        "_signatures",
        "_texts",
        "_thoughts",
    )

    def __init__(self, request: Request | None = None) -> None:
        self._begun = False
        self._done = False
        self._last: str | None = None
        self._next = 0  # the next part's number
        self._texts: dict[int, int] = {}  # wire index -> open part, for each kind
        self._thoughts: dict[int, int] = {}
        self._args: dict[int, int] = {}
        self._formats: dict[int, str] = {}  # of images that were announced
        self._foreign: set[int] = set()  # wire indexes of blocks that pass as Unknown
        self._signatures: dict[int, str] = {}
        self._ids: set[str] = set()
        self._called = False
        self._counted = False
        self._end: _Stop | None = None

    def feed(self, frame: Frame) -> list[Event]:
        if self._done:
            return []
        handler = self._HANDLERS.get(frame.name)
        if handler is not None:
            return handler(self, frame)
        error = message_error(NAME, frame)
        return self._on_unknown(frame) if error is None else self._fail(error)

    def eof(self) -> list[Event]:
        return [] if self._done else self._fail(truncated(NAME, self._last))

    def _fail(self, error: ApiError) -> list[Event]:
        self._done = True
        return [Error(error)]

    def _on_delta(self, frame: Frame) -> list[Event]:
        block = json.decode_as(_block_delta, frame.data)
        index, delta = block.index, block.delta
        if delta.text:
            part = self._texts.get(index)
            if part is not None:
                return [TextDelta(part, delta.text)]
        if index in self._foreign:
            return self._on_unknown(frame)
        if delta.text is not None:
            return self._say(index, self._texts, PartKind.TEXT, delta.text)
        if delta.args is not None:
            return self._argue(index, delta.args.input or "")
        if delta.thought is not None:
            return self._think(index, delta.thought)
        if delta.image is not None:
            return self._show(index, delta.image)
        return self._on_unknown(frame)

    def _on_message_start(self, frame: Frame) -> list[Event]:
        return self._begin()

    def _on_block_start(self, frame: Frame) -> list[Event]:
        block = json.decode_as(_block_start, frame.data)
        index, start = block.index, block.start
        events = self._close(index)
        self._foreign.discard(index)
        if start.call is not None and start.call.type is None:
            return events + self._call(index, start.call)
        if start.image is not None:
            self._formats[index] = start.image.format or ""
            return events
        if bytes(json.fields(frame.data).get("start", b"{}")).strip() in (b"{}", b"null"):
            return events
        self._foreign.add(index)
        return events + self._on_unknown(frame)

    def _on_block_stop(self, frame: Frame) -> list[Event]:
        index = json.decode_as(_block_stop, frame.data).index
        if index in self._foreign:
            self._foreign.discard(index)
            return self._on_unknown(frame)
        return self._close(index)

    def _on_message_stop(self, frame: Frame) -> list[Event]:
        stop = json.decode_as(_stop, frame.data)
        error = failed(stop.reason)
        if error is not None:
            return self._fail(error)
        events = self._begin()
        events += self._close_all()
        if self._end is None:
            events += unknown_word(stop.reason)
        self._end = stop
        return events + self._finish()

    def _on_metadata(self, frame: Frame) -> list[Event]:
        usage = to_neutral(json.decode_as(_metadata, frame.data).usage)
        events = self._begin()
        if usage is not None:
            events.append(usage)
        self._counted = True
        return events + self._finish()

    def _finish(self) -> list[Event]:
        if self._end is None or not self._counted:
            return []
        self._done = True
        reason = reason_of(self._end.reason, called=self._called)
        return [*self._close_all(), Finish(reason, stopped_by(self._end.reason, self._end.more))]

    def _close_all(self) -> list[Event]:
        """Also what begins between the two frames that make the end: no protocol promises that nothing does."""
        indexes = [*self._texts, *self._thoughts, *self._args, *self._signatures]
        return [event for index in indexes for event in self._close(index)]

    def _on_unknown(self, frame: Frame) -> list[Event]:
        return [Unknown(frame.name, frame.data)] if self._begun else []

    def _begin(self) -> list[Event]:
        if self._begun:
            return []
        self._begun = True
        return [Start()]

    def _open(self, index: int, parts: dict[int, int], kind: PartKind, redacted: bool = False) -> list[Event]:
        events = [*self._begin(), *self._close(index, keep_signature=kind is PartKind.REASONING)]
        part = parts[index] = self._number(kind)
        return [*events, PartStart(part, kind, redacted=redacted)]

    def _number(self, kind: PartKind) -> int:
        part = self._next
        self._next += 1
        self._last = f"part {part} ({kind.value})"
        return part

    def _say(self, index: int, parts: dict[int, int], kind: PartKind, text: str) -> list[Event]:
        """Text of a block, after opening its part; empty text is absent."""
        if not text:
            return []
        events = [] if index in parts else self._open(index, parts, kind)
        said = TextDelta(parts[index], text) if kind is PartKind.TEXT else ReasoningDelta(parts[index], text)
        return [*events, said]

    def _think(self, index: int, thought: _Thought) -> list[Event]:
        if thought.hidden is not None:
            hidden = hidden_from_wire(thought.hidden)
            if hidden is None:
                return []
            events = self._open(index, self._thoughts, PartKind.REASONING, redacted=True)
            part = self._thoughts.pop(index)
            return [*events, Signature(part, hidden), PartEnd(part)]
        if thought.signature:
            self._signatures[index] = self._signatures.get(index, "") + thought.signature
        return self._say(index, self._thoughts, PartKind.REASONING, thought.text or "")

    def _show(self, index: int, picture: _Picture) -> list[Event]:
        """An image, whole; one that is not there or of no known format is none."""
        data = picture.source.data if picture.source else None
        media_type = IMAGES.get(self._formats.get(index, ""))
        if not data or media_type is None:
            return []
        events = [*self._begin(), *self._close(index)]
        part = self._number(PartKind.IMAGE)
        return [*events, PartStart(part, PartKind.IMAGE), MediaDelta(part, media_type, data), PartEnd(part)]

    def _call(self, index: int, call: _Call) -> list[Event]:
        """A tool call.  A missing or repeated id is replaced by one made from the part's number (F20)."""
        if not call.name:
            raise WireError("a toolUse block without a name")
        events = self._begin()
        part = self._args[index] = self._number(PartKind.TOOL)
        self._called = True
        return [*events, PartStart(part, PartKind.TOOL, id=call_id(call.id, "", part, self._ids), name=call.name)]

    def _argue(self, index: int, text: str) -> list[Event]:
        part = self._args.get(index)
        if part is None and text:
            raise WireError("input for a block that is no open toolUse")
        return [ArgsDelta(part, text)] if part is not None and text else []

    def _close(self, index: int, *, keep_signature: bool = False) -> list[Event]:
        """Ends the open part of a block, if it has one."""
        part = self._texts.pop(index, None)
        if part is None:
            part = self._args.pop(index, None)
        if part is not None:
            return [PartEnd(part)]
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

    _HANDLERS: ClassVar[dict[str, Callable[[Decoder, Frame], list[Event]]]] = {
        "messageStart": _on_message_start,
        "contentBlockStart": _on_block_start,
        "contentBlockDelta": _on_delta,
        "contentBlockStop": _on_block_stop,
        "messageStop": _on_message_stop,
        "metadata": _on_metadata,
    }

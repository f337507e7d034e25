"""An Ollama upstream's frames to events, and its one reply object through the same path.

Ids are missing from most upstreams' tool calls; they are made from the first frame's time and the call's position, so
that they are the same for the same frames and differ between the answers of one conversation.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from rivermouth.dialects.ollama import media
from rivermouth.dialects.ollama.failure import said, upstream_error
from rivermouth.dialects.ollama.tables import NAME, REASONS
from rivermouth.dialects.ollama.times import unix_seconds
from rivermouth.ir.call_ids import call_id
from rivermouth.ir.errors import WireError, truncated
from rivermouth.ir.events import (
    ArgsDelta,
    Error,
    Event,
    Finish,
    MediaDelta,
    PartEnd,
    PartKind,
    PartStart,
    Reason,
    ReasoningDelta,
    Start,
    TextDelta,
    Unknown,
    Usage,
)
from rivermouth.ir.fold import fold
from rivermouth.ir.reply import Reply
from rivermouth.wire import json
from rivermouth.wire.frame import Frame


class _Function(msgspec.Struct, gc=False):
    name: str
    arguments: msgspec.Raw = msgspec.Raw(b"null")


class _Call(msgspec.Struct, gc=False):
    function: _Function
    id: str | None = None


class _Message(msgspec.Struct, gc=False):
    content: str | None = None
    thinking: str | None = None
    tool_calls: list[_Call] | None = None
    images: list[str] | None = None


class _Frame(msgspec.Struct, gc=False):
    """A frame of either route; `message` is chat's, the other content generate's.  As few members as will do: it is
    read for each token."""

    message: _Message | None = None
    response: str | None = None
    done: bool = False
    thinking: str | None = None
    tool_calls: list[_Call] | None = None
    image: str | None = None
    error: Any = None


class _End(msgspec.Struct, gc=False):
    """What only the last frame has, read from it a second time so that the others need not look for it."""

    done_reason: str | None = None
    load_duration: int | None = None
    prompt_eval_count: int | None = None
    prompt_eval_duration: int | None = None
    eval_count: int | None = None
    eval_duration: int | None = None


class _Head(msgspec.Struct, gc=False):
    """What is only wanted of the first frame."""

    model: str | None = None
    created_at: str | None = None


_FRAME: Final = json.typed(_Frame)
_HEAD: Final = json.typed(_Head)
_END: Final = json.typed(_End)


class Decoder:
    """One stream.  Parts are opened lazily and only one is open at a time (F21, F23)."""

    __slots__ = ("_calls", "_done", "_kind", "_next", "_seed", "_seen", "_started")

    def __init__(self) -> None:
        self._started = False
        self._done = False
        self._kind: PartKind | None = None  # of the open part, whose number is `_next - 1`
        self._next = 0
        self._calls = 0
        self._seed = ""
        self._seen: set[str] = set()

    def feed(self, frame: Frame) -> list[Event]:
        """The events of one line.  Raises `WireError` when it is no Ollama frame."""
        if self._done:
            return []
        found = json.decode_as(_FRAME, frame.data)
        if found.error:
            self._done = True
            return [Error(upstream_error(said(found.error)))]
        message = found.message
        if self._kind is PartKind.TEXT and not found.done:  # the hot path: more of the text that is already flowing
            if message is not None:
                text, plain = message.content, not (message.thinking or message.tool_calls or message.images)
            else:
                text, plain = found.response, not (found.thinking or found.tool_calls or found.image)
            if text and plain:
                return [TextDelta(self._next - 1, text)]
        return self._any(found, frame)

    def eof(self) -> list[Event]:
        """The connection ended: fine after `done: true` or an error, else the answer was cut (F10)."""
        if self._done:
            return []
        self._done = True
        return [Error(truncated(NAME))]

    def _any(self, found: _Frame, frame: Frame) -> list[Event]:
        events: list[Event] = [] if self._started else [self._start(frame)]
        message = found.message
        if message is not None:
            self._content(events, message.thinking, message.content, message.tool_calls, message.images)
        elif found.response is not None or found.thinking or found.tool_calls or found.image:
            images = [found.image] if found.image else None
            self._content(events, found.thinking, found.response, found.tool_calls, images)
        elif not found.done:
            events.append(Unknown("", frame.data))
        if found.done:
            self._finish(events, json.decode_as(_END, frame.data))
        return events

    def _start(self, frame: Frame) -> Start:
        head = json.decode_as(_HEAD, frame.data)
        self._started = True
        stamp = head.created_at or ""
        self._seed = "".join(filter(str.isdecimal, stamp[:40]))
        return Start(model=head.model or None, created=unix_seconds(stamp) or None)

    def _content(
        self,
        events: list[Event],
        thinking: str | None,
        text: str | None,
        calls: list[_Call] | None,
        images: list[str] | None,
    ) -> None:
        if thinking:
            events.append(ReasoningDelta(self._part(events, PartKind.REASONING), thinking))
        if text:
            events.append(TextDelta(self._part(events, PartKind.TEXT), text))
        for data in images or ():
            part = self._part(events, PartKind.IMAGE)
            events.append(MediaDelta(part, media.media_type(data), data))
            self._close(events)
        for call in calls or ():
            self._call(events, call)

    def _call(self, events: list[Event], call: _Call) -> None:
        if not call.function.name:
            raise WireError("a tool call without a name")
        arguments = _arguments(call.function.arguments)
        part = self._part(events, PartKind.TOOL, self._id(call.id), call.function.name)
        if arguments:
            events.append(ArgsDelta(part, arguments))
        self._close(events)

    def _id(self, given: str | None) -> str:
        self._calls += 1
        return call_id(given, self._seed, self._calls - 1, self._seen)

    def _part(self, events: list[Event], kind: PartKind, id_: str | None = None, name: str | None = None) -> int:
        """The number of the open part of that kind, after opening it if need be."""
        if kind is not self._kind:
            self._close(events)
            events.append(PartStart(self._next, kind, id=id_, name=name))
            self._kind = kind
            self._next += 1
        return self._next - 1

    def _close(self, events: list[Event]) -> None:
        if self._kind is not None:
            events.append(PartEnd(self._next - 1))
            self._kind = None

    def _finish(self, events: list[Event], last: _End) -> None:
        self._close(events)
        usage = Usage(
            input_tokens=last.prompt_eval_count,
            output_tokens=last.eval_count,
            load_ns=last.load_duration,
            prompt_ns=last.prompt_eval_duration,
            output_ns=last.eval_duration,
        )
        if usage != Usage():
            events.append(usage)
        reason = REASONS.get(last.done_reason or "", Reason.STOP)
        if self._calls and reason is Reason.STOP:  # Ollama ends tool calls with `stop` (F24)
            reason = Reason.TOOL_CALLS
        events.append(Finish(reason))
        self._done = True


def read_reply(body: bytes) -> list[Event]:
    """A non-streaming reply.  Raises `WireError` when it is none, `ApiError` for an error object or a cut answer."""
    decoder = Decoder()
    return [*decoder.feed(Frame("", body)), *decoder.eof()]


def parse_reply(body: bytes) -> Reply:
    """The same as a value."""
    return fold(read_reply(body))


def _arguments(raw: msgspec.Raw) -> str:
    """Always text: an object as it stands, a string's content, "" for null (F20)."""
    try:
        text = bytes(raw).decode()
    except UnicodeDecodeError as error:
        raise WireError(f"not UTF-8 at byte {error.start} of a tool call") from None
    if text[:1] != '"':
        return "" if text == "null" else text
    return str(json.decode(raw))

"""An upstream's stream to events.

Blocks and calls are looked up by their wire indexes, which count apart, and become parts lazily: a block that never
says anything is no part (F21).  The kind of a part follows what is said, not only what was announced (F23).  Citations
and whatever is newer pass as `Unknown`, which only a client of this dialect ever sees.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Final

from rivermouth.dialects.cohere_v2 import frames
from rivermouth.dialects.cohere_v2.tables import ERROR, FAILED, FILTERED, NAME, REASONS, STOP_SEQUENCE, reason_of
from rivermouth.dialects.cohere_v2.turns import Call, arguments_text
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
    Reason,
    ReasoningDelta,
    Start,
    TextDelta,
    Unknown,
    Warn,
)
from rivermouth.ir.names import quoted
from rivermouth.ir.request import Request
from rivermouth.vendors.cohere.counts import read_counts
from rivermouth.vendors.cohere.failures import upstream_error, words
from rivermouth.wire import json
from rivermouth.wire.frame import Frame

CALLS_CAP: Final = 1024  # that are open at once; each delta without an index looks for the last of them
_PLAN: Final = -1  # the index of what `tool-plan-delta` says, among those of the text blocks
_CONTENT_DELTA: Final = frames.CONTENT_DELTA
_decode: Final = json.decode_as


class Decoder:
    """Frames to events, exactly one Finish or Error.  `Finish` comes with `message-end` and with nothing else (F10)."""

    __slots__ = (
        "_begun", "_calls", "_done", "_foreign", "_id", "_ids", "_last", "_made", "_next", "_stop", "_texts",
        "_thoughts",
    )  # fmt: skip

    def __init__(self, request: Request | None = None) -> None:
        self._begun = False
        self._done = False
        self._last: str | None = None
        self._id = ""
        self._next = 0  # the next part's number
        self._texts: dict[int, int] = {}  # wire index -> open part, for each kind
        self._thoughts: dict[int, int] = {}
        self._calls: dict[int, int] = {}
        self._made = 0  # calls so far
        self._foreign: set[int] = set()  # indexes of blocks that pass as Unknown
        self._ids: set[str] = set()
        # The protocol does not say which sequence stopped the model; where only one was asked for, it was that one.
        self._stop = request.stop[0] if request is not None and len(request.stop) == 1 else None

    def feed(self, frame: Frame) -> list[Event]:
        """The events of one frame; after the end always [].  Raises `WireError` on what is no frame."""
        if self._done:
            return []
        if frame.name == "content-delta":
            return self._on_content_delta(frame)
        name = frames.frame_type(frame)
        handler = self._HANDLERS.get(name)
        if handler is None:
            return self._on_unknown(frame)
        self._last = name
        return handler(self, frame)

    def eof(self) -> list[Event]:
        """The upstream closed: fine after `message-end`, else the answer was cut (F10)."""
        if self._done:
            return []
        self._done = True
        return [Error(truncated(NAME, self._last))]

    # -- the message --------------------------------------------------------------------------------------------------

    def _on_message_start(self, frame: Frame) -> list[Event]:
        return self._begin(_decode(frames.MESSAGE_START, frame.data).id)

    def _begin(self, identity: str | None = None) -> list[Event]:
        if self._begun:
            return []
        self._begun = True
        self._id = identity or ""
        return [Start(identity or None)]

    def _on_message_end(self, frame: Frame) -> list[Event]:
        end = _decode(frames.MESSAGE_END, frame.data).delta or frames.Ending()
        word, error = end.finish_reason, words(end.error)
        events = self._begin()
        usage = read_counts(end.usage)
        if usage is not None:
            events.append(usage)
        filtered = word == ERROR and error == FILTERED
        if not filtered and (word in FAILED or error):
            self._done = True
            return [*events, Error(upstream_error(NAME, error, FAILED.get(word or "", Kind.UPSTREAM)))]
        if word is None:
            return events + self.eof()
        for table in (self._texts, self._thoughts, self._calls):
            for index in [*table]:
                self._close(table, index, events)
        self._done = True
        if filtered:
            return [*events, Finish(Reason.CONTENT_FILTER)]
        if word not in REASONS:
            events.append(Warn(f"the upstream's finish_reason {quoted(word)} is not known", "finish_reason"))
        return [*events, Finish(reason_of(word, called=self._made > 0), self._stop if word == STOP_SEQUENCE else None)]

    def _on_error(self, frame: Frame) -> list[Event]:
        """No event of this protocol, but what some servers send in place of the end."""
        self._done = True
        try:
            text = words(json.decode(frame.data))
        except WireError:
            text = frame.data[:200].decode("utf-8", "replace")
        return [Error(upstream_error(NAME, text))]

    def _on_done(self, frame: Frame) -> list[Event]:
        """Whether the answer was whole is known without it."""
        return []

    def _on_unknown(self, frame: Frame) -> list[Event]:
        return [*self._begin(), Unknown(frame.name, frame.data)]

    # -- content ------------------------------------------------------------------------------------------------------

    def _on_content_start(self, frame: Frame) -> list[Event]:
        found = _decode(frames.CONTENT_START, frame.data)
        index = found.index or 0
        message = found.delta.message if found.delta is not None else None
        content = (message.content if message is not None else None) or frames.Content()
        events = self._begin()
        self._end_block(index, events)
        self._foreign.discard(index)
        self._close(self._texts, _PLAN, events)
        if content.type not in ("text", "thinking", None):
            self._foreign.add(index)
            return [*events, Unknown(frame.name, frame.data)]
        self._say(index, content.text, content.thinking, events)
        return events

    def _on_content_delta(self, frame: Frame) -> list[Event]:
        """The hot path: more of what is already flowing."""
        found = _decode(_CONTENT_DELTA, frame.data)
        delta = found.delta
        if delta is not None and (message := delta.message) is not None and (said := message.content) is not None:
            if said.text and not said.thinking and (part := self._texts.get(found.index or 0)) is not None:
                return [TextDelta(part, said.text)]
            if said.thinking and not said.text and (part := self._thoughts.get(found.index or 0)) is not None:
                return [ReasoningDelta(part, said.thinking)]
        return self._first_delta(frame, found)

    def _first_delta(self, frame: Frame, found: frames.ContentDelta) -> list[Event]:
        """A delta that finds no open part of its kind, that says nothing, or that says both."""
        self._last = "content-delta"
        index = found.index or 0
        message = found.delta.message if found.delta is not None else None
        said = message.content if message is not None else None
        if said is None or index in self._foreign:
            return self._on_unknown(frame)
        events = self._begin()
        self._say(index, said.text, said.thinking, events)
        return events

    def _on_content_end(self, frame: Frame) -> list[Event]:
        index = _decode(frames.INDEXED, frame.data).index or 0
        if index in self._foreign:
            self._foreign.discard(index)
            return self._on_unknown(frame)
        events = self._begin()
        self._end_block(index, events)
        return events

    def _on_tool_plan(self, frame: Frame) -> list[Event]:
        delta = _decode(frames.TOOL_PLAN, frame.data).delta
        events = self._begin()
        if delta is not None and delta.message is not None:
            self._say(_PLAN, delta.message.tool_plan, None, events)
        return events

    def _say(self, index: int, text: str | None, thought: str | None, events: list[Event]) -> None:
        if thought:
            self._close(self._texts, index, events)
            events.append(ReasoningDelta(self._part(self._thoughts, index, PartKind.REASONING, events), thought))
        if text:
            self._close(self._thoughts, index, events)
            events.append(TextDelta(self._part(self._texts, index, PartKind.TEXT, events), text))

    def _part(self, table: dict[int, int], index: int, kind: PartKind, events: list[Event]) -> int:
        part = table.get(index)
        if part is None:
            part = table[index] = self._number()
            events.append(PartStart(part, kind))
        return part

    def _end_block(self, index: int, events: list[Event]) -> None:
        self._close(self._texts, index, events)
        self._close(self._thoughts, index, events)

    def _close(self, table: dict[int, int], index: int, events: list[Event]) -> None:
        part = table.pop(index, None)
        if part is not None:
            events.append(PartEnd(part))

    def _number(self) -> int:
        self._next += 1
        return self._next - 1

    # -- calls --------------------------------------------------------------------------------------------------------

    def _on_call_start(self, frame: Frame) -> list[Event]:
        found = _decode(frames.TOOL_CALL_START, frame.data)
        message = found.delta.message if found.delta is not None else None
        calls = message.tool_calls if message is not None else None
        if calls is None:
            raise WireError("tool-call-start without its call")
        events = self._begin()
        self._close(self._texts, _PLAN, events)
        first = found.index if found.index is not None else self._made
        for offset, call in enumerate(calls if isinstance(calls, list) else [calls]):
            self._call(first + offset, call, events)
        return events

    def _call(self, index: int, call: Call, events: list[Event]) -> None:
        if not call.function.name:
            raise WireError("a tool call without a name")
        self._close(self._calls, index, events)
        if len(self._calls) == CALLS_CAP:
            raise WireError(f"more than {CALLS_CAP} tool calls at once")
        part = self._calls[index] = self._number()
        events.append(PartStart(part, PartKind.TOOL, 0, self._identity(call.id), call.function.name))
        given = arguments_text(call.function.arguments)
        if given:
            events.append(ArgsDelta(part, given))

    def _identity(self, given: str | None) -> str:
        self._made += 1
        return call_id(given, self._id, self._made - 1, self._ids)

    def _on_call_delta(self, frame: Frame) -> list[Event]:
        found = _decode(frames.TOOL_CALL_DELTA, frame.data)
        message = found.delta.message if found.delta is not None else None
        pieces = message.tool_calls if message is not None else None
        first = found.index if found.index is not None else max(self._calls, default=0)
        events: list[Event] = []
        for offset, piece in enumerate(pieces if isinstance(pieces, list) else [pieces] if pieces is not None else []):
            said = piece.function.arguments if piece.function is not None else None
            if not said:
                continue
            part = self._calls.get(first + offset)
            if part is None:
                raise WireError("tool-call-delta for a call that is not open")
            events.append(ArgsDelta(part, said))
        return events

    def _on_call_end(self, frame: Frame) -> list[Event]:
        index = _decode(frames.INDEXED, frame.data).index
        events: list[Event] = []
        self._close(self._calls, index if index is not None else max(self._calls, default=0), events)
        return events

    _HANDLERS: ClassVar[dict[str, Callable[[Decoder, Frame], list[Event]]]] = {
        "message-start": _on_message_start,
        "content-start": _on_content_start,
        "content-delta": _on_content_delta,
        "content-end": _on_content_end,
        "tool-plan-delta": _on_tool_plan,
        "tool-call-start": _on_call_start,
        "tool-call-delta": _on_call_delta,
        "tool-call-end": _on_call_end,
        "message-end": _on_message_end,
        "error": _on_error,
        frames.DONE: _on_done,
    }

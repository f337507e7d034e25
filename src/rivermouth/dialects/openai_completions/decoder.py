"""A stream of this dialect to events.  Pure; `Finish` comes with `[DONE]` and with nothing else (F10)."""

from __future__ import annotations

from typing import Any, Final

from rivermouth.dialects.openai_completions.shapes import ChoiceShape, Chunk
from rivermouth.dialects.openai_completions.tables import FINISH_FAILED, FINISH_IN, NAME
from rivermouth.ir.errors import ApiError, Kind, WireError, truncated
from rivermouth.ir.events import (
    Error,
    Event,
    Finish,
    PartEnd,
    PartKind,
    PartStart,
    Reason,
    Start,
    TextDelta,
    Unknown,
    Warn,
)
from rivermouth.ir.names import quoted
from rivermouth.ir.request import Request
from rivermouth.vendors.openai.failures import error_value, read_error
from rivermouth.vendors.openai.usage import read_usage
from rivermouth.wire import json
from rivermouth.wire.frame import Frame

CHOICES_CAP: Final = 4096
"""Prompts times answers for each."""
_chunk: Final = json.typed(Chunk)


class _Choice:
    __slots__ = ("part", "reason")

    def __init__(self) -> None:
        self.part: int | None = None
        self.reason: Reason | None = None


class Decoder:
    """Frames to events, exactly one Finish or Error."""

    def __init__(self, request: Request | None = None) -> None:
        self._choices: dict[int, _Choice] = {}
        self._parts = 0
        self._started = False
        self._done = False

    def feed(self, frame: Frame) -> list[Event]:
        """The events of one frame; after the end always [].  Raises `WireError` on what is no chunk."""
        data = frame.data
        if self._done or not data:
            return []
        if data.startswith(b"[DONE]"):
            return self._close()
        if frame.name == "error":
            return self._fail(error_value(data))
        return self._read(json.decode_as(_chunk, data), frame)

    def eof(self) -> list[Event]:
        """The upstream closed.  Without `[DONE]` the answer may be cut, so it is an Error."""
        if self._done:
            return []
        self._done = True
        return [Error(truncated(NAME, "a finish_reason" if self._all_finished() else None))]

    def whole(self, chunk: Chunk, frame: Frame) -> list[Event]:
        """The events of a non-streaming reply: one chunk, whose choices are complete even if they do not say so."""
        events = self._read(chunk, frame)
        for choice in self._choices.values():
            choice.reason = choice.reason or Reason.STOP
        return events if self._done else events + self._close()

    def _read(self, chunk: Chunk, frame: Frame) -> list[Event]:
        if chunk.error or chunk.object == "error":
            return self._fail(chunk.error or error_value(frame.data))
        events: list[Event] = []
        if not self._started:
            self._started = True
            created = int(chunk.created) if chunk.created is not None else None
            events.append(Start(chunk.id or None, chunk.model or None, created or None))
        if chunk.choices is None and chunk.usage is None:
            events.append(Unknown(chunk.object or frame.name, frame.data))
        for position, choice in enumerate(chunk.choices or ()):
            self._choice(position if choice.index is None else choice.index, choice, events)
            if self._done:
                return events
        usage = read_usage(chunk.usage) if chunk.usage is not None else None
        return events if usage is None else [*events, usage]

    def _choice(self, index: int, wire: ChoiceShape, events: list[Event]) -> None:
        choice = self._choices.get(index)
        if choice is None:
            if not 0 <= index < CHOICES_CAP:
                raise WireError(f"choice index {index} is not between 0 and {CHOICES_CAP - 1}")
            choice = self._choices[index] = _Choice()
        if wire.text:
            if choice.part is None:
                choice.part = self._parts
                self._parts += 1
                events.append(PartStart(choice.part, PartKind.TEXT, index))
            events.append(TextDelta(choice.part, wire.text))
        if wire.error:
            events += self._fail(wire.error)
        elif wire.finish_reason:
            self._finish(choice, wire.finish_reason, events)

    def _finish(self, choice: _Choice, word: str, events: list[Event]) -> None:
        failed = FINISH_FAILED.get(word)
        if failed is not None:
            self._done = True
            events.append(Error(ApiError(failed, f"finish_reason {word}")))
            return
        reason = FINISH_IN.get(word)
        if reason is None:
            events.append(Warn(f"unknown finish_reason {quoted(word)} read as stop", "finish_reason"))
        choice.reason = Reason.STOP if reason in (None, Reason.TOOL_CALLS) else reason
        _end(choice, events)

    def _close(self) -> list[Event]:
        """`[DONE]`: the one good end, if every choice has said how it ended."""
        self._done = True
        if not self._started:
            return [Error(ApiError(Kind.UPSTREAM, "the upstream sent an empty stream", code="empty"))]
        if not self._all_finished():
            return [Error(truncated(NAME))]
        events: list[Event] = []
        for choice in self._choices.values():
            _end(choice, events)
        reasons = tuple(self._reason(i) for i in range(max(self._choices) + 1))
        return [*events, Finish(reasons[0], None, reasons if len(reasons) > 1 else ())]

    def _reason(self, index: int) -> Reason:
        choice = self._choices.get(index)
        return choice.reason if choice is not None and choice.reason is not None else Reason.STOP

    def _all_finished(self) -> bool:
        return bool(self._choices) and all(c.reason is not None for c in self._choices.values())

    def _fail(self, value: Any) -> list[Event]:
        self._done = True
        return [Error(read_error(value))]


def _end(choice: _Choice, events: list[Event]) -> None:
    if choice.part is not None:
        events.append(PartEnd(choice.part))
        choice.part = None

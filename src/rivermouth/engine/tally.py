"""What one attempt has produced so far: counts for the record, the commit point, and whether the order was legal.

On the hot path: one pass over the events of a read, no text kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

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
    Usage,
    Warn,
    merge_usage,
)
from rivermouth.ir.grammar import Grammar
from rivermouth.ir.tokens import estimate_tokens


class Tally:
    """`feed` returns True when the events held content (text, reasoning, a tool's start, media)."""

    __slots__ = ("_grammar", "_prose", "chunks", "end", "produced", "start", "text_chars", "usage")

    def __init__(self) -> None:
        self._grammar = Grammar()
        self._prose = -1
        self.chunks = 0
        self.text_chars = 0
        self.produced = False
        self.usage: Usage | None = None
        self.start: Start | None = None
        self.end: Finish | Error | None = None

    def feed(self, events: list[Event]) -> bool:
        content, prose = False, self._prose
        for event in events:
            if type(event) is TextDelta and event.part == prose:
                # One more delta of the part that the last event was a delta of: no state of the grammar moves.
                self.text_chars += len(event.text)
                self.chunks += 1
                content = True
                continue
            self._grammar.feed(event)
            content = NOTES[type(event)](self, event) or content
            prose = event.part if type(event) is TextDelta else -1
        self._prose = prose
        self.produced = self.produced or content
        return content

    def tokens(self) -> Usage:
        """The usage as the upstream said it; where it did not, an estimate of the output, flagged as one (F29)."""
        usage = self.usage or Usage()
        if usage.output_tokens is not None:
            return usage
        return merge_usage(usage, Usage(output_tokens=estimate_tokens(self.text_chars, self.chunks), estimated=True))


def _text(tally: Tally, event: TextDelta | ReasoningDelta) -> bool:
    tally.text_chars += len(event.text)
    tally.chunks += 1
    return True


def _arguments(tally: Tally, event: ArgsDelta) -> bool:
    tally.text_chars += len(event.json)
    tally.chunks += 1
    return True


def _media(tally: Tally, event: MediaDelta) -> bool:
    return True


def _opened(tally: Tally, event: PartStart) -> bool:
    return event.kind is PartKind.TOOL


def _counted(tally: Tally, event: Usage) -> bool:
    tally.usage = merge_usage(tally.usage, event)
    return False


def _started(tally: Tally, event: Start) -> bool:
    tally.start = event
    return False


def _ended(tally: Tally, event: Finish | Error) -> bool:
    tally.end = event
    return False


def _passed(tally: Tally, event: Event) -> bool:
    return False


NOTES: Final[Mapping[type, Callable[[Tally, Any], bool]]] = {
    Start: _started,
    PartStart: _opened,
    TextDelta: _text,
    ReasoningDelta: _text,
    Signature: _passed,
    ArgsDelta: _arguments,
    MediaDelta: _media,
    PartEnd: _passed,
    Usage: _counted,
    Warn: _passed,
    Unknown: _passed,
    Finish: _ended,
    Error: _ended,
}
"""Counts one event; True when it is content."""

"""What one attempt has produced so far: counts for the record, the commit point, and whether the order was legal.

On the hot path: one pass over the events of a read, no text kept.
"""

from __future__ import annotations

from rivermouth.ir.events import (
    ArgsDelta,
    Error,
    Event,
    Finish,
    MediaDelta,
    PartKind,
    PartStart,
    ReasoningDelta,
    Start,
    TextDelta,
    Usage,
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
            content = self._note(event) or content
            prose = event.part if type(event) is TextDelta else -1
        self._prose = prose
        self.produced = self.produced or content
        return content

    def _note(self, event: Event) -> bool:
        """Counts one event; True when it is content."""
        match event:
            case TextDelta() | ReasoningDelta():
                self.text_chars += len(event.text)
                self.chunks += 1
                return True
            case ArgsDelta():
                self.text_chars += len(event.json)
                self.chunks += 1
                return True
            case MediaDelta():
                return True
            case PartStart():
                return event.kind is PartKind.TOOL
            case Usage():
                self.usage = merge_usage(self.usage, event)
            case Start():
                self.start = event
            case Finish() | Error():
                self.end = event
            case _:
                pass
        return False

    def tokens(self) -> Usage:
        """The usage as the upstream said it; where it did not, an estimate of the output, flagged as one (F29)."""
        usage = self.usage or Usage()
        if usage.output_tokens is not None:
            return usage
        return merge_usage(usage, Usage(output_tokens=estimate_tokens(self.text_chars, self.chunks), estimated=True))

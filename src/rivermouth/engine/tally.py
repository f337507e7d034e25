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


class Tally:
    """`feed` returns True when the events held content (text, reasoning, a tool's start, media)."""

    __slots__ = ("_grammar", "chunks", "end", "produced", "start", "text_chars", "usage")

    def __init__(self) -> None:
        self._grammar = Grammar()
        self.chunks = 0
        self.text_chars = 0
        self.produced = False
        self.usage: Usage | None = None
        self.start: Start | None = None
        self.end: Finish | Error | None = None

    def feed(self, events: list[Event]) -> bool:
        check = self._grammar.feed
        content = False
        for event in events:
            check(event)
            kind = type(event)
            if kind is TextDelta or kind is ReasoningDelta:
                self.text_chars += len(event.text)  # type: ignore[union-attr]
                self.chunks += 1
                content = True
            elif kind is ArgsDelta:
                self.text_chars += len(event.json)  # type: ignore[union-attr]
                self.chunks += 1
                content = True
            elif kind is PartStart:
                content = content or event.kind is PartKind.TOOL  # type: ignore[union-attr]
            elif kind is MediaDelta:
                content = True
            elif kind is Usage:
                self.usage = merge_usage(self.usage, event)  # type: ignore[arg-type]
            elif kind is Start:
                self.start = event  # type: ignore[assignment]
            elif kind is Finish or kind is Error:
                self.end = event  # type: ignore[assignment]
        self.produced = self.produced or content
        return content

    def tokens(self) -> Usage:
        """The usage as the upstream said it; where it did not, an estimate of the output, flagged as one (F29)."""
        usage = self.usage or Usage()
        if usage.output_tokens is not None:
            return usage
        return merge_usage(usage, Usage(output_tokens=estimate_tokens(self.text_chars, self.chunks), estimated=True))


CHARS_PER_TOKEN = 4


def estimate_tokens(chars: int, chunks: int = 0) -> int:
    """Tokens in a text of that length: four characters a token, but never fewer than the pieces a model made of it."""
    return max(-(-chars // CHARS_PER_TOKEN), chunks)

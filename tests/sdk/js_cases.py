"""Streams for the accumulators of JavaScript SDKs: one for each case, told by the model's name, and what they say."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from rivermouth.dialects import discover
from rivermouth.ir.errors import ApiError, Kind
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
    Signature,
    Start,
    TextDelta,
    Usage,
)
from rivermouth.ir.request import Request
from tests.dialects.loopback import Loopback, loopback

SIGNATURE: Final = "vendor:c2lnbmVk"
THOUGHT: Final = "hm… 🌊"
SAID: Final = "Wet\u2028, über 🌊"


def text(part: int, kind: PartKind = PartKind.TEXT, words: str = SAID) -> list[Event]:
    return [PartStart(part, kind), *(TextDelta(part, word) for word in words), PartEnd(part)]


def thought(part: int) -> list[Event]:
    pieces = (ReasoningDelta(part, piece) for piece in THOUGHT)
    return [PartStart(part, PartKind.REASONING), *pieces, Signature(part, SIGNATURE), PartEnd(part)]


def call(part: int, *pieces: str, name: str = "weather") -> list[Event]:
    deltas = (ArgsDelta(part, piece) for piece in pieces)
    return [PartStart(part, PartKind.TOOL, 0, f"call_{part}", name), *deltas, PartEnd(part)]


BOTH: Final[list[Event]] = [
    PartStart(0, PartKind.TOOL, 0, "call_0", "weather"),
    PartStart(1, PartKind.TOOL, 0, "call_1", "time"),
    ArgsDelta(0, '{"city":'),
    ArgsDelta(1, '{"zone"'),
    ArgsDelta(0, '"Köln"}'),
    PartEnd(0),
    ArgsDelta(1, ':"CET"}'),
    PartEnd(1),
]
USAGE: Final = Usage(9, 4)
CASES: Final[dict[str, list[Event]]] = {
    "text": [*text(0), USAGE, Finish(Reason.STOP)],
    "reasoning": [*thought(0), *text(1), USAGE, Finish(Reason.STOP)],
    "tool": [*text(0), *call(1, '{"city"', ':"Köln"}'), USAGE, Finish(Reason.TOOL_CALLS)],
    "no_arguments": [*call(0), USAGE, Finish(Reason.TOOL_CALLS)],
    "parallel": [*BOTH, USAGE, Finish(Reason.TOOL_CALLS)],
    "signed": [*thought(0), *call(1, '{"city":"Köln"}'), USAGE, Finish(Reason.TOOL_CALLS)],
    "refusal": [*text(0, PartKind.REFUSAL), USAGE, Finish(Reason.STOP)],
    "filter": [*text(0), USAGE, Finish(Reason.CONTENT_FILTER)],
    "schema": [*text(0, words='{"city":"Köln"}'), USAGE, Finish(Reason.STOP)],
    "length": [*text(0), USAGE, Finish(Reason.LENGTH)],
    "error": [*text(0)[:-1], Error(ApiError(Kind.OVERLOADED, "too much to do"))],
    "cut": text(0)[:-1],
}
"""`cut` ends the body as if that were all."""


def said(request: Request) -> list[Event]:
    return [Start("up-1", "up-model", 1_700_000_000), *CASES[request.model]]


@contextmanager
def cases(*names: str) -> Iterator[dict[str, Loopback]]:
    """A server of each dialect that answers with these streams."""
    with ExitStack() as stack:
        yield {name: stack.enter_context(loopback(discover()[name], said)) for name in names}

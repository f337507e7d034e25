"""What is said in the goldens: the same answers and the same questions for every dialect."""

from __future__ import annotations

from typing import Any, Final

from rivermouth.ir.errors import ApiError, Kind, truncated
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
from rivermouth.ir.request import (
    Format,
    Image,
    Message,
    Request,
    ResponseFormat,
    Role,
    Text,
    Tool,
    ToolCall,
    ToolResult,
)

START: Final = Start("up-1", "up-model", 1_764_400_000)
LONG_PIECES: Final = 200


def text(part: int, *pieces: str) -> list[Event]:
    return [PartStart(part, PartKind.TEXT), *(TextDelta(part, piece) for piece in pieces), PartEnd(part)]


def _answer(*events: Event, usage: Usage | None = None, finish: Finish | None = None) -> list[Event]:
    return [START, *events, usage or Usage(9, 4), finish or Finish(Reason.STOP)]


def _long() -> list[Event]:
    return text(0, *(f" and the river {number} runs" for number in range(LONG_PIECES)))


HALF: Final[list[Event]] = [START, PartStart(0, PartKind.TEXT), TextDelta(0, "Deep"), TextDelta(0, " wat")]

ANSWERS: Final[dict[str, list[Event]]] = {
    "text": _answer(*text(0, "Deep", " water.")),
    "long_text": _answer(*_long(), usage=Usage(9, 5 * LONG_PIECES)),
    "unicode": _answer(
        *text(0, "a\u2028b\u2029c\u0085d", " cafe\u0301", " 👩\u200d👩\u200d👧", ' 😀 \\ "q"\n\tend'),
    ),
    "one_tool": _answer(
        *text(0, "Let me see."),
        PartStart(1, PartKind.TOOL, 0, "call_1", "weather"),
        ArgsDelta(1, '{"city":'),
        ArgsDelta(1, ' "Köln"}'),
        PartEnd(1),
        finish=Finish(Reason.TOOL_CALLS),
    ),
    "parallel_tools": _answer(
        PartStart(0, PartKind.TOOL, 0, "call_1", "weather"),
        ArgsDelta(0, '{"city":'),
        PartStart(1, PartKind.TOOL, 0, "call_2", "time"),
        ArgsDelta(0, '"Köln"}'),
        PartEnd(0),
        PartEnd(1),
        finish=Finish(Reason.TOOL_CALLS),
    ),
    "reasoning_signed": _answer(
        PartStart(0, PartKind.REASONING),
        ReasoningDelta(0, "Rivers"),
        ReasoningDelta(0, " are deep."),
        Signature(0, "c2lnbmF0dXJl"),
        PartEnd(0),
        *text(1, "Deep."),
        usage=Usage(9, 12, reasoning_tokens=8),
    ),
    "stop_sequence": _answer(*text(0, "One, two, "), finish=Finish(Reason.STOP, "three")),
    "length": _answer(*text(0, "Once upon a"), finish=Finish(Reason.LENGTH)),
    "content_filter": _answer(*text(0, "I can"), finish=Finish(Reason.CONTENT_FILTER)),
    "usage_cached": _answer(*text(0, "Deep."), usage=Usage(120, 7, 100, 10, 3)),
    "error_inside": [*HALF, Error(ApiError(Kind.OVERLOADED, "the model is busy", retry_after_s=7))],
    "cut": [*HALF, Error(truncated("lab", "text"))],
}
"""What a model says; the client is told as the whole of `Answer` allows."""

REFUSALS: Final[dict[str, ApiError]] = {
    "error_before": ApiError(Kind.RATE_LIMITED, "too many calls", code="rate_limited", retry_after_s=7),
}

SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city"],
    "additionalProperties": False,
}
QUESTION: Final = Message(Role.USER, (Text("How is it in Köln?"),))
PIXEL: Final = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

QUESTIONS: Final[dict[str, Request]] = {
    "tool_results": Request(
        model="m",
        system=(Text("Be brief."),),
        messages=(
            QUESTION,
            Message(
                Role.ASSISTANT,
                (
                    Text("Two things."),
                    ToolCall("call_1", "weather", '{"city":"Köln"}'),
                    ToolCall("call_2", "time", "{}"),
                ),
            ),
            Message(Role.TOOL, (ToolResult("call_1", (Text("rain"),)), ToolResult("call_2", (Text("noon"),)))),
            Message(Role.USER, (Text("So?"),)),
        ),
        tools=(Tool("weather", "Today's weather", SCHEMA), Tool("time")),
        max_tokens=99,
        stream=True,
    ),
    "image": Request(
        model="m",
        messages=(Message(Role.USER, (Text("What is this?"), Image("image/png", PIXEL))),),
        max_tokens=99,
    ),
    "json_schema": Request(
        model="m",
        messages=(QUESTION,),
        response_format=ResponseFormat(Format.JSON_SCHEMA, SCHEMA, "place", strict=True),
        max_tokens=99,
    ),
}
"""What an upstream is asked by a client of another dialect."""

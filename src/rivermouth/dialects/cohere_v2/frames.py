"""The shapes of an upstream's stream, and what a frame is.

Nearly everything may be missing on this wire, so nearly everything is optional here; what is there must have its type.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from rivermouth.dialects.cohere_v2.turns import Call
from rivermouth.vendors.cohere.counts import Counts
from rivermouth.wire import json
from rivermouth.wire.frame import Frame


class Said(msgspec.Struct, gc=False):
    text: str | None = None
    thinking: str | None = None


class SaidMessage(msgspec.Struct, gc=False):
    content: Said | None = None


class SaidDelta(msgspec.Struct, gc=False):
    message: SaidMessage | None = None


class ContentDelta(msgspec.Struct, gc=False):
    """`content-delta`: read for each token, so it names nothing that is not needed."""

    delta: SaidDelta | None = None
    index: int | None = None


class Content(msgspec.Struct):
    type: str | None = None
    text: str | None = None
    thinking: str | None = None


class Pieces(msgspec.Struct):
    arguments: str | None = None


class CallDelta(msgspec.Struct):
    function: Pieces | None = None


class StartedCall(msgspec.Struct):
    tool_calls: Call | list[Call] | None = None


class PiecedCall(msgspec.Struct):
    tool_calls: CallDelta | list[CallDelta] | None = None


class StartedContent(msgspec.Struct):
    content: Content | None = None


class Planned(msgspec.Struct):
    tool_plan: str | None = None


class StartedDelta(msgspec.Struct):
    message: StartedContent | None = None


class PlanDelta(msgspec.Struct):
    message: Planned | None = None


class StartedCallDelta(msgspec.Struct):
    message: StartedCall | None = None


class PiecedCallDelta(msgspec.Struct):
    message: PiecedCall | None = None


class ContentStart(msgspec.Struct):
    delta: StartedDelta | None = None
    index: int | None = None


class ToolPlan(msgspec.Struct):
    delta: PlanDelta | None = None


class ToolCallStart(msgspec.Struct):
    delta: StartedCallDelta | None = None
    index: int | None = None


class ToolCallDelta(msgspec.Struct):
    delta: PiecedCallDelta | None = None
    index: int | None = None


class Indexed(msgspec.Struct):
    index: int | None = None


class MessageStart(msgspec.Struct):
    id: str | None = None


class Ending(msgspec.Struct):
    finish_reason: str | None = None
    error: Any = None
    usage: Counts | None = None


class MessageEnd(msgspec.Struct):
    delta: Ending | None = None


class _Nameless(msgspec.Struct):
    type: str | None = None
    message: Any = None
    error: Any = None


CONTENT_DELTA: Final = json.typed(ContentDelta)
CONTENT_START: Final = json.typed(ContentStart)
TOOL_PLAN: Final = json.typed(ToolPlan)
TOOL_CALL_START: Final = json.typed(ToolCallStart)
TOOL_CALL_DELTA: Final = json.typed(ToolCallDelta)
INDEXED: Final = json.typed(Indexed)
MESSAGE_START: Final = json.typed(MessageStart)
MESSAGE_END: Final = json.typed(MessageEnd)
_NAMELESS: Final = json.typed(_Nameless)

DONE: Final = "[DONE]"
NO_NAMES: Final = frozenset({"", "message"})  # "message" is what the standard calls an event without a name


def frame_type(frame: Frame) -> str:
    """What a frame is: its event name, else the type that its data says; "error" for an error object (F11).

    Raises `WireError` when a frame without a name is no JSON object.
    """
    if frame.data == b"[DONE]":
        return DONE
    if frame.name not in NO_NAMES:
        return frame.name
    peek = json.decode_as(_NAMELESS, frame.data)
    if peek.type is None and (peek.error is not None or isinstance(peek.message, str)):
        return "error"
    return peek.type or ""

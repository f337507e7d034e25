"""The wire's own structs: only the fields that are acted on.  Every optional member may be JSON null."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from rivermouth.dialects.openai_responses.tools import ChoiceShape
from rivermouth.dialects.openai_responses.usage import UsageShape


class Link(msgspec.Struct, frozen=True):
    """What some clients send where the protocol has a plain string."""

    url: str
    detail: str | None = None


class Sound(msgspec.Struct, frozen=True):
    data: str
    format: str


class PartShape(msgspec.Struct, frozen=True):
    """One entry of a `content`, an `output` or a `summary`; which member counts is said by `type`."""

    type: str | None = None
    text: str | None = None
    refusal: str | None = None
    image_url: str | Link | None = None
    detail: str | None = None
    file_id: str | None = None
    file_data: str | None = None
    file_url: str | None = None
    filename: str | None = None
    input_audio: Sound | None = None


class Typed(msgspec.Struct, frozen=True):
    """What an item is.  A message may go without its type."""

    type: str | None = None
    role: str | None = None


class MessageItem(msgspec.Struct, frozen=True):
    role: str
    content: str | list[PartShape] | None = None


class CallItem(msgspec.Struct, frozen=True):
    """A call of a function or of a tool of free form."""

    call_id: str | None = None
    id: str | None = None
    name: str | None = None
    namespace: str | None = None
    arguments: str | None = None
    input: str | None = None


class OutputItem(msgspec.Struct, frozen=True):
    """What a tool gave."""

    call_id: str | None = None
    output: str | list[PartShape] | None = None


class ReasoningItem(msgspec.Struct, frozen=True):
    id: str | None = None
    summary: list[PartShape] | None = None
    content: list[PartShape] | None = None
    encrypted_content: str | None = None


class PictureItem(msgspec.Struct, frozen=True):
    id: str | None = None
    result: str | None = None
    output_format: str | None = None


class Reference(msgspec.Struct, frozen=True):
    id: str


class FormatShape(msgspec.Struct, frozen=True):
    type: str
    name: str | None = None
    description: str | None = None
    schema: dict[str, Any] | None = None
    strict: bool | None = None


class TextShape(msgspec.Struct, frozen=True):
    format: FormatShape | None = None
    verbosity: str | None = None


class ReasoningShape(msgspec.Struct, frozen=True):
    effort: str | None = None
    summary: str | None = None
    generate_summary: str | None = None


class Conversation(msgspec.Struct, frozen=True):
    id: str


class RequestShape(msgspec.Struct, frozen=True):
    model: str | None = None
    input: str | list[msgspec.Raw] | None = None
    instructions: str | None = None
    stream: bool | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_logprobs: int | None = None
    tools: list[msgspec.Raw] | None = None
    tool_choice: str | ChoiceShape | None = None
    parallel_tool_calls: bool | None = None
    text: TextShape | None = None
    reasoning: ReasoningShape | None = None
    include: list[str] | None = None
    truncation: str | None = None
    metadata: dict[str, str] | None = None
    user: str | None = None
    safety_identifier: str | None = None
    store: bool | None = None
    background: bool | None = None
    previous_response_id: str | None = None
    conversation: str | Conversation | None = None


class Incomplete(msgspec.Struct, frozen=True):
    reason: str | None = None


class ResponseShape(msgspec.Struct, frozen=True):
    """A whole reply, and the `response` of the events that begin and end a stream."""

    id: str | None = None
    model: str | None = None
    created_at: int | float | None = None
    status: str | None = None
    error: Any = None
    incomplete_details: Incomplete | None = None
    output: list[msgspec.Raw] | None = None
    usage: UsageShape | None = None


class Nameless(msgspec.Struct, frozen=True):
    """What tells an event that has no name."""

    type: str | None = None
    error: Any = None


ABSENT: Final = msgspec.Raw(b"null")


class EventShape(msgspec.Struct, frozen=True):
    """One event of a stream.  `message`, `code`, `param` and `error` are how failures arrive."""

    type: str | None = None
    response: ResponseShape | None = None
    item: msgspec.Raw = ABSENT
    item_id: str | None = None
    output_index: int | None = None
    content_index: int | None = None
    delta: str | None = None
    text: str | None = None
    refusal: str | None = None
    arguments: str | None = None
    input: str | None = None
    error: Any = None
    message: Any = None
    code: Any = None
    param: Any = None


class DeltaShape(msgspec.Struct, frozen=True, gc=False):
    """The most frequent event."""

    delta: str
    output_index: int
    content_index: int = 0

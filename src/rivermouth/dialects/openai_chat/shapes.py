"""The wire's own structs: only the fields that are acted on.

Everything else rides along in `Original` or in the frame.
Every optional member may be JSON null, and unknown members are ignored.
"""

from __future__ import annotations

from typing import Any

import msgspec

from rivermouth.vendors.openai.usage import UsageShape


class ImageUrl(msgspec.Struct, frozen=True):
    url: str
    detail: str | None = None


class InputAudio(msgspec.Struct, frozen=True):
    data: str
    format: str


class InputFile(msgspec.Struct, frozen=True):
    file_data: str | None = None
    file_id: str | None = None
    filename: str | None = None


class ContentPart(msgspec.Struct, frozen=True):
    """One entry of a `content` list; which member counts is said by `type`."""

    type: str | None = None
    text: str | None = None
    refusal: str | None = None
    thinking: Any = None
    image_url: str | ImageUrl | None = None
    input_audio: InputAudio | None = None
    file: InputFile | None = None


class FunctionCall(msgspec.Struct, frozen=True, gc=False):
    """`arguments` is JSON text; some servers send the object itself."""

    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class CustomCall(msgspec.Struct, frozen=True, gc=False):
    name: str | None = None
    input: str | None = None


class ToolCallShape(msgspec.Struct, frozen=True):
    """A call, whole in a message or a piece of it in a delta."""

    index: int | None = None
    id: str | None = None
    type: str | None = None
    function: FunctionCall | None = None
    custom: CustomCall | None = None


class ReasoningDetail(msgspec.Struct, frozen=True):
    """One typed block of reasoning: `reasoning.text`, `reasoning.summary` or `reasoning.encrypted` (hidden `data`)."""

    index: int | None = None
    type: str | None = None
    text: str | None = None
    summary: str | None = None
    signature: str | None = None
    data: str | None = None


class MessageShape(msgspec.Struct, frozen=True):
    role: str
    content: str | list[ContentPart] | None = None
    name: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | dict[str, Any] | None = None
    reasoning_details: list[ReasoningDetail] | None = None
    tool_calls: list[ToolCallShape] | None = None
    tool_call_id: str | None = None
    function_call: FunctionCall | None = None


class FunctionShape(msgspec.Struct, frozen=True):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class Grammar(msgspec.Struct, frozen=True):
    syntax: str | None = None
    definition: str | None = None


class CustomFormat(msgspec.Struct, frozen=True):
    type: str | None = None
    grammar: Grammar | None = None


class CustomShape(msgspec.Struct, frozen=True):
    name: str
    description: str | None = None
    format: CustomFormat | None = None


class ToolShape(msgspec.Struct, frozen=True):
    type: str = "function"
    function: FunctionShape | None = None
    custom: CustomShape | None = None


class Named(msgspec.Struct, frozen=True):
    name: str


class NamedTool(msgspec.Struct, frozen=True):
    type: str = "function"
    function: Named | None = None
    custom: Named | None = None


class AllowedTools(msgspec.Struct, frozen=True):
    mode: str = "auto"
    tools: list[NamedTool] = []


class ToolChoiceShape(msgspec.Struct, frozen=True):
    type: str
    function: Named | None = None
    custom: Named | None = None
    allowed_tools: AllowedTools | None = None


class SchemaShape(msgspec.Struct, frozen=True):
    name: str
    description: str | None = None
    schema: dict[str, Any] | None = None
    strict: bool | None = None


class FormatShape(msgspec.Struct, frozen=True):
    type: str
    json_schema: SchemaShape | None = None


class StreamOptions(msgspec.Struct, frozen=True):
    include_usage: bool | None = None


class ReasoningShape(msgspec.Struct, frozen=True):
    """`reasoning` as one family of gateways has it; `thinking` as several model vendors have it reads the same way."""

    effort: str | None = None
    max_tokens: int | None = None
    budget_tokens: int | None = None
    enabled: bool | None = None
    type: str | None = None


class ChatRequest(msgspec.Struct, frozen=True):
    model: str | None = None
    messages: list[MessageShape] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: int | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    stop: str | list[str] | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    seed: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    repetition_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    tools: list[ToolShape] | None = None
    tool_choice: str | ToolChoiceShape | None = None
    parallel_tool_calls: bool | None = None
    functions: list[FunctionShape] | None = None
    function_call: str | Named | None = None
    response_format: FormatShape | None = None
    reasoning_effort: str | None = None
    reasoning: ReasoningShape | None = None
    thinking: ReasoningShape | None = None
    user: str | None = None
    safety_identifier: str | None = None
    metadata: dict[str, str] | None = None
    modalities: list[str] | None = None


class MediaShape(msgspec.Struct, frozen=True):
    """An image or a file that the model made; no part of the vendor's own protocol."""

    type: str | None = None
    image_url: str | ImageUrl | None = None
    file: InputFile | None = None


class Delta(msgspec.Struct, frozen=True):
    """The `delta` of a chunk, and the `message` of a whole reply: they differ in nothing that is read here."""

    content: str | list[ContentPart] | None = None
    reasoning_content: str | None = None
    reasoning: str | dict[str, Any] | None = None
    reasoning_details: list[ReasoningDetail] | None = None
    refusal: str | None = None
    tool_calls: list[ToolCallShape] | None = None
    function_call: FunctionCall | None = None
    images: list[MediaShape] | None = None
    files: list[MediaShape] | None = None


class ChoiceShape(msgspec.Struct, frozen=True):
    index: int | None = None
    delta: Delta | None = None
    message: Delta | None = None
    finish_reason: str | None = None
    usage: UsageShape | None = None
    error: Any = None


class Chunk(msgspec.Struct, frozen=True):
    """One frame of a stream, or one whole reply.  The members below `usage` are how errors arrive."""

    id: str | None = None
    model: str | None = None
    created: int | float | None = None
    choices: list[ChoiceShape] | None = None
    usage: UsageShape | None = None
    error: Any = None
    object: str | None = None


class EmbeddingRequest(msgspec.Struct, frozen=True):
    model: str | None = None
    input: str | list[Any] | None = None
    encoding_format: str | None = None
    dimensions: int | None = None
    stream: bool | None = None


class EmbeddingShape(msgspec.Struct, frozen=True):
    embedding: str | list[float]
    index: int | None = None


class EmbeddingReply(msgspec.Struct, frozen=True):
    data: list[EmbeddingShape]
    model: str | None = None
    usage: UsageShape | None = None

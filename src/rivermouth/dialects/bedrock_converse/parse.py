"""A client's body to a neutral request.

The path names the model and says whether the answer is streamed.  Fields that are not named here are never an error;
they are named in `unmodelled`, so that a client learns what another vendor's model went without.  A guardrail is no
hint: a request that wants one only goes to an upstream that has it.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from rivermouth.dialects.bedrock_converse.content import Place, check_role, misfit, parse_blocks
from rivermouth.dialects.bedrock_converse.tables import NAME
from rivermouth.dialects.dialect import Route
from rivermouth.ir.errors import WireError, invalid
from rivermouth.ir.names import loss_names, model_name, quoted, unread
from rivermouth.ir.request import (
    Choose,
    Format,
    Message,
    Original,
    Request,
    ResponseFormat,
    Role,
    Sampling,
    Text,
    Thinking,
    Tool,
    ToolChoice,
    ToolResult,
)
from rivermouth.wire import json

RETIRED: Final = "Called earlier in this talk. It is not available any more."
"""What `build_request` says of a tool that only explains the talk's calls; as a tool to be called it is none."""
MORE: Final = "additionalModelRequestFields"


class _Turn(msgspec.Struct):
    role: str
    content: list[json.Raw]


class _Inference(msgspec.Struct):
    max_tokens: int | None = msgspec.field(name="maxTokens", default=None)
    temperature: float | None = None
    top_p: float | None = msgspec.field(name="topP", default=None)
    stop: list[str] | None = msgspec.field(name="stopSequences", default=None)


class _Schema(msgspec.Struct):
    json: dict[str, Any]


class _ToolSpec(msgspec.Struct):
    name: str
    schema: _Schema = msgspec.field(name="inputSchema")
    description: str | None = None
    strict: bool | None = None


class _Tool(msgspec.Struct):
    spec: _ToolSpec | None = msgspec.field(name="toolSpec", default=None)
    system: dict[str, Any] | None = msgspec.field(name="systemTool", default=None)
    cache: dict[str, Any] | None = msgspec.field(name="cachePoint", default=None)


class _Named(msgspec.Struct):
    name: str


class _Choice(msgspec.Struct):
    auto: dict[str, Any] | None = None
    any: dict[str, Any] | None = None
    tool: _Named | None = None


class _ToolConfig(msgspec.Struct):
    tools: list[_Tool]
    choice: _Choice | None = msgspec.field(name="toolChoice", default=None)


class _JsonSchema(msgspec.Struct):
    schema: str
    name: str | None = None
    description: str | None = None


class _Structure(msgspec.Struct, frozen=True):
    schema: _JsonSchema | None = msgspec.field(name="jsonSchema", default=None)


class _TextFormat(msgspec.Struct):
    type: str
    structure: _Structure = _Structure()


class _Output(msgspec.Struct):
    format: _TextFormat | None = msgspec.field(name="textFormat", default=None)
    effort: str | None = None


class _Thinking(msgspec.Struct):
    type: str
    budget_tokens: int | None = None


class _Effort(msgspec.Struct):
    effort: str | None = None


class _Reasoning(msgspec.Struct):
    type: str = "enabled"
    effort: str | None = msgspec.field(name="maxReasoningEffort", default=None)


class _MoreInference(msgspec.Struct):
    top_k: int | None = msgspec.field(name="topK", default=None)


class _More(msgspec.Struct):
    """What models take beyond the protocol: of Claude, of OpenAI's, of Nova."""

    top_k: int | None = None
    thinking: _Thinking | None = None
    output_config: _Effort | None = None
    reasoning_effort: str | None = None
    reasoning: _Reasoning | None = msgspec.field(name="reasoningConfig", default=None)
    inference: _MoreInference | None = msgspec.field(name="inferenceConfig", default=None)


class _Body(msgspec.Struct):
    messages: list[_Turn] | None = None
    system: list[json.Raw] | None = None
    inference: _Inference | None = msgspec.field(name="inferenceConfig", default=None)
    tools: _ToolConfig | None = msgspec.field(name="toolConfig", default=None)
    more: _More | None = msgspec.field(name=MORE, default=None)
    output: _Output | None = msgspec.field(name="outputConfig", default=None)
    metadata: dict[str, str] | None = msgspec.field(name="requestMetadata", default=None)
    guardrail: dict[str, Any] | None = msgspec.field(name="guardrailConfig", default=None)
    variables: dict[str, Any] | None = msgspec.field(name="promptVariables", default=None)


_body: Final = json.typed(_Body)
_ROLES: Final = {"user": Role.USER, "assistant": Role.ASSISTANT, "system": Role.SYSTEM}
_THINKING: Final = {"enabled": True, "adaptive": True, "between_tools": True, "disabled": False}
# Hints that change nothing of the answer (another target goes without them in silence), and what asks for a member of
# the answer.  `model` is no field of this protocol; the path says it.
_HINTS: Final = frozenset({"performanceConfig", "serviceTier", "additionalModelResponseFieldPaths", "model"})
_READ: Final = _HINTS.union(field.encode_name for field in msgspec.structs.fields(_Body))
_MORE_READ: Final = frozenset(field.encode_name for field in msgspec.structs.fields(_More))


def parse_request(body: bytes, route: Route, path_model: str | None) -> Request:
    """Raises `ApiError` (invalid_request) with the field at fault."""
    try:
        fields = json.fields(body)
        asked = json.decode_as(_body, body)
    except WireError as error:
        raise misfit(error) from None
    model = model_name(path_model, param="modelId")
    inference, more = asked.inference or _Inference(), asked.more or _More()
    _check(asked, inference)
    skipped: list[str] = []
    only = [name for name in ("guardrailConfig", "promptVariables") if bytes(fields.get(name, b"null")) != b"null"]
    messages = _messages(asked.messages or [], skipped, only)
    tools, choice = _tools(asked.tools, skipped)
    further = json.fields(fields[MORE]) if asked.more is not None else {}
    nested = more.inference.top_k if more.inference else None
    return Request(
        model=model,
        messages=messages,
        system=_system(asked.system or [], skipped, only),
        stream=route.streams,
        include_usage=True,
        max_tokens=inference.max_tokens,
        stop=tuple(s for s in inference.stop or () if s),
        tools=tools,
        tool_choice=choice,
        response_format=_response_format(asked.output),
        sampling=Sampling(
            temperature=inference.temperature,
            top_p=inference.top_p,
            top_k=nested if more.top_k is None else more.top_k,
        ),
        thinking=_thinking(more, asked.output),
        metadata=asked.metadata or None,
        original=Original(NAME, fields),
        untranslatable=tuple(only) if messages or only else ("messages",),
        unmodelled=loss_names(
            [*unread(fields, _READ), *(f"{MORE}.{name}" for name in unread(further, _MORE_READ)), *skipped]
        ),
    )


def _check(asked: _Body, inference: _Inference) -> None:
    if not asked.messages and asked.variables is None:
        raise invalid("at least one message is required", "messages")
    if inference.max_tokens is not None and inference.max_tokens < 1:
        raise invalid("must be at least 1", "inferenceConfig.maxTokens")
    for name, value in (("temperature", inference.temperature), ("topP", inference.top_p)):
        if value is not None and not 0 <= value <= 1:
            raise invalid("must be between 0 and 1", f"inferenceConfig.{name}")


def _system(blocks: list[json.Raw], skipped: list[str], only: list[str]) -> tuple[Text, ...]:
    parts = parse_blocks(blocks, Place("system", skipped, only))
    check_role(parts, Role.SYSTEM, "system")
    return tuple(part for part in parts if isinstance(part, Text))


def _messages(turns: list[_Turn], skipped: list[str], only: list[str]) -> tuple[Message, ...]:
    """Tool results become a message of their own, before what else the user said."""
    messages: list[Message] = []
    for i, turn in enumerate(turns):
        role = _ROLES.get(turn.role)
        if role is None:
            raise invalid(f"{quoted(turn.role)} is no role; use user or assistant", f"messages.{i}.role")
        at = Place(f"messages.{i}.content", skipped, only)
        parts = parse_blocks(turn.content, at)
        check_role(parts, role, at.path)
        results = tuple(part for part in parts if isinstance(part, ToolResult))
        rest = tuple(part for part in parts if not isinstance(part, ToolResult))
        if results:
            messages.append(Message(Role.TOOL, results))
        if rest:
            messages.append(Message(role, rest))
    if turns and not messages and not skipped and not only:
        raise invalid("at least one message with content is required", "messages")
    return tuple(messages)


def _tools(config: _ToolConfig | None, skipped: list[str]) -> tuple[tuple[Tool, ...], ToolChoice | None]:
    """The client's tools; those that the service runs itself are named in `skipped`."""
    if config is None:
        return (), None
    tools: list[Tool] = []
    for i, tool in enumerate(config.tools):
        spec = tool.spec
        if spec is not None:
            if spec.description != RETIRED:
                tools.append(Tool(spec.name, spec.description, spec.schema.json, spec.strict))
        elif tool.system is not None:
            skipped.append("toolConfig.systemTool")
        elif tool.cache is None:
            raise invalid("a tool has a toolSpec", f"toolConfig.tools.{i}")
    return tuple(tools), _choice(config.choice, tools)


def _choice(asked: _Choice | None, tools: list[Tool]) -> ToolChoice | None:
    """The choice.  One of a tool that only the service runs is none."""
    if asked is None or not tools:
        return None
    if asked.tool is not None:
        name = asked.tool.name
        return ToolChoice(Choose.NAMED, name) if any(t.name == name for t in tools) else None
    if asked.any is not None:
        return ToolChoice(Choose.REQUIRED)
    return None if asked.auto is None else ToolChoice(Choose.AUTO)


def _thinking(more: _More, output: _Output | None) -> Thinking | None:
    """Whether to reason and how hard, in whichever vendor's words it is said."""
    effort = (output.effort if output else None) or (more.output_config.effort if more.output_config else None)
    effort = effort or more.reasoning_effort or (more.reasoning.effort if more.reasoning else None)
    said = more.thinking
    if said is not None:
        enabled = _THINKING.get(said.type)
        if enabled is None:
            text = f"{quoted(said.type)} is no thinking type; use {', '.join(_THINKING)}"
            raise invalid(text, f"{MORE}.thinking.type")
        if enabled and said.budget_tokens is not None and said.budget_tokens < 1:
            raise invalid("a budget is at least 1 token", f"{MORE}.thinking.budget_tokens")
        return Thinking(enabled, effort, said.budget_tokens if enabled else None)
    if more.reasoning is not None:
        return Thinking(more.reasoning.type != "disabled", effort)
    if more.reasoning_effort == "none":
        return Thinking(enabled=False)
    return None if effort is None else Thinking(effort=effort)


def _response_format(output: _Output | None) -> ResponseFormat | None:
    if output is None or output.format is None:
        return None
    path = "outputConfig.textFormat"
    if output.format.type != "json_schema":
        raise invalid(f"{quoted(output.format.type)} is no output format; use json_schema", f"{path}.type")
    said = output.format.structure.schema
    if said is None:
        raise invalid("Field required", f"{path}.structure.jsonSchema")
    try:
        schema = json.convert(json.decode(said.schema.encode()), dict[str, Any])
    except WireError:
        raise invalid("the schema is not the text of a JSON object", f"{path}.structure.jsonSchema.schema") from None
    return ResponseFormat(Format.JSON_SCHEMA, schema, said.name, said.description)

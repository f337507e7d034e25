"""A client's body to a neutral request.

Fields that are not named here (betas, additions) are never an error; they are named in `unmodelled`, so that a client
learns what another vendor's model went without.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from rivermouth.dialects.anthropic.content import Blocks, Place, check_role, parse_blocks
from rivermouth.dialects.anthropic.fields import field_error
from rivermouth.dialects.dialect import Operation, Route
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

NAME: Final = "anthropic"


class _Turn(msgspec.Struct):
    role: str
    content: Blocks


class _Tool(msgspec.Struct):
    """A client tool has no `type`, or "custom"; any other type is run by the vendor."""

    type: str | None = None
    name: str | None = None
    description: str | None = None
    input_schema: dict[str, Any] | None = None
    strict: bool | None = None


class _ToolChoice(msgspec.Struct):
    type: str
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class _Thinking(msgspec.Struct):
    type: str
    budget_tokens: int | None = None


class _Format(msgspec.Struct):
    type: str
    schema: dict[str, Any] | None = None


class _OutputConfig(msgspec.Struct):
    effort: str | None = None
    format: _Format | None = None


class _Metadata(msgspec.Struct):
    user_id: str | None = None


class _Body(msgspec.Struct):
    model: str
    messages: list[_Turn]
    max_tokens: int | None = None
    system: Blocks | None = None
    stream: bool | None = None
    stop_sequences: list[str] | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    tools: list[_Tool] | None = None
    tool_choice: _ToolChoice | None = None
    thinking: _Thinking | None = None
    output_config: _OutputConfig | None = None
    metadata: _Metadata | None = None


_body: Final = json.typed(_Body)
_ROLES: Final = {"user": Role.USER, "assistant": Role.ASSISTANT, "system": Role.SYSTEM}
_CHOICES: Final = {"auto": Choose.AUTO, "any": Choose.REQUIRED, "tool": Choose.NAMED, "none": Choose.NONE}
_THINKING: Final = {"enabled": True, "adaptive": True, "between_tools": True, "disabled": False}
# Hints that change nothing of the answer: another target goes without them in silence.
_HINTS: Final = frozenset({"cache_control", "service_tier"})
_READ: Final = _HINTS.union(_Body.__struct_fields__)


def parse_request(body: bytes, route: Route, path_model: str | None) -> Request:
    """The neutral request.  Raises `ApiError` (invalid_request) with the field at fault.

    `max_tokens` may only be left out where nothing is generated.
    """
    try:
        asked = json.decode_as(_body, body)
        fields = json.fields(body)
    except WireError as error:
        raise field_error(error) from None
    _check(asked, generates=route.operation is Operation.GENERATE, streams=route.streams)
    tools, vendor_tools = _tools(asked.tools or [])
    choice, parallel = _choice(asked.tool_choice, tools)
    skipped: list[str] = []
    messages = _messages(asked.messages, skipped)
    return Request(
        model=model_name(asked.model),
        messages=messages,
        system=_system(asked.system, skipped),
        stream=bool(asked.stream),
        max_tokens=asked.max_tokens,
        stop=tuple(s for s in asked.stop_sequences or () if s),
        tools=tools,
        tool_choice=choice,
        parallel_tools=parallel,
        response_format=_response_format(asked.output_config),
        sampling=Sampling(temperature=asked.temperature, top_p=asked.top_p, top_k=asked.top_k),
        thinking=_thought(asked.thinking, asked.output_config),
        user=asked.metadata.user_id if asked.metadata else None,
        untranslatable=() if messages else ("messages",),
        unmodelled=loss_names([*unread(fields, _READ), *vendor_tools, *skipped]),
        original=Original(NAME, fields),
    )


def _check(asked: _Body, *, generates: bool, streams: bool) -> None:
    if not asked.messages:
        raise invalid("at least one message is required", "messages")
    if asked.max_tokens is None:
        if generates:
            raise invalid("Field required", "max_tokens")
    elif asked.max_tokens < 0:
        raise invalid("must not be negative", "max_tokens")
    if asked.stream and not streams:
        raise invalid("this route does not stream", "stream")


def _system(system: Blocks | None, skipped: list[str]) -> tuple[Text, ...]:
    parts = parse_blocks(system or "", Place("system", skipped))
    check_role(parts, Role.SYSTEM, "system")
    return tuple(p for p in parts if isinstance(p, Text))


def _messages(turns: list[_Turn], skipped: list[str]) -> tuple[Message, ...]:
    """Tool results become a message of their own, before what else the user said.

    None at all means that every block was skipped: only an upstream of this dialect knows what was asked.
    """
    messages: list[Message] = []
    for i, turn in enumerate(turns):
        role = _ROLES.get(turn.role)
        if role is None:
            raise invalid(f"{quoted(turn.role)} is no role; use user, assistant or system", f"messages.{i}.role")
        at = Place(f"messages.{i}.content", skipped)
        parts = parse_blocks(turn.content, at)
        check_role(parts, role, at.path)
        results = tuple(p for p in parts if isinstance(p, ToolResult))
        rest = tuple(p for p in parts if not isinstance(p, ToolResult))
        if results:
            messages.append(Message(Role.TOOL, results))
        if rest:
            messages.append(Message(role, rest))
    if not messages and not skipped:
        raise invalid("at least one message with content is required", "messages")
    return tuple(messages)


def _tools(asked: list[_Tool]) -> tuple[tuple[Tool, ...], list[str]]:
    """The client's tools, and the names of the vendor's own, which no other target can run."""
    tools: list[Tool] = []
    vendor: list[str] = []
    for i, tool in enumerate(asked):
        if tool.type not in (None, "custom"):
            vendor.append(f"tools.{tool.type}")
            continue
        if not tool.name:
            raise invalid("Field required", f"tools.{i}.name")
        if tool.input_schema is None:
            raise invalid("Field required", f"tools.{i}.input_schema")
        tools.append(Tool(tool.name, tool.description, tool.input_schema, tool.strict))
    return tuple(tools), vendor


def _choice(asked: _ToolChoice | None, tools: tuple[Tool, ...]) -> tuple[ToolChoice | None, bool | None]:
    """The choice, and whether calls may be parallel.  A choice of a tool that only the vendor runs is none."""
    if asked is None:
        return None, None
    mode = _CHOICES.get(asked.type)
    if mode is None:
        raise invalid(f"{quoted(asked.type)} is no tool choice; use {', '.join(_CHOICES)}", "tool_choice.type")
    parallel = None if asked.disable_parallel_tool_use is None else not asked.disable_parallel_tool_use
    if mode is Choose.NAMED and not asked.name:
        raise invalid("Field required", "tool_choice.name")
    named = asked.name if mode is Choose.NAMED else None
    if not tools or (named is not None and all(t.name != named for t in tools)):
        return None, parallel
    return ToolChoice(mode, named), parallel


def _thought(asked: _Thinking | None, config: _OutputConfig | None) -> Thinking | None:
    effort = config.effort if config else None
    if asked is None:
        return None if effort is None else Thinking(effort=effort)
    enabled = _THINKING.get(asked.type)
    if enabled is None:
        raise invalid(f"{quoted(asked.type)} is no thinking type; use {', '.join(_THINKING)}", "thinking.type")
    if asked.type == "enabled" and asked.budget_tokens is None:
        raise invalid("Field required", "thinking.budget_tokens")
    if enabled and asked.budget_tokens is not None and asked.budget_tokens < 1:
        raise invalid("a budget is at least 1 token", "thinking.budget_tokens")
    return Thinking(enabled, effort, asked.budget_tokens if enabled else None)


def _response_format(config: _OutputConfig | None) -> ResponseFormat | None:
    if config is None or config.format is None:
        return None
    if config.format.type != "json_schema":
        raise invalid(f"{quoted(config.format.type)} is no output format; use json_schema", "output_config.format.type")
    if config.format.schema is None:
        raise invalid("Field required", "output_config.format.schema")
    return ResponseFormat(Format.JSON_SCHEMA, config.format.schema)

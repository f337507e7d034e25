"""A client's request to a neutral one, with the field at fault named where that cannot be."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from rivermouth.dialects.dialect import Route
from rivermouth.dialects.openai_chat.messages import parse_messages
from rivermouth.dialects.openai_chat.shapes import (
    ChatRequest,
    FormatShape,
    FunctionShape,
    Grammar,
    Named,
    ReasoningShape,
    ToolShape,
)
from rivermouth.dialects.openai_chat.tables import CHOOSE_IN, FORMAT_IN, RANGES
from rivermouth.ir.errors import WireError, invalid
from rivermouth.ir.names import loss_names, model_name, unread
from rivermouth.ir.request import (
    Choose,
    Format,
    FreeForm,
    Original,
    Request,
    ResponseFormat,
    Sampling,
    Thinking,
    Tool,
    ToolChoice,
)
from rivermouth.vendors.openai import free_form
from rivermouth.vendors.openai.bodies import check_ranges, known, misfit, read_fields
from rivermouth.vendors.openai.efforts import read_effort
from rivermouth.wire import json

NAME: Final = "openai_chat"
_request: Final = json.typed(ChatRequest)
# Hints that change nothing of the answer: another target goes without them in silence.
_HINTS: Final = frozenset(
    {"prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "store", "service_tier"}
)
_READ: Final = _HINTS.union(ChatRequest.__struct_fields__)

_SAMPLING: Final = frozenset(Sampling.__struct_fields__)
_ANY_SAMPLING: Final = Sampling()
_TOOL_TYPES: Final = ("function", "custom")


def parse_request(body: bytes, route: Route, path_model: str | None) -> Request:
    """Raises `ApiError(invalid_request)`; `param` is the path of the field."""
    fields = read_fields(body)
    try:
        wire = json.decode_as(_request, body)
    except WireError as error:
        raise misfit(error) from None
    model = model_name(path_model, wire.model)
    if wire.messages is None:
        raise invalid("messages are missing", "messages", "missing_required_parameter")
    check_ranges(wire, RANGES)
    talk = parse_messages(wire.messages)
    tools, choice = _tools(wire)
    legacy = bool(wire.functions) and not wire.tools
    options = wire.stream_options
    return Request(
        model=model,
        messages=talk.messages,
        system=talk.system,
        stream=bool(wire.stream),
        include_usage=bool(wire.stream and options is not None and options.include_usage),
        n=1 if wire.n is None else wire.n,
        max_tokens=wire.max_tokens if wire.max_completion_tokens is None else wire.max_completion_tokens,
        stop=_stop(wire.stop),
        tools=tools,
        tool_choice=choice,
        parallel_tools=False if legacy else wire.parallel_tool_calls,
        response_format=_format(wire.response_format),
        sampling=_sampling(wire, fields),
        thinking=_thinking(wire),
        user=wire.user or wire.safety_identifier,
        metadata=wire.metadata,
        original=Original(NAME, fields),
        untranslatable=_untranslatable(wire),
        unmodelled=loss_names(unread(fields, _READ)),
    )


def _sampling(wire: ChatRequest, fields: Collection[str]) -> Sampling:
    said = _SAMPLING.intersection(fields)
    return Sampling(**{name: getattr(wire, name) for name in said}) if said else _ANY_SAMPLING


def _untranslatable(wire: ChatRequest) -> tuple[str, ...]:
    """Fields that only a server of this very dialect can honour: tools that it runs itself, spoken answers."""
    if not wire.tools and not wire.modalities:
        return ()
    hosted = [f"tools[{i}]" for i, tool in enumerate(wire.tools or ()) if tool.type not in _TOOL_TYPES]
    spoken = ["modalities"] if any(m != "text" for m in wire.modalities or ()) else []
    return (*hosted, *spoken)


def _stop(stop: str | list[str] | None) -> tuple[str, ...]:
    values = [stop] if isinstance(stop, str) else stop or []
    return tuple(value for value in values if value)


# -- tools ------------------------------------------------------------------------------------------------------------


def _tools(wire: ChatRequest) -> tuple[tuple[Tool, ...], ToolChoice | None]:
    """The tools that may be called and how; without tools there is nothing to choose."""
    if wire.tools:
        ours = ((i, tool) for i, tool in enumerate(wire.tools) if tool.type in _TOOL_TYPES)
        tools = tuple(_tool(tool, f"tools[{i}]") for i, tool in ours)
        tools, choice = _choose(wire, tools)
    else:
        tools = tuple(_function(function) for function in wire.functions or ())
        choice = _choose_function(wire.function_call)
    if choice is not None and choice.name is not None and choice.name not in {t.name for t in tools}:
        field = "tool_choice" if wire.tools else "function_call"
        raise invalid("the tool that was chosen is not among the tools", field, "invalid_value")
    return tools, choice if tools else None


def _tool(tool: ToolShape, at: str) -> Tool:
    if tool.type == "function" and tool.function is not None:
        return _function(tool.function)
    if tool.type == "custom" and tool.custom is not None:
        custom, form = tool.custom, tool.custom.format
        grammar = form.grammar if form is not None and form.grammar is not None else Grammar()
        text = FreeForm(custom.description, grammar.syntax, grammar.definition)
        return free_form.as_function(custom.name, text)
    raise invalid(f"a {tool.type} tool needs its {tool.type}", f"{at}.{tool.type}", "missing_required_parameter")


def _function(function: FunctionShape) -> Tool:
    if function.parameters is None:
        return Tool(function.name, function.description, strict=function.strict)
    return Tool(function.name, function.description, function.parameters, function.strict)


def _choose(wire: ChatRequest, tools: tuple[Tool, ...]) -> tuple[tuple[Tool, ...], ToolChoice | None]:
    choice = wire.tool_choice
    if choice is None:
        return tools, None
    if isinstance(choice, str):
        return tools, ToolChoice(known(choice, CHOOSE_IN, "tool_choice"))
    if choice.type == "allowed_tools" and choice.allowed_tools is not None:
        allowed = {_name(t.function or t.custom, "tool_choice.allowed_tools.tools") for t in choice.allowed_tools.tools}
        missing = allowed - {t.name for t in tools}
        if missing:
            raise invalid("an allowed tool is not among the tools", "tool_choice.allowed_tools.tools", "invalid_value")
        mode = known(choice.allowed_tools.mode, CHOOSE_IN, "tool_choice.allowed_tools.mode")
        return tuple(t for t in tools if t.name in allowed), ToolChoice(mode)
    if choice.type not in _TOOL_TYPES:
        raise invalid("tool_choice is of type function, custom or allowed_tools", "tool_choice.type", "invalid_value")
    return tools, ToolChoice(Choose.NAMED, _name(choice.function or choice.custom, f"tool_choice.{choice.type}"))


def _choose_function(choice: str | Named | None) -> ToolChoice | None:
    if choice is None:
        return None
    if isinstance(choice, str):
        return ToolChoice(known(choice, CHOOSE_IN, "function_call"))
    return ToolChoice(Choose.NAMED, choice.name)


def _name(named: Named | None, param: str) -> str:
    if named is None:
        raise invalid("the tool's name is missing", param, "missing_required_parameter")
    return named.name


# -- format and thinking ----------------------------------------------------------------------------------------------


def _format(wire: FormatShape | None) -> ResponseFormat | None:
    if wire is None:
        return None
    kind = known(wire.type, FORMAT_IN, "response_format.type")
    if kind is not Format.JSON_SCHEMA:
        return ResponseFormat(kind)
    shape = wire.json_schema
    if shape is None:
        raise invalid("the schema is missing", "response_format.json_schema", "missing_required_parameter")
    return ResponseFormat(kind, shape.schema or {}, shape.name, shape.description, shape.strict)


def _thinking(wire: ChatRequest) -> Thinking | None:
    """`reasoning_effort`, or `reasoning` and `thinking` as other vendors of this dialect have it (O9)."""
    if wire.reasoning_effort is not None:
        return Thinking(
            enabled=wire.reasoning_effort != "none", effort=read_effort(wire.reasoning_effort, "reasoning_effort")
        )
    for field in ("reasoning", "thinking"):
        shape: ReasoningShape | None = getattr(wire, field)
        if shape is None:
            continue
        effort = read_effort(shape.effort, f"{field}.effort") if shape.effort is not None else None
        off = shape.enabled is False or shape.type == "disabled" or shape.effort == "none"
        budget = shape.max_tokens if shape.budget_tokens is None else shape.budget_tokens
        if off or effort or budget or shape.enabled or shape.type:
            return Thinking(enabled=not off, effort=effort, budget_tokens=budget)
    return None

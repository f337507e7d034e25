"""A client's body to a neutral request.  Fields that are not named here are never an error."""

from __future__ import annotations

from math import isfinite
from typing import Any, Final

import msgspec

from rivermouth.dialects.dialect import Operation, Route
from rivermouth.dialects.gemini import names, proto
from rivermouth.dialects.gemini.contents import Contents, WireContent
from rivermouth.dialects.gemini.schema import to_json_schema
from rivermouth.dialects.gemini.tables import LEVELS, MODES_IN, NAME, SAMPLING
from rivermouth.ir.errors import invalid
from rivermouth.ir.names import loss_names, quoted
from rivermouth.ir.request import (
    Choose,
    Format,
    Original,
    Request,
    ResponseFormat,
    Sampling,
    Text,
    Thinking,
    Tool,
    ToolChoice,
)

STREAM: Final = "stream"  # the kind of the route that streams

JSON_TYPE: Final = "application/json"
_CONFIG: Final = "generationConfig"
_FUNCTIONS: Final = "functionDeclarations"
_TEXT_TYPE: Final = "text/plain"


class _Declaration(msgspec.Struct, rename="camel"):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    parameters_json_schema: dict[str, Any] | None = None


class _Calling(msgspec.Struct, rename="camel"):
    mode: str | None = None
    allowed_function_names: list[str] | None = None


class _ToolConfig(msgspec.Struct, rename="camel"):
    function_calling_config: _Calling | None = None


class _Thinking(msgspec.Struct, rename="camel"):
    thinking_budget: int | None = None
    thinking_level: str | None = None
    include_thoughts: bool | None = None


class _Config(msgspec.Struct, rename="camel"):
    """`generationConfig`, but for the fields of the table `SAMPLING`."""

    candidate_count: int | None = None
    max_output_tokens: int | None = None
    stop_sequences: list[str] | None = None
    response_mime_type: str | None = None
    response_schema: dict[str, Any] | None = None
    response_json_schema: dict[str, Any] | None = None
    thinking_config: _Thinking | None = None


class _Sampling(msgspec.Struct, rename="camel"):
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | float | None = None
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    response_logprobs: bool | None = None
    logprobs: int | None = None


class _Body(msgspec.Struct, rename="camel"):
    contents: list[WireContent] | None = None
    system_instruction: WireContent | None = None
    tool_config: _ToolConfig | None = None


# Without these the answer would be another one, and no other protocol has a word for them.
_UNTRANSLATABLE: Final = ("cachedContent", "continuationToken")
# What is read, beside the vendor's own tools; other targets go without all the rest.
_READ: Final = frozenset(
    {"contents", _CONFIG, "generateContentRequest", "model", "systemInstruction", "toolConfig", "tools"}
) | frozenset(_UNTRANSLATABLE)
_CONFIG_READ: Final = frozenset({*SAMPLING, *_Config.__struct_encode_fields__, "responseModalities"})


def parse_request(body: bytes, route: Route, path_model: str | None) -> Request:
    """The neutral request; the model and the wish for a stream are in the path.

    Raises `ApiError` (invalid_request) with the field at fault.
    """
    model = names.asked(path_model)
    fields, given = proto.read(body)
    if route.operation is Operation.COUNT_TOKENS and isinstance(given.get("generateContentRequest"), dict):
        given = given["generateContentRequest"]
    asked = proto.lenient(given, _Body)
    if not asked.contents:
        raise invalid("at least one content is required", "contents")
    config = given.get(_CONFIG) or {}
    wishes = proto.lenient(config, _Config, _CONFIG)
    talk = Contents(asked.contents)
    tools, vendor_tools = _tools(given.get("tools"))
    tools, choice = _choice(asked.tool_config, tools)
    return Request(
        model=model,
        messages=tuple(talk.messages),
        system=_system(asked.system_instruction),
        stream=route.kind == STREAM,
        include_usage=True,
        n=_positive(wishes.candidate_count, "candidateCount") or 1,
        max_tokens=_positive(wishes.max_output_tokens, "maxOutputTokens"),
        stop=tuple(s for s in wishes.stop_sequences or () if s),
        tools=tools,
        tool_choice=choice,
        response_format=_response_format(wishes),
        sampling=_sampling(config),
        thinking=_thinking(wishes.thinking_config),
        original=Original(NAME, fields),
        untranslatable=_untranslatable(given, config, wishes),
        unmodelled=loss_names((*proto.unread(fields, _READ), *_unread_config(config), *vendor_tools, *talk.vendor)),
    )


def _positive(value: int | None, field: str) -> int | None:
    if value is not None and value < 1:
        raise invalid("must be at least 1", f"{_CONFIG}.{field}")
    return value


def _system(instruction: WireContent | None) -> tuple[Text, ...]:
    parts = instruction.parts or [] if instruction is not None else []
    return tuple(Text(part.text) for part in parts if part.text)


def _tools(given: Any) -> tuple[tuple[Tool, ...], list[str]]:
    """The client's functions, and the names of the vendor's own tools, which no other target can run."""
    tools: list[Tool] = []
    vendor: list[str] = []
    for i, tool in enumerate(proto.lenient(given or [], list[dict[str, Any]], "tools")):
        where = f"tools[{i}].{_FUNCTIONS}"
        vendor += [f"tools.{name}" for name, value in tool.items() if name != _FUNCTIONS and proto.asks(value)]
        declared = proto.lenient(tool.get(_FUNCTIONS) or [], list[_Declaration], where)
        for j, function in enumerate(declared):
            if not function.name:
                raise invalid("a function needs a name", f"{where}[{j}].name")
            tools.append(_tool(function))
    return tuple(tools), vendor


def _tool(function: _Declaration) -> Tool:
    given = function.parameters_json_schema
    if given is None:
        given = to_json_schema(function.parameters)
    tool = Tool(function.name, function.description)
    return tool if given is None else msgspec.structs.replace(tool, parameters=given)


def _choice(config: _ToolConfig | None, tools: tuple[Tool, ...]) -> tuple[tuple[Tool, ...], ToolChoice | None]:
    """The choice, and the tools it leaves; several names are those tools and no others."""
    calling = config.function_calling_config if config is not None else None
    if calling is None or not calling.mode or not tools:
        return tools, None
    mode = MODES_IN.get(calling.mode.upper())
    if mode is None:
        if calling.mode.upper() == "MODE_UNSPECIFIED":
            return tools, None
        where = "toolConfig.functionCallingConfig.mode"
        raise invalid(f"{quoted(calling.mode)} is no mode; use {', '.join(MODES_IN)}", where)
    allowed = calling.allowed_function_names
    if mode is not Choose.REQUIRED or not allowed:
        return tools, ToolChoice(mode)
    declared, wanted = {t.name for t in tools}, frozenset(allowed)  # both may be long (F34)
    unknown = next((name for name in allowed if name not in declared), None)
    if unknown is not None:
        where = "toolConfig.functionCallingConfig.allowedFunctionNames"
        raise invalid(f"{quoted(unknown)} is not among the declared functions", where)
    if len(wanted) == 1:
        return tools, ToolChoice(Choose.NAMED, allowed[0])
    return tuple(t for t in tools if t.name in wanted), ToolChoice(mode)


def _sampling(config: Any) -> Sampling:
    given = proto.lenient(config, _Sampling, _CONFIG)
    said: dict[str, Any] = {}
    for (member, field), attribute in zip(SAMPLING.items(), _Sampling.__struct_fields__, strict=True):
        value = said[field] = getattr(given, attribute)
        if isinstance(value, float) and not isfinite(value):  # proto3 JSON has words for them: "NaN", "Infinity"
            raise invalid("must be a finite number", f"{_CONFIG}.{member}")
    if said["top_k"] is not None:
        said["top_k"] = int(said["top_k"])
    return Sampling(**said)


def _thinking(config: _Thinking | None) -> Thinking | None:
    if config is None:
        return None
    budget, level = config.thinking_budget, (config.thinking_level or "").upper()
    if level and level not in LEVELS and level != "THINKING_LEVEL_UNSPECIFIED":
        where = f"{_CONFIG}.thinkingConfig.thinkingLevel"
        raise invalid(f"{quoted(level)} is no level; use {', '.join(LEVELS)}", where)
    if budget == 0:
        return Thinking(enabled=False)
    if budget is None and not level and not config.include_thoughts:
        return None
    return Thinking(effort=LEVELS.get(level), budget_tokens=budget if budget is not None and budget > 0 else None)


def _response_format(config: _Config) -> ResponseFormat | None:
    schema = config.response_json_schema
    if schema is None:
        schema = to_json_schema(config.response_schema)
    kind = (config.response_mime_type or "").lower()
    if schema is not None and kind != _TEXT_TYPE:
        return ResponseFormat(Format.JSON_SCHEMA, schema)
    return ResponseFormat(Format.JSON) if kind == JSON_TYPE else None


def _untranslatable(given: dict[str, Any], config: dict[str, Any], wishes: _Config) -> tuple[str, ...]:
    found = [name for name in _UNTRANSLATABLE if given.get(name)]
    if (wishes.response_mime_type or "").lower() not in ("", JSON_TYPE, _TEXT_TYPE):
        found.append(f"{_CONFIG}.responseMimeType")
    modalities = config.get("responseModalities")
    if isinstance(modalities, list) and any(str(m).upper() != "TEXT" for m in modalities):
        found.append(f"{_CONFIG}.responseModalities")
    return tuple(found)


def _unread_config(config: dict[str, Any]) -> list[str]:
    return [f"{_CONFIG}.{name}" for name, value in config.items() if name not in _CONFIG_READ and proto.asks(value)]

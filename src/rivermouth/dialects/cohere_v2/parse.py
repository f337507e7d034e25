"""A client's chat body to a neutral request.

Fields that are not named here are never an error; they are named in `unmodelled`, so that a client learns what another
vendor's model went without.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from rivermouth.dialects.cohere_v2.tables import NAME
from rivermouth.dialects.cohere_v2.turns import Document, Turn, parse_turns
from rivermouth.dialects.dialect import Route
from rivermouth.ir.errors import invalid
from rivermouth.ir.names import loss_names, model_name, unread
from rivermouth.ir.request import (
    Choose,
    Original,
    Request,
    Sampling,
    Thinking,
    Tool,
    ToolChoice,
)
from rivermouth.vendors.cohere.bodies import reader
from rivermouth.vendors.cohere.documents import document, grounded
from rivermouth.vendors.cohere.formats import read_format
from rivermouth.wire import json


class _Function(msgspec.Struct):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None


class _Tool(msgspec.Struct):
    function: _Function
    type: str = "function"


class _Format(msgspec.Struct):
    type: str
    json_schema: dict[str, Any] | None = None


class _Thinking(msgspec.Struct):
    type: str
    token_budget: int | None = None


class _Body(msgspec.Struct):
    model: str
    messages: list[Turn]
    stream: bool | None = None
    tools: list[_Tool] | None = None
    tool_choice: str | None = None
    strict_tools: bool | None = None
    documents: list[str | Document] | None = None
    response_format: _Format | None = None
    max_tokens: int | None = None
    stop_sequences: list[str] | None = None
    temperature: float | None = None
    p: float | None = None
    k: int | None = None
    seed: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    logprobs: bool | None = None
    thinking: _Thinking | None = None


_read: Final = reader(_Body)
_CHOICES: Final = {"REQUIRED": Choose.REQUIRED, "NONE": Choose.NONE}
_THINKING: Final = {"enabled": True, "disabled": False}
_READ: Final = frozenset({*_Body.__struct_fields__, "priority"})  # whose turn it is changes nothing of the answer


def parse_request(body: bytes, route: Route, path_model: str | None) -> Request:
    """The neutral request.  Raises `ApiError` (invalid_request) with the field at fault."""
    asked = _read(body)
    if asked.max_tokens is not None and asked.max_tokens < 0:
        raise invalid("must not be negative", "max_tokens")
    fields, form = json.fields(body), asked.response_format
    talk = parse_turns(asked.messages)
    tools = tuple(_tool(t, i, asked.strict_tools) for i, t in enumerate(asked.tools or ()))
    return Request(
        model=model_name(asked.model),
        messages=grounded(talk.messages, map(_document, asked.documents or ())),
        system=talk.system,
        stream=bool(asked.stream),
        include_usage=True,
        max_tokens=asked.max_tokens or None,
        stop=tuple(s for s in asked.stop_sequences or () if s),
        tools=tools,
        tool_choice=_choice(asked.tool_choice) if tools else None,
        response_format=read_format(form.type, form.json_schema) if form is not None else None,
        sampling=_sampling(asked),
        thinking=_thinking(asked.thinking),
        original=Original(NAME, fields),
        unmodelled=loss_names([*unread(fields, _READ), *talk.skipped]),
    )


def _document(wire: str | Document) -> Any:
    return document(wire, None) if isinstance(wire, str) else document(wire.data, wire.id)


def _tool(tool: _Tool, index: int, strict: bool | None) -> Tool:
    function = tool.function
    if tool.type != "function" or not function.name:
        field = "type" if function.name else "function.name"
        raise invalid("a tool is a function with a name", f"tools[{index}].{field}")
    if function.parameters is None:
        return Tool(function.name, function.description, strict=strict)
    return Tool(function.name, function.description, function.parameters, strict)


def _choice(word: str | None) -> ToolChoice | None:
    if word is None:
        return None
    mode = _CHOICES.get(word.upper())
    if mode is None:
        raise invalid(f"must be one of {', '.join(_CHOICES)}", "tool_choice")
    return ToolChoice(mode)


def _sampling(asked: _Body) -> Sampling:
    return Sampling(
        temperature=asked.temperature,
        top_p=asked.p,
        top_k=asked.k,
        seed=asked.seed,
        frequency_penalty=asked.frequency_penalty,
        presence_penalty=asked.presence_penalty,
        logprobs=asked.logprobs,
    )


def _thinking(asked: _Thinking | None) -> Thinking | None:
    if asked is None:
        return None
    enabled = _THINKING.get(asked.type)
    if enabled is None:
        raise invalid(f"must be one of {', '.join(_THINKING)}", "thinking.type")
    return Thinking(enabled, budget_tokens=asked.token_budget if enabled else None)

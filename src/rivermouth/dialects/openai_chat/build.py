"""A neutral request to a body for an upstream of this dialect.

A request that came in this dialect goes out as its client wrote it, byte for byte, but for the model, `stream` and
`stream_options`.  Any other is written from the neutral model, and what cannot be written is named.
"""

from __future__ import annotations

from typing import Any, Final

from rivermouth.dialects.dialect import Outgoing
from rivermouth.dialects.openai_chat.outgoing import write_messages
from rivermouth.dialects.openai_chat.tables import FORMAT_OUT
from rivermouth.ir.request import (
    Choose,
    Format,
    Request,
    ResponseFormat,
    Sampling,
    Thinking,
    Tool,
    ToolChoice,
    check_translatable,
)
from rivermouth.vendors.openai.efforts import write_effort
from rivermouth.vendors.openai.repeat import repeated
from rivermouth.wire import json

NAME: Final = "openai_chat"
PATH: Final = "/chat/completions"

SAMPLING: Final = (
    "temperature",
    "top_p",
    "seed",
    "frequency_penalty",
    "presence_penalty",
    "logit_bias",
    "logprobs",
    "top_logprobs",
)
_SAMPLING_LOSSES: Final = tuple(name for name in Sampling.__struct_fields__ if name not in SAMPLING)

# What this dialect cannot carry, in the words of the neutral model.
LOSSES: Final = frozenset(
    {
        *_SAMPLING_LOSSES,
        "thinking.budget_tokens",
        "keep_alive_s",
        "context_tokens",
        "raw",
        "metadata",
        "messages.image",
        "messages.reasoning",
        "messages.tool_result",
        "keep_end",  # of an embedding
    }
)


def build_request(request: Request, model: str) -> Outgoing:
    """The call to make.  Raises `ApiError` for a part that this dialect cannot say and that must not be left out."""
    original = request.original
    if original is not None and original.dialect == NAME:
        return Outgoing(path=PATH, body=repeated(original, request, model))
    check_translatable(request)
    losses = list(request.unmodelled)
    fields: dict[str, Any] = {"model": model, "messages": write_messages(request, losses)}
    fields |= _limits(request) | _sampling(request.sampling, losses) | _tools(request)
    fields |= _thinking(request.thinking, losses) | _format(request.response_format)
    if request.user is not None:
        fields["user"] = request.user
    if request.metadata:
        losses.append("metadata")
    losses += request.local.wishes()
    if request.stream:
        fields |= {"stream": True, "stream_options": {"include_usage": True}}
    return Outgoing(path=PATH, body=json.encode(fields), losses=tuple(dict.fromkeys(losses)))


def _limits(request: Request) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if request.n != 1:
        fields["n"] = request.n
    if request.max_tokens is not None:
        fields["max_completion_tokens"] = request.max_tokens
    if request.stop:
        fields["stop"] = list(request.stop)
    return fields


def _sampling(sampling: Sampling, losses: list[str]) -> dict[str, Any]:
    losses += [name for name in _SAMPLING_LOSSES if getattr(sampling, name) is not None]
    return {name: value for name in SAMPLING if (value := getattr(sampling, name)) is not None}


def _tools(request: Request) -> dict[str, Any]:
    """Without tools there is neither a choice nor `parallel_tool_calls`: upstreams refuse both."""
    if not request.tools:
        return {}
    fields: dict[str, Any] = {"tools": [_tool(t) for t in request.tools]}
    if request.tool_choice is not None:
        fields["tool_choice"] = _choice(request.tool_choice)
    if request.parallel_tools is not None:
        fields["parallel_tool_calls"] = request.parallel_tools
    return fields


def _tool(tool: Tool) -> dict[str, Any]:
    said = {"description": tool.description, "strict": tool.strict}
    function = {"name": tool.name, "parameters": tool.parameters}
    return {"type": "function", "function": function | {k: v for k, v in said.items() if v is not None}}


def _choice(choice: ToolChoice) -> Any:
    if choice.mode is Choose.NAMED:
        return {"type": "function", "function": {"name": choice.name}}
    return choice.mode.value


def _thinking(thinking: Thinking | None, losses: list[str]) -> dict[str, Any]:
    return {} if thinking is None else {"reasoning_effort": write_effort(thinking, losses)}


def _format(wanted: ResponseFormat | None) -> dict[str, Any]:
    if wanted is None:
        return {}
    shape: dict[str, Any] = {"type": FORMAT_OUT[wanted.kind]}
    if wanted.kind is Format.JSON_SCHEMA:
        said = {"description": wanted.description, "strict": wanted.strict}
        schema = {"name": wanted.name or "answer", "schema": wanted.schema or {}}
        shape["json_schema"] = schema | {k: v for k, v in said.items() if v is not None}
    return {"response_format": shape}

"""A neutral request to a body for an upstream of this dialect.

A request that came in this dialect goes out as its client wrote it, byte for byte, but for the model, `stream` and
`stream_options`.  Any other is written from the neutral model, and what cannot be written is named.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from rivermouth.dialects.dialect import Outgoing
from rivermouth.dialects.openai_chat.opaque import own_detail
from rivermouth.dialects.openai_chat.outgoing import write_messages
from rivermouth.dialects.openai_chat.splice import write
from rivermouth.dialects.openai_chat.tables import BUDGET_EFFORTS, FORMAT_OUT
from rivermouth.ir.errors import WireError
from rivermouth.ir.opaque import holds_sealed, opened, sealed
from rivermouth.ir.request import (
    Choose,
    Format,
    Original,
    Reasoning,
    Request,
    ResponseFormat,
    Sampling,
    Thinking,
    Tool,
    ToolChoice,
    check_translatable,
)
from rivermouth.vendors.output_caps import clamped
from rivermouth.wire import json

NAME: Final = "openai_chat"
PATH: Final = "/chat/completions"
_messages: Final = json.typed(list[json.Raw])

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
        "max_tokens",  # more than the model may be asked for
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
        return Outgoing(path=PATH, body=_as_it_came(original, request, model))
    check_translatable(request)
    losses = list(request.unmodelled)
    fields: dict[str, Any] = {"model": model, "messages": write_messages(request, losses)}
    fields |= _limits(request, model, losses) | _sampling(request.sampling, losses) | _tools(request)
    fields |= _thinking(request.thinking, losses) | _format(request.response_format)
    if request.user is not None:
        fields["user"] = request.user
    if request.metadata:
        losses.append("metadata")
    losses += request.local.wishes()
    if request.stream:
        fields |= {"stream": True, "stream_options": {"include_usage": True}}
    return Outgoing(path=PATH, body=json.encode(fields), losses=tuple(dict.fromkeys(losses)))


def _as_it_came(original: Original, request: Request, model: str) -> bytes:
    """Usage is always asked for, since every call is counted; the relay keeps it from a client that did not ask."""
    fields = dict(original.fields)
    fields["model"] = json.raw(model)
    if "messages" in fields and holds_sealed(bytes(fields["messages"])):
        fields["messages"] = msgspec.Raw(_own_details(fields["messages"]))
    if request.stream:
        fields["stream"] = json.raw(value=True)
        fields["stream_options"] = _stream_options(fields.get("stream_options"))
    else:
        if "stream" in fields:
            fields["stream"] = json.raw(value=False)
        fields.pop("stream_options", None)
    return write(fields)


def _own_details(messages: json.Raw) -> bytes:
    """The messages without signatures that this wire has only carried: those that it made are opened."""
    kept: list[Any] = []
    for message in json.decode_as(_messages, messages):
        fields = json.fields(message)
        if holds_sealed(bytes(fields.get("reasoning_details", b""))):
            details = [d for d in map(_own, json.decode(fields.pop("reasoning_details"))) if d is not None]
            if details:
                fields["reasoning_details"] = json.raw(details)
            message = json.Raw(write(fields))
        kept.append(message)
    return json.encode(kept)


def _own(detail: Any) -> Any:
    """A detail of a client's as an upstream may have it; None for one that it may not."""
    member = next((m for m in ("data", "signature") if isinstance(detail, dict) and detail.get(m)), None)
    if member is None or not sealed(str(detail[member])):
        return detail
    found = opened(str(detail[member]))
    part = Reasoning("", found.signature if found is not None else None, redacted=member == "data")
    own = own_detail(part)
    if own is None:
        return None
    words = {"text": detail["text"]} if detail.get("text") else {}
    return {**{k: v for k, v in own.items() if k != "text"}, **words, "index": detail.get("index", 0)}


def _stream_options(sent: json.Raw | None) -> json.Raw:
    try:
        options = json.fields(sent) if sent is not None else {}
    except WireError:  # null
        options = {}
    return json.Raw(write({**options, "include_usage": json.raw(value=True)}))


def _limits(request: Request, model: str, losses: list[str]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if request.n != 1:
        fields["n"] = request.n
    if request.max_tokens is not None:
        fields["max_completion_tokens"] = room = clamped(request.max_tokens, model)
        losses += ["max_tokens"] if room != request.max_tokens else []
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
    if thinking is None:
        return {}
    if not thinking.enabled:
        return {"reasoning_effort": "none"}
    budget = thinking.budget_tokens
    if budget is not None:
        losses.append("thinking.budget_tokens")
    named = next(word for least, word in BUDGET_EFFORTS if budget >= least) if budget is not None else "medium"
    return {"reasoning_effort": thinking.effort or named}


def _format(wanted: ResponseFormat | None) -> dict[str, Any]:
    if wanted is None:
        return {}
    shape: dict[str, Any] = {"type": FORMAT_OUT[wanted.kind]}
    if wanted.kind is Format.JSON_SCHEMA:
        said = {"description": wanted.description, "strict": wanted.strict}
        schema = {"name": wanted.name or "answer", "schema": wanted.schema or {}}
        shape["json_schema"] = schema | {k: v for k, v in said.items() if v is not None}
    return {"response_format": shape}

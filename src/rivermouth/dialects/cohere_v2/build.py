"""A neutral request to the body for a v2 upstream.

A request that came in this dialect goes out as its client wrote it, but for the model and `stream`.
"""

from __future__ import annotations

from typing import Any, Final

from rivermouth.dialects.cohere_v2.outgoing import write_turns
from rivermouth.dialects.cohere_v2.tables import CHOICES, NAME
from rivermouth.dialects.dialect import Outgoing
from rivermouth.ir.errors import invalid
from rivermouth.ir.request import (
    Choose,
    Request,
    Thinking,
    Tool,
    check_translatable,
)
from rivermouth.vendors.cohere.bodies import as_it_came
from rivermouth.vendors.cohere.formats import write_format
from rivermouth.vendors.cohere.sampling import write_sampling
from rivermouth.vendors.output_caps import clamped
from rivermouth.wire import json

PATH: Final = "/chat"


def build_request(request: Request, model: str) -> Outgoing:
    """The call to make.  Raises `ApiError` where leaving something out would make the answer wrong."""
    original = request.original
    if original is not None and original.dialect == NAME:
        return Outgoing(path=PATH, body=as_it_came(original, request, model))
    check_translatable(request)
    if request.n > 1:
        raise invalid("this upstream gives one answer for each request", "n")
    losses = set(request.unmodelled) | _unsaid(request)
    body: dict[str, Any] = {"model": model, "messages": write_turns(request, losses), "stream": request.stream}
    body |= _tools(request, losses) | write_format(request.response_format, "json_schema")
    body |= write_sampling(request.sampling, losses) | _thinking(request.thinking, losses)
    if request.max_tokens is not None:
        body["max_tokens"] = room = clamped(request.max_tokens, model)
        losses |= {"max_tokens"} if room != request.max_tokens else set()
    if request.stop:
        body["stop_sequences"] = list(request.stop)
    return Outgoing(path=PATH, body=json.encode(body), losses=tuple(sorted(losses)))


def _unsaid(request: Request) -> set[str]:
    """Wishes that have no place here."""
    named = {"user": request.user, "metadata": request.metadata}
    return set(request.local.wishes()) | {name for name, value in named.items() if value}


def _tools(request: Request, losses: set[str]) -> dict[str, Any]:
    tools, choice = request.tools, request.tool_choice
    if not tools:
        return {}
    if request.parallel_tools is False:
        losses.add("parallel_tools")
    if choice is not None and choice.mode is Choose.NAMED and [t.name for t in tools] != [choice.name]:
        raise invalid("this upstream can be made to call a tool, but not which one of several", "tool_choice")
    wire: dict[str, Any] = {"tools": [_tool(t) for t in tools]}
    word = CHOICES[choice.mode] if choice is not None else None
    if word is not None:
        wire["tool_choice"] = word
    if any(t.strict for t in tools):
        wire["strict_tools"] = True
        if not all(t.strict for t in tools):
            losses.add("tool.strict")
    return wire


def _tool(tool: Tool) -> dict[str, Any]:
    described = {"description": tool.description} if tool.description is not None else {}
    return {"type": "function", "function": {"name": tool.name, **described, "parameters": tool.parameters}}


def _thinking(wanted: Thinking | None, losses: set[str]) -> dict[str, Any]:
    if wanted is None:
        return {}
    if not wanted.enabled:
        return {"thinking": {"type": "disabled"}}
    if wanted.effort is not None:
        losses.add("thinking.effort")
    budget = {"token_budget": wanted.budget_tokens} if wanted.budget_tokens is not None else {}
    return {"thinking": {"type": "enabled", **budget}}

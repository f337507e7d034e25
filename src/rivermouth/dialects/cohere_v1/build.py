"""A neutral request to the body for a v1 upstream.

A request that came in this dialect goes out as its client wrote it, but for the model and `stream`.
"""

from __future__ import annotations

from typing import Any, Final

from rivermouth.dialects.cohere_v1.calls import write_tool
from rivermouth.dialects.cohere_v1.outgoing import write_talk
from rivermouth.dialects.cohere_v1.tables import NAME
from rivermouth.dialects.dialect import Outgoing
from rivermouth.ir.errors import invalid
from rivermouth.ir.request import Choose, Request, check_translatable
from rivermouth.vendors.cohere.bodies import as_it_came
from rivermouth.vendors.cohere.formats import write_format
from rivermouth.vendors.cohere.sampling import write_sampling
from rivermouth.vendors.output_caps import clamped
from rivermouth.wire import json

PATH: Final = "/chat"
_FORCED: Final = frozenset({Choose.REQUIRED, Choose.NAMED})


def build_request(request: Request, model: str) -> Outgoing:
    """The call to make.  Raises `ApiError` where leaving something out would make the answer wrong."""
    original = request.original
    if original is not None and original.dialect == NAME:
        return Outgoing(path=PATH, body=as_it_came(original, request, model))
    check_translatable(request)
    if request.n > 1:
        raise invalid("this upstream gives one answer for each request", "n")
    losses = set(request.unmodelled) | _unsaid(request)
    body: dict[str, Any] = {"model": model, **write_talk(request, losses), "stream": request.stream}
    body |= (
        _tools(request, losses)
        | write_format(request.response_format, "schema")
        | write_sampling(request.sampling, losses)
    )
    if request.max_tokens is not None:
        body["max_tokens"] = room = clamped(request.max_tokens, model)
        losses |= {"max_tokens"} if room != request.max_tokens else set()
    if request.stop:
        body["stop_sequences"] = list(request.stop)
    if request.local.raw:
        body["raw_prompting"] = True
    return Outgoing(path=PATH, body=json.encode(body), losses=tuple(sorted(losses)))


def _unsaid(request: Request) -> set[str]:
    """Wishes that have no place here."""
    local = set(request.local.wishes()) - {"raw"}
    named = {"user": request.user, "metadata": request.metadata, "thinking": request.thinking}
    return local | {name for name, value in named.items() if value}


def _tools(request: Request, losses: set[str]) -> dict[str, Any]:
    choice = request.tool_choice
    if not request.tools:
        return {}
    if choice is not None and choice.mode in _FORCED:
        raise invalid("this upstream cannot be made to call a tool", "tool_choice")
    if choice is not None and choice.mode is Choose.NONE:
        return {}
    if request.parallel_tools is False:
        losses.add("parallel_tools")
    return {"tools": [write_tool(tool, losses) for tool in request.tools]}

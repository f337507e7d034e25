"""A client's chat body to a neutral request.

Fields that are not named here are never an error; they are named in `unmodelled`, so that a client learns what another
vendor's model went without.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from rivermouth.dialects.cohere_v1.calls import ToolShape, read_tool
from rivermouth.dialects.cohere_v1.tables import DEFAULT_MODEL, NAME
from rivermouth.dialects.cohere_v1.turns import Result, Turn, parse_talk
from rivermouth.dialects.dialect import Route
from rivermouth.ir.errors import WireError, invalid
from rivermouth.ir.names import loss_names, model_name, unread
from rivermouth.ir.request import Local, Original, Request, Sampling, Tool
from rivermouth.vendors.cohere.bodies import reader, refusal, said
from rivermouth.vendors.cohere.documents import document, grounded
from rivermouth.vendors.cohere.formats import read_format
from rivermouth.wire import json


class _Format(msgspec.Struct):
    type: str
    schema: dict[str, Any] | None = None


class _Body(msgspec.Struct):
    message: str
    model: str | None = None
    stream: bool | None = None
    preamble: str | None = None
    chat_history: list[Turn] | None = None
    tools: list[ToolShape] | None = None
    tool_results: list[Result] | None = None
    documents: list[dict[str, Any]] | None = None
    response_format: _Format | None = None
    max_tokens: int | None = None
    stop_sequences: list[str] | None = None
    temperature: float | None = None
    p: float | None = None
    k: int | None = None
    seed: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    raw_prompting: bool | None = None


_read: Final = reader(_Body)
# Run or kept by the vendor: without them the answer would be another one.
_VENDOR_RUN: Final = ("connectors", "conversation_id", "search_queries_only")
_READ: Final = frozenset({*_Body.__struct_fields__, *_VENDOR_RUN})


def parse_request(body: bytes, route: Route, path_model: str | None) -> Request:
    """The neutral request.  Raises `ApiError` (invalid_request) with the field at fault."""
    asked = _read(body)
    if not asked.message and not asked.tool_results:
        raise invalid("a message of at least one character is required, or tool results", "message")
    if asked.max_tokens is not None and asked.max_tokens < 0:
        raise invalid("must not be negative", "max_tokens")
    fields, form = json.fields(body), asked.response_format
    try:
        talk = parse_talk(asked.preamble, asked.chat_history or [], asked.message, asked.tool_results or [])
    except WireError as error:
        raise refusal(error) from None
    return Request(
        model=model_name(asked.model, DEFAULT_MODEL),
        messages=grounded(talk.messages, (document(data, _identity(data)) for data in asked.documents or ())),
        system=talk.system,
        stream=bool(asked.stream),
        include_usage=True,
        max_tokens=asked.max_tokens or None,
        stop=tuple(s for s in asked.stop_sequences or () if s),
        tools=tuple(_tool(shape, i) for i, shape in enumerate(asked.tools or ())),
        response_format=read_format(form.type, form.schema) if form is not None else None,
        sampling=_sampling(asked),
        local=Local(raw=bool(asked.raw_prompting)),
        original=Original(NAME, fields),
        untranslatable=tuple(f for f in _VENDOR_RUN if said(fields, f)),
        unmodelled=loss_names(unread(fields, _READ)),
    )


def _identity(data: dict[str, Any]) -> str | None:
    identity = data.get("id")
    return identity if isinstance(identity, str) else None


def _tool(shape: ToolShape, index: int) -> Tool:
    if not shape.name:
        raise invalid("a tool needs a name", f"tools[{index}].name")
    return read_tool(shape)


def _sampling(asked: _Body) -> Sampling:
    return Sampling(
        temperature=asked.temperature,
        top_p=asked.p,
        top_k=asked.k,
        seed=asked.seed,
        frequency_penalty=asked.frequency_penalty,
        presence_penalty=asked.presence_penalty,
    )

"""A neutral request to a body for an upstream of this dialect.

Nothing is ever stored there: the talk is always whole, and thoughts come back encrypted.  A request that came in this
dialect goes out as its client wrote it, but for the model, what is kept, and thoughts of other vendors' models.
"""

from __future__ import annotations

from typing import Any, Final

from rivermouth.dialects.dialect import Outgoing
from rivermouth.dialects.openai_responses.opaque import MINTED, from_wire, minted, native
from rivermouth.dialects.openai_responses.outgoing import write_input
from rivermouth.dialects.openai_responses.tables import (
    ENCRYPTED,
    FORMAT_OUT,
    LOGPROBS,
    NAME,
    PATH,
    SAMPLING,
)
from rivermouth.dialects.openai_responses.tools import write_tools
from rivermouth.ir.errors import WireError, invalid
from rivermouth.ir.request import (
    Format,
    Original,
    Request,
    ResponseFormat,
    Sampling,
    Thinking,
    check_translatable,
)
from rivermouth.vendors.openai.efforts import write_effort
from rivermouth.wire import json

_PLAIN_SAMPLING: Final = tuple(name for name in SAMPLING if name != "logprobs")
_LOST_SAMPLING: Final = tuple(name for name in Sampling.__struct_fields__ if name not in SAMPLING)
# What is between a client and the server that keeps its answers; upstreams get the talk itself.
_OURS: Final = ("background", "conversation", "previous_response_id")
_items: Final = json.typed(list[Any])
_strings: Final = json.typed(list[str])


def build_request(request: Request, model: str) -> Outgoing:
    """The call to make.  Raises `ApiError` for what this dialect cannot say and must not be left out."""
    original = request.original
    if original is not None and original.dialect == NAME:
        return _as_it_came(original, request, model)
    check_translatable(request)
    if request.n > 1:
        raise invalid("the Responses protocol gives one answer for each request", "n")
    losses = list(request.unmodelled)
    fields: dict[str, Any] = {"model": model}
    if request.system:
        fields["instructions"] = "\n\n".join(t.text for t in request.system)
    fields["input"] = write_input(request, losses)
    fields |= _limits(request, losses) | write_tools(request)
    fields |= _thinking(request.thinking, losses) | _format(request.response_format)
    if request.user is not None:
        fields["user"] = request.user
    if request.metadata:
        fields["metadata"] = request.metadata
    fields["store"] = False
    fields["include"] = [ENCRYPTED, *([LOGPROBS] if request.sampling.logprobs else [])]
    if request.stream:
        fields["stream"] = True
    return Outgoing(path=PATH, body=json.encode(fields), losses=tuple(dict.fromkeys(losses)))


def _as_it_came(original: Original, request: Request, model: str) -> Outgoing:
    losses: tuple[str, ...] = ()
    fields = {name: raw for name, raw in original.fields.items() if name not in _OURS}
    fields["model"] = json.raw(model)
    fields["store"] = json.raw(value=False)
    fields["include"] = _included(fields.get("include"))
    if ("stream" in fields and bytes(fields["stream"]) == b"true") is not request.stream:
        fields["stream"] = json.raw(request.stream)
    if bytes(fields.get("input", b""))[:1] == b"[" and MINTED.encode() in bytes(fields["input"]):
        items, dropped = _unwrapped(fields["input"])
        fields["input"] = json.raw(items)
        losses = ("messages.reasoning",) if dropped else ()
    return Outgoing(path=PATH, body=json.encode(fields), losses=losses)


def _included(raw: json.Raw | None) -> json.Raw:
    """What the client wants to be included, and the thoughts."""
    try:
        names = json.decode_as(_strings, raw) if raw is not None else []
    except WireError:  # null
        names = []
    return raw if raw is not None and ENCRYPTED in names else json.raw([*names, ENCRYPTED])


def _unwrapped(raw: json.Raw) -> tuple[list[Any], bool]:
    """The items with our wrappings taken off, and whether thoughts of another vendor's models were left out."""
    kept: list[Any] = []
    dropped = False
    for item in json.decode_as(_items, raw):
        encrypted = item.get("encrypted_content") if isinstance(item, dict) else None
        if not isinstance(encrypted, str) or not minted(encrypted):
            kept.append(item)
            continue
        signed = from_wire(None, encrypted, silent=True)
        own = native(signed.signature) if signed is not None else None
        dropped = dropped or own is None
        if own is not None:
            kept.append({**item, "encrypted_content": own.encrypted, **({"id": own.id} if own.id else {})})
    return kept, dropped


def _limits(request: Request, losses: list[str]) -> dict[str, Any]:
    sampling = request.sampling
    fields = {name: value for name in _PLAIN_SAMPLING if (value := getattr(sampling, name)) is not None}
    if request.max_tokens is not None:
        fields["max_output_tokens"] = request.max_tokens
    losses += [name for name in _LOST_SAMPLING if getattr(sampling, name) is not None]
    losses += ["stop"] if request.stop else []
    losses += request.local.wishes()
    return fields


def _thinking(thinking: Thinking | None, losses: list[str]) -> dict[str, Any]:
    """A wish to think that says nothing of how hard, or in tokens, is one to see it."""
    if thinking is None:
        return {}
    wire: dict[str, Any] = {"effort": write_effort(thinking, losses)}
    summary = thinking.summary or ("auto" if thinking.enabled and thinking.effort is None else None)
    return {"reasoning": wire if summary is None else {**wire, "summary": summary}}


def _format(wanted: ResponseFormat | None) -> dict[str, Any]:
    if wanted is None:
        return {}
    shape: dict[str, Any] = {"type": FORMAT_OUT[wanted.kind]}
    if wanted.kind is Format.JSON_SCHEMA:
        said = {"description": wanted.description, "strict": wanted.strict}
        shape |= {"name": wanted.name or "answer", "schema": wanted.schema or {}}
        shape |= {name: value for name, value in said.items() if value is not None}
    return {"text": {"format": shape}}

"""Titan's embeddings, both ways: one text and one vector for each call.

    request   {"inputText", "dimensions", "normalize", "embeddingTypes"}
    reply     {"embedding": [...], "embeddingsByType": {"float": [...]}, "inputTextTokenCount"}

The path is the one of texts, and so is the simplest body, so that what is wanted has to be told (O14).
"""

from __future__ import annotations

from math import sqrt
from typing import Any, Final
from urllib.parse import quote

import msgspec

from rivermouth.dialects.bedrock_invoke.tables import EMBED, INVOKE_STREAM, NAME
from rivermouth.dialects.dialect import Answer, Operation, Outgoing, Route
from rivermouth.ir.errors import WireError, invalid
from rivermouth.ir.names import loss_names, model_name, unread
from rivermouth.ir.reply import EmbedReply
from rivermouth.ir.request import EmbedRequest, Original
from rivermouth.wire import json

ROUTE: Final = Route(method="POST", path="/{model}/invoke", operation=Operation.EMBED, kind=EMBED)
TYPE: Final = "float"
_TEXT: Final = b'"inputText"'
_TEXTS_ONLY: Final = b'"textGenerationConfig"'
_TELLING: Final = frozenset({"dimensions", "normalize", "embeddingTypes"})
_NAMED: Final = "embed"


class _Asked(msgspec.Struct):
    text: str = msgspec.field(name="inputText")
    dimensions: int | None = None
    normalize: bool | None = None
    types: list[str] | None = msgspec.field(name="embeddingTypes", default=None)
    model: msgspec.Raw | None = None


class _Vector(msgspec.Struct):
    embedding: list[float]
    input_tokens: int | None = msgspec.field(name="inputTextTokenCount", default=None)


_READ: Final = frozenset(field.encode_name for field in msgspec.structs.fields(_Asked))
_asked: Final = json.typed(_Asked)
_vector: Final = json.typed(_Vector)


def reroute(route: Route, body: bytes, model: str | None) -> Route:
    """The route for vectors, where the body or the model's name asks for one.  Raises `ApiError` for a stream."""
    if route.operation is not Operation.GENERATE or _TEXT not in body or not _wants_vector(body, model or ""):
        return route
    if route.kind == INVOKE_STREAM:
        raise invalid("embeddings are not streamed; use invoke", "modelId")
    return ROUTE


def _wants_vector(body: bytes, model: str) -> bool:
    """Cheap for what is no Titan body, however large it is."""
    if _TEXTS_ONLY in body or not (_NAMED in model.lower() or any(b'"%b"' % n.encode() in body for n in _TELLING)):
        return False
    try:
        fields = json.fields(body)
    except WireError:
        return False
    return "inputText" in fields and (_NAMED in model.lower() or not _TELLING.isdisjoint(fields))


def parse_embed(body: bytes, route: Route, path_model: str | None) -> EmbedRequest:
    """Raises `ApiError` with the field at fault."""
    model = model_name(path_model, param="modelId")
    try:
        asked = json.decode_as(_asked, body)
        fields = json.fields(body)
    except WireError as error:
        fault = json.misfit(error)
        raise invalid(fault.words, fault.param) from None
    if not asked.text:
        raise invalid("the text is empty", "inputText")
    if asked.dimensions is not None and asked.dimensions < 1:
        raise invalid("must be at least 1", "dimensions")
    if asked.types is not None and asked.types != [TYPE]:
        raise invalid(f"vectors are given as {TYPE} only", "embeddingTypes")
    return EmbedRequest(
        model=model,
        input=(asked.text,),
        dimensions=asked.dimensions,
        original=Original(NAME, fields),
        unmodelled=loss_names(unread(fields, _READ)),
    )


def encode_embed(reply: EmbedReply, request: EmbedRequest, answer: Answer) -> bytes:
    """One vector, of length 1 where the client asked for that."""
    vector = reply.vectors[0] if reply.vectors else ()
    if request.original is not None and bytes(request.original.fields.get("normalize", b"")) == b"true":
        vector = _normal(vector)
    return json.encode(
        {"embedding": vector, "embeddingsByType": {TYPE: vector}, "inputTextTokenCount": reply.input_tokens}
    )


def _normal(vector: tuple[float, ...]) -> tuple[float, ...]:
    length = sqrt(sum(x * x for x in vector))
    return tuple(x / length for x in vector) if length else vector


def build_embed(request: EmbedRequest, model: str) -> Outgoing:
    """Raises `ApiError` for more than one text: the protocol takes one, and several calls would be several bills."""
    if len(request.input) != 1:
        raise invalid("this model takes one text for each call", "input")
    path = f"/model/{quote(model, safe='')}/invoke"
    headers = {"accept": "application/json"}
    original = request.original
    if original is not None and original.dialect == NAME:
        kept = {name: raw for name, raw in original.fields.items() if name != "model"}
        return Outgoing(path=path, body=json.encode(kept), headers=headers)
    fields: dict[str, Any] = {"inputText": request.input[0]}
    if request.dimensions is not None:
        fields["dimensions"] = request.dimensions
    cut = {"truncate": not request.truncate, "keep_end": request.keep_end}
    lost = (*request.unmodelled, *(name for name, wanted in cut.items() if wanted), *request.local.wishes())
    return Outgoing(path=path, body=json.encode(fields), headers=headers, losses=lost)


def parse_embed_reply(body: bytes) -> EmbedReply:
    """Raises `WireError`."""
    found = json.decode_as(_vector, body)
    return EmbedReply(model="", vectors=(tuple(found.embedding),), input_tokens=found.input_tokens)

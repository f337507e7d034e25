"""Embeddings, both ways: a bare list of float vectors, or vectors by type where types are named.

`response_type` tells clients which of the two they read; without it they guess.
"""

from __future__ import annotations

from typing import Any, Final

from rivermouth.dialects.cohere_v1.tables import NAME
from rivermouth.dialects.cohere_v1.transcript import VERSION
from rivermouth.dialects.dialect import Answer, Outgoing, Route
from rivermouth.ir.reply import EmbedReply
from rivermouth.ir.request import EmbedRequest
from rivermouth.vendors.cohere.vectors import (
    asked_types,
    by_type,
    embed_members,
    meta,
    read_embed,
    read_vectors,
)
from rivermouth.wire import json

PATH: Final = "/embed"


def parse_embed(body: bytes, route: Route, path_model: str | None) -> EmbedRequest:
    """Raises `ApiError` (invalid_request) with the field as `param`."""
    return read_embed(NAME, body)


def encode_embed(reply: EmbedReply, request: EmbedRequest, answer: Answer) -> bytes:
    """One document, of the kind that the client asked for."""
    types = asked_types(request)
    kind = "embeddings_floats" if types is None else "embeddings_by_type"
    vectors: Any = reply.vectors if types is None else by_type(reply, types)
    return json.encode(
        {
            "response_type": kind,
            "id": answer.id,
            "embeddings": vectors,
            "texts": request.input,
            "meta": meta(reply, VERSION),
        }
    )


def build_embed(request: EmbedRequest, model: str) -> Outgoing:
    """The call to make; a client that spoke this dialect too gets its own body through."""
    original = request.original
    if original is not None and original.dialect == NAME:
        return Outgoing(path=PATH, body=json.encode({**original.fields, "model": json.raw(model)}))
    members, lost = embed_members(request)
    if request.dimensions is not None:
        lost = (*lost, "dimensions")
    return Outgoing(path=PATH, body=json.encode({"model": model, **members}), losses=lost)


def parse_embed_reply(body: bytes) -> EmbedReply:
    """Raises `WireError` when it holds no vectors, `ApiError` for an error object."""
    return read_vectors(NAME, body)

"""Embeddings: vectors by type, both ways."""

from __future__ import annotations

from typing import Final

from rivermouth.dialects.cohere_v2.tables import NAME
from rivermouth.dialects.dialect import Answer, Outgoing, Route
from rivermouth.ir.reply import EmbedReply
from rivermouth.ir.request import EmbedRequest
from rivermouth.vendors.cohere.vectors import (
    FLOAT,
    asked_types,
    by_type,
    embed_members,
    meta,
    read_embed,
    read_vectors,
)
from rivermouth.wire import json

PATH: Final = "/embed"
VERSION: Final = "2"


def parse_embed(body: bytes, route: Route, path_model: str | None) -> EmbedRequest:
    """Raises `ApiError` (invalid_request) with the field as `param`."""
    return read_embed(NAME, body)


def encode_embed(reply: EmbedReply, request: EmbedRequest, answer: Answer) -> bytes:
    """One document, in the types that the client asked for; floats if it named none."""
    return json.encode(
        {
            "response_type": "embeddings_by_type",
            "id": answer.id,
            "embeddings": by_type(reply, asked_types(request) or (FLOAT,)),
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
    sized = {"output_dimension": request.dimensions} if request.dimensions is not None else {}
    return Outgoing(path=PATH, body=json.encode({"model": model, **members, **sized}), losses=lost)


def parse_embed_reply(body: bytes) -> EmbedReply:
    """Raises `WireError` when it holds no vectors, `ApiError` for an error object."""
    return read_vectors(NAME, body)

"""Embeddings: `/embed` with many texts, and the legacy `/embeddings` with one prompt and one vector."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from rivermouth.dialects.dialect import Answer, Outgoing, Route
from rivermouth.dialects.ollama.bodies import reader
from rivermouth.dialects.ollama.failure import said, upstream_error
from rivermouth.dialects.ollama.request import local_wishes, unmodelled
from rivermouth.dialects.ollama.tables import NAME
from rivermouth.dialects.ollama.upstream import touched
from rivermouth.ir.errors import WireError, invalid
from rivermouth.ir.names import model_name
from rivermouth.ir.reply import EmbedReply
from rivermouth.ir.request import EmbedRequest, Original
from rivermouth.wire import json


class _Body(msgspec.Struct, kw_only=True):
    model: str = ""
    name: str = ""
    input: str | list[str] | None = None
    prompt: str | None = None
    truncate: bool | None = None
    dimensions: int | None = None
    keep_alive: float | str | None = None
    options: dict[str, Any] | None = None
    stream: bool | None = None


class _Reply(msgspec.Struct, kw_only=True):
    model: str = ""
    embeddings: list[tuple[float, ...]] | None = None
    embedding: tuple[float, ...] | None = None
    prompt_eval_count: int | None = None
    error: Any = None


_READ: Final = frozenset(_Body.__struct_fields__)
_OPTIONS: Final = frozenset({"num_ctx"})
_read: Final = reader(_Body)
_REPLY: Final = json.typed(_Reply)


def parse_embed(body: bytes, route: Route, path_model: str | None = None) -> EmbedRequest:
    """The request of either route.  An empty string is no input, as at Ollama: then there are no vectors to make.

    Raises `ApiError` (invalid_request) with the field as `param`; also for `stream: true` (R14).
    """
    asked = _read(body)
    if asked.stream:
        raise invalid("embeddings cannot be streamed", "stream")
    single = route.kind == "embeddings"
    if not single and asked.input is None:
        raise invalid("input is required", "input")
    one = asked.prompt if single else asked.input
    texts = one if isinstance(one, list) else [one] if one else []
    fields = json.fields(body)
    return EmbedRequest(
        model=model_name(asked.model, asked.name),
        input=tuple(texts),
        single=single,
        dimensions=None if single else asked.dimensions,
        truncate=asked.truncate is not False,
        local=local_wishes(asked.keep_alive, asked.options),
        original=Original(NAME, fields),
        unmodelled=unmodelled(fields, _READ, asked.options, _OPTIONS),
    )


def encode_embed(reply: EmbedReply, request: EmbedRequest, answer: Answer) -> bytes:
    """One document; the legacy route has the bare vector."""
    if request.single:
        return json.encode({"embedding": reply.vectors[0] if reply.vectors else ()})
    counters = {"total_duration": answer.total_ns, "prompt_eval_count": reply.input_tokens}
    return json.encode({"model": answer.model, "embeddings": reply.vectors, **{k: v for k, v in counters.items() if v}})


def build_embed(request: EmbedRequest, model: str) -> Outgoing:
    """The body for `/embed`; a client that spoke Ollama too gets its own through."""
    original = request.original
    if original is not None and original.dialect == NAME:
        return Outgoing(path="/embeddings" if request.single else "/embed", body=json.encode(touched(original, model)))
    members = {
        "dimensions": request.dimensions,
        "truncate": None if request.truncate else False,
        "keep_alive": request.local.keep_alive_s,
        "options": {"num_ctx": request.local.context_tokens} if request.local.context_tokens else None,
    }
    said_members = {name: value for name, value in members.items() if value is not None}
    body = json.encode({"model": model, "input": request.input, **said_members})
    losses = (*request.unmodelled, *(("keep_end",) if request.keep_end else ()))
    return Outgoing(path="/embed", body=body, losses=losses)


def parse_embed_reply(body: bytes) -> EmbedReply:
    """Either route's reply.  Raises `WireError` when it holds no vectors, `ApiError` for an error object."""
    found = json.decode_as(_REPLY, body)
    if found.error:
        raise upstream_error(said(found.error))
    if found.embeddings is not None:
        vectors = tuple(found.embeddings)
    elif found.embedding is not None:
        vectors = (found.embedding,) if found.embedding else ()
    else:
        raise WireError("a reply without embeddings")
    return EmbedReply(model=found.model, vectors=vectors, input_tokens=found.prompt_eval_count)

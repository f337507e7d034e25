"""Embeddings: `embedContent` for one text, `batchEmbedContents` for many (the only one that the SDK calls)."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from rivermouth.dialects.dialect import Answer, Outgoing, Route
from rivermouth.dialects.gemini import names, proto
from rivermouth.dialects.gemini.contents import WireContent
from rivermouth.dialects.gemini.tables import NAME
from rivermouth.ir.errors import WireError, invalid
from rivermouth.ir.names import loss_names
from rivermouth.ir.reply import EmbedReply
from rivermouth.ir.request import EmbedRequest, Original
from rivermouth.wire import json

BATCH: Final = "batch"  # the kinds of the two routes
SINGLE: Final = "embed"
INPUTS_CAP: Final = 2048

_ONE: Final = "embedContent"
_MANY: Final = "batchEmbedContents"


_READ: Final = frozenset({"content", "model", "outputDimensionality", "requests"})


class _Embed(msgspec.Struct, rename="camel"):
    content: WireContent
    output_dimensionality: int | None = None


class _Vector(msgspec.Struct):
    values: tuple[float, ...] = ()


class _Counts(msgspec.Struct, rename="camel"):
    prompt_token_count: int | None = None


class _Reply(msgspec.Struct, rename="camel"):
    embedding: _Vector | None = None
    embeddings: list[_Vector] | None = None
    usage_metadata: _Counts | None = None


_reply: Final = json.typed(_Reply)


def parse_embed(body: bytes, route: Route, path_model: str | None) -> EmbedRequest:
    """The request of either route.  Raises `ApiError` (invalid_request) with the field at fault."""
    model = names.asked(path_model)
    fields, given = proto.read(body)
    single = route.kind == SINGLE
    asked = [given] if single else given.get("requests")
    if not isinstance(asked, list) or not asked:
        raise invalid("at least one request is required", "requests")
    if len(asked) > INPUTS_CAP:
        raise invalid(f"at most {INPUTS_CAP} requests in one call", "requests")
    texts: list[str] = []
    sizes: set[int | None] = set()
    unread = [] if single else proto.unread(fields, _READ)
    for i, request in enumerate(asked):
        where = "" if single else f"requests[{i}]"
        wanted = proto.lenient(request, _Embed, where)
        texts.append(_text(wanted.content, proto.join(where, "content")))
        sizes.add(wanted.output_dimensionality)
        unread += [name for name, value in request.items() if name not in _READ and proto.asks(value)]
    if len(sizes) > 1:
        raise invalid("all requests of a call must want the same size", "requests[0].outputDimensionality")
    dimensions = sizes.pop()
    if dimensions is not None and dimensions < 1:
        raise invalid("must be at least 1", "outputDimensionality")
    return EmbedRequest(
        model=model,
        input=tuple(texts),
        single=single,
        dimensions=dimensions,
        original=Original(NAME, fields),
        unmodelled=loss_names(unread),
    )


def encode_embed(reply: EmbedReply, request: EmbedRequest, answer: Answer) -> bytes:
    """As many vectors as there were requests; the single route has the one."""
    vectors = [{"values": vector} for vector in reply.vectors]
    counts = {} if reply.input_tokens is None else {"usageMetadata": {"promptTokenCount": reply.input_tokens}}
    if request.single:
        return json.encode({"embedding": vectors[0] if vectors else {"values": []}, **counts})
    return json.encode({"embeddings": vectors, **counts})


def build_embed(request: EmbedRequest, model: str) -> Outgoing:
    """The call of the batch route; a client that spoke this dialect too gets its own body through."""
    original = request.original
    if original is not None and original.dialect == NAME:
        return Outgoing(path=names.path(model, _ONE if request.single else _MANY), body=_repeat(original, model))
    size = {} if request.dimensions is None else {"outputDimensionality": request.dimensions}
    wanted = [
        {"model": names.resource(model), "content": {"parts": [{"text": text}]}, **size} for text in request.input
    ]
    cut = {"truncate": not request.truncate, "keep_end": request.keep_end}
    lost = [*request.local.wishes(), *(name for name, wanted in cut.items() if wanted)]
    return Outgoing(
        path=names.path(model, _MANY),
        body=json.encode({"requests": wanted}),
        losses=loss_names([*lost, *request.unmodelled]),
    )


def parse_embed_reply(body: bytes) -> EmbedReply:
    """Either route's reply.  Raises `WireError` when it holds no vectors."""
    found = json.decode_as(_reply, body)
    vectors = found.embeddings
    if vectors is None and found.embedding is not None:
        vectors = [found.embedding]
    if vectors is None:
        raise WireError("a reply without embeddings")
    tokens = found.usage_metadata.prompt_token_count if found.usage_metadata is not None else None
    return EmbedReply(model="", vectors=tuple(v.values for v in vectors), input_tokens=tokens)


def _text(content: WireContent, where: str) -> str:
    parts = content.parts or []
    if any(part.text is None for part in parts):
        raise invalid("only text can be embedded here", f"{where}.parts")
    text = "".join(part.text or "" for part in parts)
    if not text:
        raise invalid("the content must not be empty", f"{where}.parts")
    return text


def _repeat(original: Original, model: str) -> bytes:
    """The client's own body, each request in it for the upstream's model."""
    name = names.resource(model)
    fields: dict[str, Any] = dict(original.fields)
    if "model" in fields:
        fields["model"] = name
    if "requests" in fields:
        came = json.decode(fields["requests"])
        fields["requests"] = [{**request, "model": name} for request in (came if isinstance(came, list) else [came])]
    return json.encode(fields)

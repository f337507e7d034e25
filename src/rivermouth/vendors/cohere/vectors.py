"""Embeddings, by type: `{"float": [[...]], "base64": ["..."]}`.

The whole-number types are not given: their scaling is the vendor's own, and a guess would be a wrong vector.

`input_type` says what the vector is for.  Whoever does not say it embeds documents to be searched.
"""

from __future__ import annotations

import base64
import binascii
import struct
from typing import Any, Final

import msgspec

from rivermouth.ir.errors import WireError, invalid
from rivermouth.ir.names import loss_names, model_name, quoted, unread
from rivermouth.ir.reply import EmbedReply
from rivermouth.ir.request import EmbedRequest, Original
from rivermouth.vendors.cohere.bodies import reader
from rivermouth.vendors.cohere.counts import Pair
from rivermouth.vendors.cohere.failures import upstream_error, words
from rivermouth.wire import json

FLOAT: Final = "float"
TYPES: Final = (FLOAT, "base64")
INPUT_TYPE: Final = "search_document"
TEXTS_CAP: Final = 2048
_FAMILY: Final = frozenset({"cohere_v1", "cohere_v2"})  # whose bodies have an `input_type`
_TRUNCATE: Final = ("NONE", "START", "END")


class _Content(msgspec.Struct):
    type: str = "text"
    text: str | None = None


class _Input(msgspec.Struct):
    content: list[_Content]


class _Body(msgspec.Struct):
    model: str = ""
    texts: list[str] | None = None
    inputs: list[_Input] | None = None
    images: list[Any] | None = None
    embedding_types: list[str] | None = None
    output_dimension: int | None = None
    truncate: str | None = None
    input_type: str | None = None
    stream: bool | None = None


class Vectors(msgspec.Struct):
    floats: list[tuple[float, ...]] | None = msgspec.field(name=FLOAT, default=None)
    base64: list[str] | None = None


class _Meta(msgspec.Struct):
    billed_units: Pair | None = None


class _Reply(msgspec.Struct):
    embeddings: Vectors | list[tuple[float, ...]] | None = None
    meta: _Meta | None = None
    message: Any = None


_read: Final = reader(_Body)
_READ: Final = frozenset({*_Body.__struct_fields__, "priority"})  # whose turn it is changes no vector
_REPLY: Final = json.typed(_Reply)
_NAMES: Final = json.typed(list[str])


def read_embed(name: str, body: bytes) -> EmbedRequest:
    """A client's request.  Raises `ApiError` (invalid_request) with the field as `param`; `stream: true` too (R14)."""
    asked = _read(body)
    if asked.stream:
        raise invalid("embeddings cannot be streamed", "stream")
    if asked.images:
        raise invalid("only texts are embedded here", "images")
    other = [kind for kind in asked.embedding_types or () if kind not in TYPES]
    if other:
        raise invalid(f"{quoted(other[0])} is not given here; use {' or '.join(TYPES)}", "embedding_types")
    if asked.output_dimension is not None and asked.output_dimension < 1:
        raise invalid("must be at least 1", "output_dimension")
    truncate = (asked.truncate or "END").upper()
    if truncate not in _TRUNCATE:
        raise invalid(f"must be one of {', '.join(_TRUNCATE)}", "truncate")
    fields = json.fields(body)
    purpose = ["input_type"] if asked.input_type not in (None, INPUT_TYPE) else []
    return EmbedRequest(
        model=model_name(asked.model),
        input=_texts(asked),
        dimensions=asked.output_dimension,
        truncate=truncate != "NONE",
        keep_end=truncate == "START",
        original=Original(name, fields),
        unmodelled=loss_names([*unread(fields, _READ), *purpose]),
    )


def _texts(asked: _Body) -> tuple[str, ...]:
    texts = list(asked.texts or ())
    for i, entry in enumerate(asked.inputs or ()):
        if any(content.type != "text" or content.text is None for content in entry.content):
            raise invalid("only texts are embedded here", f"inputs[{i}].content")
        texts.append("\n".join(content.text or "" for content in entry.content))
    if not texts:
        raise invalid("at least one text is required", "texts")
    if len(texts) > TEXTS_CAP:
        raise invalid(f"at most {TEXTS_CAP} texts in one call", "texts")
    return tuple(texts)


def asked_types(request: EmbedRequest) -> tuple[str, ...] | None:
    """The types that the client named, each once; None if it named none."""
    fields = request.original.fields if request.original is not None else {}
    if "embedding_types" not in fields or bytes(fields["embedding_types"]) in (b"null", b"[]"):
        return None
    named: list[str] = json.decode_as(_NAMES, fields["embedding_types"])
    return tuple(dict.fromkeys(named))


def by_type(reply: EmbedReply, types: tuple[str, ...]) -> dict[str, Any]:
    """The vectors in each of the types."""
    return {kind: list(map(_to_base64, reply.vectors)) if kind == "base64" else reply.vectors for kind in types}


def meta(reply: EmbedReply, version: str) -> dict[str, Any]:
    """The `meta` of an answer."""
    said: dict[str, Any] = {"api_version": {"version": version}}
    return said if reply.input_tokens is None else {**said, "billed_units": {"input_tokens": reply.input_tokens}}


def embed_members(request: EmbedRequest) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The members that both protocols have, and the losses.  `input_type` is required by newer models."""
    purpose = _purpose(request)
    lost = [name for name in request.unmodelled if name != "input_type" or purpose is None]
    lost += request.local.wishes()
    members = {"texts": request.input, "input_type": purpose or INPUT_TYPE, "embedding_types": [FLOAT]}
    if not request.truncate or request.keep_end:
        members["truncate"] = "START" if request.truncate else "NONE"
    return members, tuple(lost)


def _purpose(request: EmbedRequest) -> str | None:
    """The `input_type` of a client of either protocol: with another one its vectors would be wrong."""
    original = request.original
    if original is None or original.dialect not in _FAMILY or "input_type" not in original.fields:
        return None
    return json.text(bytes(original.fields["input_type"]))


def read_vectors(who: str, body: bytes) -> EmbedReply:
    """An upstream's reply of either protocol.  Raises `WireError`, and `ApiError` for an error object."""
    found = json.decode_as(_REPLY, body)
    vectors = found.embeddings
    if vectors is None and words(found.message):
        raise upstream_error(who, words(found.message))
    if isinstance(vectors, Vectors):
        vectors = vectors.floats if vectors.floats is not None else list(map(_from_base64, vectors.base64 or ()))
    if not vectors:
        raise WireError("a reply without vectors")
    billed = found.meta.billed_units if found.meta is not None else None
    count = billed.input_tokens if billed is not None else None
    return EmbedReply(model="", vectors=tuple(vectors), input_tokens=None if count is None else int(count))


def _to_base64(vector: tuple[float, ...]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def _from_base64(text: str) -> tuple[float, ...]:
    try:
        data = binascii.a2b_base64(text)
        return struct.unpack(f"<{len(data) // 4}f", data)
    except (ValueError, struct.error):
        raise WireError("an embedding is no base64 of 32-bit floats") from None

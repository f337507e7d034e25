"""Embeddings, both ways, as floats or as base64 of little-endian float32.

An input longer than the model reads is refused in this dialect, never cut: that is how its clients know it.
"""

from __future__ import annotations

import base64
import binascii
import struct
from typing import Any, Final

from rivermouth.dialects.dialect import Answer, Outgoing, Route
from rivermouth.dialects.openai_chat.parse import NAME
from rivermouth.dialects.openai_chat.shapes import EmbeddingReply, EmbeddingRequest
from rivermouth.ir.errors import WireError, invalid
from rivermouth.ir.names import loss_names, model_name, unread
from rivermouth.ir.reply import EmbedReply
from rivermouth.ir.request import EmbedRequest, Original
from rivermouth.vendors.openai.bodies import misfit, read_fields
from rivermouth.vendors.openai.splice import write
from rivermouth.wire import json

PATH: Final = "/embeddings"
INPUTS_CAP: Final = 2048
_READ: Final = frozenset(EmbeddingRequest.__struct_fields__)
_request: Final = json.typed(EmbeddingRequest)
_reply: Final = json.typed(EmbeddingReply)


def parse_embed(body: bytes, route: Route, path_model: str | None) -> EmbedRequest:
    """Raises `ApiError(invalid_request)` naming the field; `stream: true` and token arrays among the reasons (R14)."""
    fields = read_fields(body)
    try:
        wire = json.decode_as(_request, body)
    except WireError as error:
        raise misfit(error) from None
    if wire.stream:
        raise invalid("embeddings are not streamed", "stream", "invalid_value")
    model = model_name(path_model, wire.model)
    if wire.encoding_format not in (None, "float", "base64"):
        raise invalid("known are float, base64", "encoding_format", "invalid_value")
    if wire.dimensions is not None and wire.dimensions < 1:
        raise invalid("dimensions must be at least 1", "dimensions", "invalid_value")
    return EmbedRequest(
        model=model,
        input=_input(wire.input),
        base64=wire.encoding_format == "base64",
        dimensions=wire.dimensions,
        truncate=False,
        original=Original(NAME, fields),
        unmodelled=loss_names(unread(fields, _READ)),
    )


def _input(value: str | list[Any] | None) -> tuple[str, ...]:
    if value is None:
        raise invalid("input is missing", "input", "missing_required_parameter")
    texts = [value] if isinstance(value, str) else value
    if not all(isinstance(text, str) for text in texts):
        raise invalid("input must be text here, not tokens", "input", "invalid_type")
    if not texts or not all(texts):
        raise invalid("input must not be empty", "input", "invalid_value")
    if len(texts) > INPUTS_CAP:
        raise invalid(f"at most {INPUTS_CAP} inputs in one call", "input", "invalid_value")
    return tuple(texts)


def encode_embed(reply: EmbedReply, request: EmbedRequest, answer: Answer) -> bytes:
    """Vectors in input order, in the encoding that the client asked for."""
    write_vector = _to_base64 if request.base64 else list
    counted = {"prompt_tokens": reply.input_tokens, "total_tokens": reply.input_tokens}
    return json.encode(
        {
            "object": "list",
            "data": [
                {"object": "embedding", "index": i, "embedding": write_vector(vector)}
                for i, vector in enumerate(reply.vectors)
            ],
            "model": answer.model,
            "usage": counted if reply.input_tokens is not None else None,
        }
    )


def build_embed(request: EmbedRequest, model: str) -> Outgoing:
    """The client's own fields where they are of this dialect, else the neutral ones.

    There is no word for `truncate`: an upstream of this dialect refuses an input that is too long.
    """
    original = request.original
    if original is not None and original.dialect == NAME:
        return Outgoing(path=PATH, body=write({**original.fields, "model": json.raw(model)}))
    fields: dict[str, Any] = {"model": model, "input": list(request.input)}
    if request.dimensions is not None:
        fields["dimensions"] = request.dimensions
    losses = [*request.unmodelled, *request.local.wishes(), *(["keep_end"] if request.keep_end else [])]
    return Outgoing(path=PATH, body=json.encode(fields), losses=tuple(losses))


def parse_embed_reply(body: bytes) -> EmbedReply:
    """Raises `WireError` when it is no such reply.  Floats and base64 are both read, whatever was asked for."""
    wire = json.decode_as(_reply, body)
    data = wire.data
    if all(entry.index is not None for entry in data):
        data = sorted(data, key=lambda entry: entry.index or 0)
    vectors = tuple(_vector(entry.embedding) for entry in data)
    counted = wire.usage.prompt_tokens if wire.usage is not None else None
    return EmbedReply(model=wire.model or "", vectors=vectors, input_tokens=counted)


def _to_base64(vector: tuple[float, ...]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def _vector(value: str | list[float]) -> tuple[float, ...]:
    if not isinstance(value, str):
        return tuple(value)
    try:
        data = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise WireError("an embedding is not base64") from None
    if len(data) % 4:
        raise WireError("an embedding is not a whole number of float32")
    return struct.unpack(f"<{len(data) // 4}f", data)

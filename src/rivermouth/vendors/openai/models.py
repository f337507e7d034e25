"""An upstream's list of models."""

from __future__ import annotations

from typing import Final

import msgspec

from rivermouth.ir.errors import WireError
from rivermouth.ir.reply import ModelInfo
from rivermouth.wire import json


class ModelShape(msgspec.Struct, frozen=True):
    """`context_length`, `context_window` and `max_model_len` are three servers' words for one thing."""

    id: str
    created: int | float | None = None
    owned_by: str | None = None
    context_length: int | None = None
    context_window: int | None = None
    max_model_len: int | None = None


_list: Final = json.typed(list[ModelShape])


def parse_models(body: bytes) -> list[ModelInfo]:
    """An upstream's list, under `data` or bare.  Raises `WireError`."""
    raw: json.Raw | bytes = body
    if body.lstrip()[:1] == b"{":
        fields = json.fields(body)
        if "data" not in fields:
            raise WireError("a list of models without data")
        raw = fields["data"]
    return [_info(shape) for shape in json.decode_as(_list, raw)]


def _info(shape: ModelShape) -> ModelInfo:
    return ModelInfo(
        id=shape.id,
        owner=shape.owned_by or "",
        created=int(shape.created or 0),
        context_tokens=shape.context_length or shape.context_window or shape.max_model_len,
    )

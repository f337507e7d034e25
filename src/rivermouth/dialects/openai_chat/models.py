"""The list of models, both ways.  It is never paged here."""

from __future__ import annotations

from typing import Any, Final

from rivermouth.dialects.dialect import Route
from rivermouth.dialects.openai_chat.shapes import ModelShape
from rivermouth.ir.errors import WireError
from rivermouth.ir.reply import ModelInfo
from rivermouth.wire import json

_list: Final = json.typed(list[ModelShape])


def encode_models(models: list[ModelInfo], route: Route) -> bytes:
    return json.encode({"object": "list", "data": [_model(m) for m in models]})


def encode_model(model: ModelInfo, route: Route) -> bytes:
    return json.encode(_model(model))


def _model(model: ModelInfo) -> dict[str, Any]:
    return {"id": model.id, "object": "model", "created": model.created, "owned_by": model.owner}


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

"""The list of models.  It is never paged here."""

from __future__ import annotations

from typing import Any

from rivermouth.dialects.dialect import Route
from rivermouth.ir.reply import ModelInfo
from rivermouth.wire import json


def encode_models(models: list[ModelInfo], route: Route) -> bytes:
    return json.encode({"object": "list", "data": [_model(m) for m in models]})


def encode_model(model: ModelInfo, route: Route) -> bytes:
    return json.encode(_model(model))


def _model(model: ModelInfo) -> dict[str, Any]:
    return {"id": model.id, "object": "model", "created": model.created, "owned_by": model.owner}

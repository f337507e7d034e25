"""Model lists.  `has_more` is always said, or SDKs ask for pages without end."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from rivermouth.dialects.dialect import Route
from rivermouth.ir.reply import ModelInfo
from rivermouth.wire import json, times

MODELS_PATH: Final = "/models?limit=1000"


class _Model(msgspec.Struct):
    id: str
    created_at: str | None = None
    max_input_tokens: int | None = None


class _Models(msgspec.Struct):
    data: list[_Model]


_models: Final = json.typed(_Models)


def encode_models(models: list[ModelInfo], route: Route) -> bytes:
    """One page with all of them."""
    ends = {"first_id": models[0].id, "last_id": models[-1].id} if models else {"first_id": None, "last_id": None}
    return json.encode({"data": [_wire(m) for m in models], "has_more": False, **ends})


def encode_model(model: ModelInfo, route: Route) -> bytes:
    return json.encode(_wire(model))


def parse_models(body: bytes) -> list[ModelInfo]:
    """An upstream's list.  Raises `WireError`."""
    found = json.decode_as(_models, body).data
    return [_info(model) for model in found]


def _info(model: _Model) -> ModelInfo:
    created = times.unix_seconds(model.created_at or "")
    return ModelInfo(id=model.id, owner="anthropic", created=created, context_tokens=model.max_input_tokens)


def _wire(model: ModelInfo) -> dict[str, Any]:
    wire: dict[str, Any] = {
        "type": "model",
        "id": model.id,
        "display_name": model.id,
        "created_at": times.rfc3339(model.created),
        "lifecycle": "active",
    }
    if model.context_tokens is not None:
        wire["max_input_tokens"] = model.context_tokens
    return wire

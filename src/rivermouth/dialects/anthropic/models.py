"""Model lists.  `has_more` is always said, or SDKs ask for pages without end."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from rivermouth.dialects.dialect import Route
from rivermouth.ir.reply import ModelInfo
from rivermouth.wire import json

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
    return [
        ModelInfo(id=m.id, owner="anthropic", created=_seconds(m.created_at), context_tokens=m.max_input_tokens)
        for m in found
    ]


def _wire(model: ModelInfo) -> dict[str, Any]:
    wire: dict[str, Any] = {
        "type": "model",
        "id": model.id,
        "display_name": model.id,
        "created_at": datetime.fromtimestamp(model.created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "lifecycle": "active",
    }
    if model.context_tokens is not None:
        wire["max_input_tokens"] = model.context_tokens
    return wire


def _seconds(moment: str | None) -> int:
    """Unix seconds of an RFC 3339 time; 0 when it is not said or cannot be read."""
    try:
        return int(datetime.fromisoformat(moment or "").timestamp())
    except ValueError:
        return 0

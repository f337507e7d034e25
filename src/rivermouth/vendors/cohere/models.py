"""The list of models, which both protocols share."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from rivermouth.ir.reply import ModelInfo
from rivermouth.wire import json

OWNER: Final = "cohere"
# What a model can do here -> the endpoint it is listed for.
ENDPOINTS: Final[dict[str, str]] = {"completion": "chat", "embedding": "embed"}
_CAPABILITIES: Final = {endpoint: capability for capability, endpoint in ENDPOINTS.items()}


class _Model(msgspec.Struct):
    name: str
    endpoints: list[str] | None = None
    context_length: float | None = None
    features: list[str] | None = None


class _Models(msgspec.Struct):
    models: list[_Model]


_MODELS: Final = json.typed(_Models)


def parse_models(body: bytes) -> list[ModelInfo]:
    """An upstream's list.  Raises `WireError`."""
    return [
        ModelInfo(
            id=model.name,
            owner=OWNER,
            context_tokens=int(model.context_length) if model.context_length else None,
            capabilities=tuple(_CAPABILITIES[e] for e in model.endpoints or ("chat",) if e in _CAPABILITIES),
        )
        for model in json.decode_as(_MODELS, body).models
    ]


def write_model(model: ModelInfo) -> dict[str, Any]:
    """One entry of a list, and the answer for one model."""
    features = [c for c in model.capabilities if c not in ENDPOINTS]
    return {
        "name": model.id,
        "endpoints": [ENDPOINTS[c] for c in model.capabilities if c in ENDPOINTS],
        "finetuned": False,
        "is_deprecated": False,
        "context_length": model.context_tokens,
        "features": features or None,
    }

"""Model lists: one page with all of them."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from rivermouth.dialects.dialect import Route
from rivermouth.dialects.gemini import names
from rivermouth.ir.reply import ModelInfo
from rivermouth.wire import json

MODELS_PATH: Final = "/models?pageSize=1000"

_METHODS: Final[dict[str, tuple[str, ...]]] = {
    "completion": ("generateContent", "streamGenerateContent", "countTokens"),
    "embedding": ("embedContent", "batchEmbedContents"),
}


class _Model(msgspec.Struct, rename="camel"):
    name: str
    input_token_limit: int | None = None
    supported_generation_methods: list[str] | None = None


class _Models(msgspec.Struct):
    models: list[_Model] = []


_models: Final = json.typed(_Models)


def encode_models(models: list[ModelInfo], route: Route) -> bytes:
    return json.encode({"models": [_wire(m) for m in models]})


def encode_model(model: ModelInfo, route: Route) -> bytes:
    return json.encode(_wire(model))


def parse_models(body: bytes) -> list[ModelInfo]:
    """An upstream's list.  Raises `WireError`."""
    return [
        ModelInfo(
            id=names.bare(m.name),
            owner="google",
            context_tokens=m.input_token_limit,
            capabilities=_capabilities(m.supported_generation_methods),
        )
        for m in json.decode_as(_models, body).models
    ]


def _wire(model: ModelInfo) -> dict[str, Any]:
    limits = {} if model.context_tokens is None else {"inputTokenLimit": model.context_tokens}
    return {
        "name": names.resource(model.id),
        "version": "",
        "displayName": model.id,
        **limits,
        "supportedGenerationMethods": [m for able in model.capabilities for m in _METHODS.get(able, ())],
    }


def _capabilities(methods: list[str] | None) -> tuple[str, ...]:
    if methods is None:
        return ("completion",)
    return tuple(able for able, known in _METHODS.items() if known[0] in methods)

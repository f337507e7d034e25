"""What Ollama tells of its models: tags, ps, show, version; and the bodies of show, copy and delete.

GET /tags, /ps      `encode_models(models, route)`; what is running is the caller's list, `expires_at` None is for ever
POST /show          `parse_named(body)` -> model; `encode_model(info, route)`
GET /version        `encode_version(version)`
POST /copy          `parse_copy(body)`; the answer is 200 without a body
DELETE /delete      `parse_named(body)` -> model; the answer is 200 without a body

None of them streams: `stream: true` is refused (R14).
"""

from __future__ import annotations

import hashlib
import re
from typing import Any, Final

import msgspec

from rivermouth.dialects.dialect import Answer, Operation, Route
from rivermouth.dialects.ollama.bodies import reader
from rivermouth.dialects.ollama.failure import said, upstream_error
from rivermouth.dialects.ollama.times import FOR_EVER, rfc3339, unix_seconds
from rivermouth.ir.errors import invalid
from rivermouth.ir.names import model_name
from rivermouth.ir.reply import ModelInfo
from rivermouth.wire import json

_SCALES: Final = {"": 1.0, "K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}
_COUNT: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)([KMBT]?)", re.IGNORECASE)


class CopyRequest(msgspec.Struct, frozen=True):
    source: str
    destination: str


class _Copy(msgspec.Struct, frozen=True):
    source: str = ""
    destination: str = ""
    stream: bool | None = None


class _Named(msgspec.Struct, frozen=True):
    model: str = ""
    name: str = ""
    stream: bool | None = None


class _Details(msgspec.Struct, frozen=True):
    format: str | None = None
    family: str | None = None
    parameter_size: str | None = None
    quantization_level: str | None = None
    context_length: int | None = None


class _Tag(msgspec.Struct, frozen=True):
    name: str = ""
    model: str = ""
    modified_at: str = ""
    size: int | None = None
    digest: str | None = None
    details: _Details | None = None
    capabilities: tuple[str, ...] | None = None


class _Tags(msgspec.Struct, frozen=True):
    models: list[_Tag] | None = None
    error: Any = None


_read_copy: Final = reader(_Copy)
_read_named: Final = reader(_Named)
_TAGS: Final = json.typed(_Tags)


def parse_copy(body: bytes) -> CopyRequest:
    """Raises `ApiError` (invalid_request) when a name is missing, or is none."""
    found = _read_copy(body)
    _refuse_stream(found.stream)
    names = (model_name(getattr(found, field), param=field) for field in ("source", "destination"))
    return CopyRequest(*names)


def parse_named(body: bytes) -> str:
    """The model that a show or delete body names."""
    found = _read_named(body)
    _refuse_stream(found.stream)
    return model_name(found.model, found.name)


def encode_models(models: list[ModelInfo], route: Route) -> bytes:
    """`/tags`, or `/ps` where the route asks for what is loaded now."""
    one = _running if route.operation is Operation.RUNNING else _tag
    return json.encode({"models": [one(m) for m in models]})


def encode_model(model: ModelInfo, route: Route) -> bytes:
    """`/show`."""
    return json.encode(
        {
            **({"license": _license(model)} if model.license or model.attribution else {}),
            "modelfile": f"FROM {model.id}\n" + (f'TEMPLATE """{model.template}"""\n' if model.template else ""),
            "parameters": "",
            "template": model.template or "",
            "details": _details(model),
            "model_info": _model_info(model),
            "capabilities": model.capabilities,
            "modified_at": rfc3339(model.created),
        }
    )


def encode_version(version: str, answer: Answer | None = None) -> bytes:
    """`/version`."""
    return json.encode({"version": version})


def parse_models(body: bytes) -> list[ModelInfo]:
    """An upstream's `/tags`.  Raises `WireError`, or `ApiError` for an error object."""
    found = json.decode_as(_TAGS, body)
    if found.error:
        raise upstream_error(said(found.error))
    return [_info(tag) for tag in found.models or [] if tag.model or tag.name]


def _refuse_stream(stream: bool | None) -> None:
    if stream:
        raise invalid("this answer cannot be streamed", "stream")


def _info(tag: _Tag) -> ModelInfo:
    details = tag.details or _Details()
    return ModelInfo(
        id=tag.model or tag.name,
        owner="ollama",
        created=unix_seconds(tag.modified_at),
        size_bytes=tag.size,
        digest=tag.digest,
        family=details.family or None,
        parameters=details.parameter_size or None,
        quantization=details.quantization_level or None,
        format=details.format or None,
        context_tokens=details.context_length,
        capabilities=tag.capabilities or ("completion",),
    )


def _tag(model: ModelInfo) -> dict[str, Any]:
    return {
        "name": model.id,
        "model": model.id,
        "modified_at": rfc3339(model.created),
        "size": model.size_bytes or 0,
        "digest": _digest(model),
        "details": _details(model),
        "capabilities": model.capabilities,
    }


def _running(model: ModelInfo) -> dict[str, Any]:
    """`size_vram` 0 reads as "on the CPU": nothing here knows how much lies on another device."""
    return {
        "name": model.id,
        "model": model.id,
        "size": model.size_bytes or 0,
        "digest": _digest(model),
        "details": _details(model),
        "expires_at": FOR_EVER if model.expires_at is None else rfc3339(model.expires_at),
        "size_vram": 0,
        **({"context_length": model.context_tokens} if model.context_tokens else {}),
    }


def _details(model: ModelInfo) -> dict[str, Any]:
    return {
        "parent_model": "",
        "format": model.format or "",
        "family": model.family or "",
        "families": [model.family] if model.family else [],
        "parameter_size": model.parameters or "",
        "quantization_level": model.quantization or "",
    }


def _digest(model: ModelInfo) -> str:
    """Bare hex.  Clients cut twelve digits off it unasked, so a model without files has the digest of its name."""
    if model.digest:
        return model.digest.removeprefix("sha256:")
    return hashlib.sha256(model.id.encode()).hexdigest()


def _license(model: ModelInfo) -> str:
    """The licence, and below it whom it asks to name."""
    return "\n".join(filter(None, (model.license, model.attribution)))


def _model_info(model: ModelInfo) -> dict[str, Any]:
    """What of a model file's own header is known; the keys carry the architecture's name."""
    family = model.family or "unknown"
    said_of_it = {
        "general.architecture": model.family,
        "general.parameter_count": _parameter_count(model.parameters or ""),
        f"{family}.context_length": model.context_tokens,
    }
    return {name: value for name, value in said_of_it.items() if value is not None}


def _parameter_count(text: str) -> int | None:
    """ "135M" is 135 000 000."""
    found = _COUNT.fullmatch(text.strip())
    return round(float(found[1]) * _SCALES[found[2].upper()]) if found else None

"""Errors: one string under `error`, as an HTTP answer and in a stream alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rivermouth.dialects.dialect import Failure
from rivermouth.dialects.ollama.tables import NAME
from rivermouth.ir.errors import ApiError, Kind, WireError, kind_of_status
from rivermouth.wire import json

_TEXT_CAP_CHARS: Final = 500


def encode_error(error: ApiError, call_id: str) -> Failure:
    """The error as an HTTP answer."""
    return Failure(status=error.status, body=_document(error))


def stream_error(error: ApiError) -> bytes:
    """The last line of a stream that failed; nothing may follow it."""
    return _document(error) + b"\n"


def said(error: Any) -> str:
    """The words of an upstream's `error` member, a string or an object with a message; "" where there is none."""
    if isinstance(error, dict):
        error = error.get("message") or json.encode(error).decode()
    return str(error)[:_TEXT_CAP_CHARS] if error else ""


def upstream_error(text: str) -> ApiError:
    """An error that came inside a stream, so without a status."""
    return ApiError(Kind.UPSTREAM, text, provider=NAME)


def parse_error(status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """An upstream's HTTP error.  A body that is not Ollama's own is quoted, cut to 500 characters."""
    try:
        found = json.decode(body)
    except WireError:
        found = None
    text = said(found.get("error")) if isinstance(found, dict) else ""
    return ApiError(
        kind_of_status(status),
        text or body[:_TEXT_CAP_CHARS].decode("utf-8", "replace").strip() or f"HTTP status {status}",
        code="model_not_found" if status == 404 and text else None,
        provider=NAME,
    )


def _document(error: ApiError) -> bytes:
    """The protocol has no `param`: the text begins with the field, where it does not name it anyway."""
    text = error.message or error.kind.value
    return json.encode({"error": f"{error.param}: {text}" if error.param and error.param not in text else text})

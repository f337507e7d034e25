"""Errors both ways: a sentence and an `error_type`, as an HTTP answer and in a stream alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from rivermouth.dialects.dialect import Failure
from rivermouth.dialects.tgi.tables import KINDS, NAME, WORDINGS
from rivermouth.ir.errors import STATUS_KINDS, ApiError, Kind, WireError, kind_of_status
from rivermouth.wire import json

_TEXT_CAP_CHARS: Final = 2000
# Statuses that say which kind it is; with any other the type says more.
_TELLING: Final = frozenset(STATUS_KINDS) - {400, 422}


class _Envelope(msgspec.Struct):
    error: Any = None
    error_type: str | None = None


_envelope: Final = json.typed(_Envelope)


def encode_error(error: ApiError, call_id: str) -> Failure:
    """An error before the stream.  A status that overrides its kind's own (405, 421 ...) is kept."""
    return Failure(status=error.status_for(WORDINGS[error.kind].status), body=error_body(error))


def error_body(error: ApiError) -> bytes:
    """The protocol has no `param`: the sentence begins with the field, where it does not name it anyway."""
    text = error.message or error.kind.value
    if error.param and error.param not in text:
        text = f"{error.param}: {text}"
    return json.encode({"error": text, "error_type": WORDINGS[error.kind].type})


def parse_error(status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """An upstream's HTTP error.  Never raises, whatever the body is."""
    envelope = _read(body)
    kind = kind_of_status(status) if status in _TELLING else _kind(envelope, kind_of_status(status))
    text = _text(envelope.error) or f"the upstream answered with status {status}"
    return ApiError(kind, text, provider=NAME)


def stream_error(data: bytes) -> ApiError:
    """The error that a frame or a reply carries."""
    envelope = _read(data)
    text = _text(envelope.error) or "the upstream reported an error"
    return ApiError(_kind(envelope, Kind.UPSTREAM), text, provider=NAME)


def _read(data: bytes) -> _Envelope:
    try:
        return json.decode_as(_envelope, data)
    except WireError:
        return _Envelope()


def _kind(envelope: _Envelope, otherwise: Kind) -> Kind:
    return KINDS.get(envelope.error_type or "", otherwise)


def _text(error: Any) -> str:
    """The sentence; some servers put an object there."""
    if isinstance(error, dict):
        error = error.get("message") or json.encode(error).decode()
    return str(error)[:_TEXT_CAP_CHARS] if error else ""

"""Errors, as HTTP answers, as frames in a stream, and as an upstream says them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from rivermouth.dialects.anthropic.tables import (
    BILLING,
    CONTEXT_TOO_LONG,
    KINDS,
    PASSING,
    PROMPT_TOO_LONG,
    QUOTA,
    TRY_AGAIN,
    WORDINGS,
    Wording,
)
from rivermouth.dialects.dialect import Failure
from rivermouth.ir.errors import ApiError, Kind, WireError, kind_of_status
from rivermouth.wire import json, sse

_MESSAGE_CAP: Final = 2000


class _Detail(msgspec.Struct):
    type: str | None = None
    message: str | None = None


class _Envelope(msgspec.Struct):
    error: _Detail | str | None = None
    message: str | None = None


_envelope: Final = json.typed(_Envelope)


def encode_error(error: ApiError, call_id: str) -> Failure:
    """An error before the first byte of the answer.  `x-should-retry` says whether the SDK may try again."""
    wording = _wording(error)
    return Failure(
        status=error.status_for(wording.status),
        body=json.encode(_body(error, call_id)),
        headers={"x-should-retry": "true" if _may_pass(error) else "false"},
    )


def encode_stream_error(error: ApiError, call_id: str) -> bytes:
    """An error after the first byte: the last frame of the stream.

    There is no header to say that it may pass, so its words do, where its type does not: opencode tells by them
    whether it asks again.
    """
    body = _body(error, call_id)
    said = body["error"]
    if _may_pass(error) and said["type"] not in PASSING and TRY_AGAIN not in said["message"]:
        said["message"] += f"; {TRY_AGAIN}"
    return sse.event("error", json.encode(body))


def parse_error(status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """An upstream's HTTP error.  The body's own type says more than the status."""
    try:
        envelope = json.decode_as(_envelope, body)
    except WireError:
        envelope = _Envelope()
    return _read(envelope, kind_of_status(status), f"the upstream answered with status {status}")


def parse_stream_error(data: bytes) -> ApiError:
    """The error that an `error` frame carries; a frame that cannot be read is an upstream error all the same."""
    try:
        envelope = json.decode_as(_envelope, data)
    except WireError:
        envelope = _Envelope()
    return _read(envelope, Kind.UPSTREAM, "the upstream reported an error")


def _may_pass(error: ApiError) -> bool:
    return error.retryable and _wording(error) is not BILLING


def _wording(error: ApiError) -> Wording:
    unpaid = error.code == QUOTA or error.status == BILLING.status
    return BILLING if error.kind is Kind.RATE_LIMITED and unpaid else WORDINGS[error.kind]


def _body(error: ApiError, call_id: str) -> dict[str, Any]:
    return {
        "type": "error",
        "error": {"type": _wording(error).type, "message": _message(error)},
        "request_id": call_id,
    }


def _message(error: ApiError) -> str:
    """The protocol has no `param`: the message begins with the field.  Agents look for the words of a long prompt."""
    if error.code == CONTEXT_TOO_LONG and PROMPT_TOO_LONG not in error.message:
        return f"{PROMPT_TOO_LONG}: {error.message}"
    if error.param and error.param not in error.message:
        return f"{error.param}: {error.message}"
    return error.message


def _read(envelope: _Envelope, kind: Kind, message: str) -> ApiError:
    detail = envelope.error if isinstance(envelope.error, _Detail) else _Detail(message=envelope.error)
    code = None
    if detail.type is not None:
        kind = KINDS.get(detail.type, kind)
        code = QUOTA if detail.type == BILLING.type else None
    message = (detail.message or envelope.message or message)[:_MESSAGE_CAP]
    if kind is Kind.INVALID_REQUEST and PROMPT_TOO_LONG in message.lower():
        code = CONTEXT_TOO_LONG
    return ApiError(kind, message, code=code)

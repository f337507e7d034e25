"""Errors, as HTTP answers, as the last frame of a stream, and as an upstream says them."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any, Final

from rivermouth.dialects.dialect import Failure
from rivermouth.dialects.gemini.tables import (
    BAD_KEY,
    CONTEXT_TOO_LONG,
    FILTERED,
    KINDS,
    NAME,
    TOO_MANY_TOKENS,
    WORDINGS,
)
from rivermouth.ir.errors import STATUS_KINDS, ApiError, Kind, WireError, kind_of_status
from rivermouth.wire import json

_MESSAGE_CAP: Final = 2000
_DELAY_CAP_S: Final = 86_400.0
_TYPE: Final = "@type"
_ERROR_INFO: Final = "type.googleapis.com/google.rpc.ErrorInfo"
_BAD_REQUEST: Final = "type.googleapis.com/google.rpc.BadRequest"
_RETRY_INFO: Final = "type.googleapis.com/google.rpc.RetryInfo"


def encode_error(error: ApiError, call_id: str) -> Failure:
    """An error before the first byte of the answer.  `code` is the HTTP status."""
    return Failure(status=_code(error), body=error_body(error))


def error_body(error: ApiError) -> bytes:
    """The error object; `error` is its first member and `code` an integer, or the SDK does not see the failure."""
    said: dict[str, Any] = {
        "code": _code(error),
        "message": _message(error),
        "status": WORDINGS[error.kind].status,
    }
    details = _details(error)
    return json.encode({"error": {**said, "details": details} if details else said})


def parse_error(status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """An upstream's HTTP error.  The status word says more than the status; `headers` are the caller's to read."""
    try:
        found = json.decode(body)
    except WireError:
        found = None
    if isinstance(found, list) and found:  # how the vendor wraps the error of a stream that was asked for as an array
        found = found[0]
    told = found.get("error") if isinstance(found, dict) else None
    return _read(told, kind_of_status(status), f"the upstream answered with status {status}", status)


def parse_stream_error(told: Any) -> ApiError:
    """The error of a frame; one that cannot be read is an upstream error all the same."""
    code = told.get("code") if isinstance(told, dict) else None
    status = code if isinstance(code, int) and not isinstance(code, bool) else 0
    kind = kind_of_status(status) if 400 <= status < 600 else Kind.UPSTREAM
    return _read(told, kind, "the upstream reported an error", status)


def _code(error: ApiError) -> int:
    usual = WORDINGS[error.kind].code
    status = error.status_for(usual)
    return status if 400 <= status < 600 else usual


def _message(error: ApiError) -> str:
    """The message begins with the field, where it does not name it; agents look for the words of a long prompt."""
    if error.code == CONTEXT_TOO_LONG and TOO_MANY_TOKENS not in error.message:
        return f"The input token count {TOO_MANY_TOKENS}: {error.message}"
    if error.param and error.param not in error.message:
        return f"{error.param}: {error.message}"
    return error.message


def _details(error: ApiError) -> list[dict[str, Any]]:
    details: list[dict[str, Any]] = []
    reason = FILTERED if error.kind is Kind.CONTENT_FILTERED else error.code
    if reason:
        details.append({_TYPE: _ERROR_INFO, "reason": reason.upper(), "domain": NAME})
    if error.param:
        violation = {"field": error.param, "description": error.message}
        details.append({_TYPE: _BAD_REQUEST, "fieldViolations": [violation]})
    if error.retry_after_s is not None:
        details.append({_TYPE: _RETRY_INFO, "retryDelay": f"{error.retry_after_s:g}s"})
    return details


def _read(told: Any, kind: Kind, message: str, status: int) -> ApiError:
    """The error object, or a bare message, or neither."""
    if isinstance(told, str):
        told = {"message": told}
    if not isinstance(told, dict):
        return ApiError(kind, message, provider=NAME)
    word, said = told.get("status"), told.get("message")
    text = (said if isinstance(said, str) and said else message)[:_MESSAGE_CAP]
    listed = told.get("details")
    details = [d for d in listed if isinstance(d, dict)] if isinstance(listed, list) else []
    kind = _kind(word, kind, status, {d.get("reason") for d in details if isinstance(d.get("reason"), str)})
    code = CONTEXT_TOO_LONG if kind is Kind.INVALID_REQUEST and TOO_MANY_TOKENS in text else None
    return ApiError(kind, text, code=code, retry_after_s=_retry_delay_s(details), provider=NAME)


def _kind(word: Any, kind: Kind, status: int, reasons: set[Any]) -> Kind:
    if BAD_KEY in reasons:
        return Kind.AUTHENTICATION
    if FILTERED in reasons:
        return Kind.CONTENT_FILTERED
    named = KINDS.get(word) if isinstance(word, str) else None
    if named is None or (named is Kind.INVALID_REQUEST and status in STATUS_KINDS):  # 413 says more than its word
        return kind
    return named


def _retry_delay_s(details: list[dict[str, Any]]) -> float | None:
    """Seconds from a RetryInfo, a duration like "3.5s"; of a longer one than a day, a day."""
    for detail in details:
        delay = detail.get("retryDelay")
        if isinstance(delay, str) and delay.endswith("s"):
            try:
                seconds = float(delay[:-1])
            except ValueError:
                continue
            if isfinite(seconds) and seconds >= 0:
                return min(seconds, _DELAY_CAP_S)
    return None

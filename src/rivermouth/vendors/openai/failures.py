"""Errors, both ways.  A kind becomes a type and a code; an upstream's words become a kind, whatever their shape.

A message of an upstream is passed on, but never a key that stands in it and never a page of HTML.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from rivermouth.ir.errors import ApiError, Kind, WireError, kind_of_status
from rivermouth.ir.names import CONTROLS
from rivermouth.wire import json


class Words(NamedTuple):
    """A kind in this dialect: `error.type`, and `error.code` where the error brings none of its own."""

    type: str
    code: str | None


WORDS: Final[dict[Kind, Words]] = {
    Kind.INVALID_REQUEST: Words("invalid_request_error", None),
    Kind.AUTHENTICATION: Words("invalid_request_error", "invalid_api_key"),
    Kind.PERMISSION: Words("permission_error", "model_not_allowed"),
    Kind.NOT_FOUND: Words("invalid_request_error", "model_not_found"),
    Kind.TOO_LARGE: Words("invalid_request_error", "request_too_large"),
    Kind.RATE_LIMITED: Words("rate_limit_error", "rate_limit_exceeded"),
    Kind.OVERLOADED: Words("server_error", "server_is_overloaded"),
    Kind.TIMEOUT: Words("server_error", "timeout"),
    Kind.NETWORK: Words("server_error", "upstream_unreachable"),
    Kind.UPSTREAM: Words("server_error", "upstream_error"),
    Kind.TRUNCATED: Words("server_error", "upstream_truncated"),
    Kind.CONTENT_FILTERED: Words("invalid_request_error", "content_filter"),
    Kind.CANCELLED: Words("server_error", "cancelled"),
    Kind.INTERNAL: Words("server_error", "internal_error"),
}

QUOTA: Final = "insufficient_quota"
CONTEXT: Final = "context_length_exceeded"
UNPAID: Final = 402
"""A budget is spent: no other try helps."""

# Codes that say more than the HTTP status they come with.
CODE_KINDS: Final[dict[str, Kind]] = {
    QUOTA: Kind.RATE_LIMITED,
    CONTEXT: Kind.INVALID_REQUEST,
    "rate_limit_exceeded": Kind.RATE_LIMITED,
    "invalid_api_key": Kind.AUTHENTICATION,
    "model_not_found": Kind.NOT_FOUND,
    "server_is_overloaded": Kind.OVERLOADED,
    "server_overloaded": Kind.OVERLOADED,
    "content_filter": Kind.CONTENT_FILTERED,
    "content_policy_violation": Kind.CONTENT_FILTERED,
    "upstream_truncated": Kind.TRUNCATED,
    "upstream_unreachable": Kind.NETWORK,
    "timeout": Kind.TIMEOUT,
}

TYPE_KINDS: Final[dict[str, Kind]] = {
    QUOTA: Kind.RATE_LIMITED,
    "invalid_request_error": Kind.INVALID_REQUEST,
    "exceed_context_size_error": Kind.INVALID_REQUEST,
    "authentication_error": Kind.AUTHENTICATION,
    "permission_error": Kind.PERMISSION,
    "not_found_error": Kind.NOT_FOUND,
    "rate_limit_error": Kind.RATE_LIMITED,
    "requests": Kind.RATE_LIMITED,
    "tokens": Kind.RATE_LIMITED,
    "overloaded_error": Kind.OVERLOADED,
    "timeout_error": Kind.TIMEOUT,
}

MESSAGE_CHARS: Final = 2000
# Whatever begins like this vendor's keys is one.  Others have a digit, or the stars of one who masked it badly:
# words like "bearer authentication" have neither.
_SECRET: Final = re.compile(
    r"(?i)\b(sk-)[\w*.\-]{4,}"
    r"|(?:(bearer\s+)|\b((?:pk|rk|gsk|hf|xai|nvapi)[-_]|AIza)"
    r"|(api[ _-]?key[\"']?(?:\s+provided)?\s*[:=]\s*[\"']?))(?=[^\s\"',;]*[\d*])[^\s\"',;]{6,}"
)
_TOO_LONG: Final = re.compile(
    r"(?i)maximum context length|context (?:window|size|length)|exceed_context_size|prompt is too long"
)
_STATUS: Final = re.compile(r"[45][0-9]{2}")
_CONTROL: Final = re.compile(f"[{CONTROLS}]+")


def error_body(error: ApiError) -> bytes:
    """The envelope, with all four members, in one line of JSON."""
    words = WORDS[error.kind]
    code = error.code if error.code is not None else words.code
    param = "model" if error.param is None and code == "model_not_found" else error.param
    kind = QUOTA if code == QUOTA else words.type
    return json.encode({"error": {"message": error.message, "type": kind, "param": param, "code": code}})


def retry_header(error: ApiError) -> dict[str, str]:
    """`x-should-retry` tells the SDKs what the status alone cannot."""
    retry = error.retryable and error.code != QUOTA and error.status != UNPAID
    return {"x-should-retry": "true" if retry else "false"}


def parse_error(status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """An upstream's HTTP error.  Never raises, whatever the body is."""
    try:
        value = json.decode(body)
    except WireError:
        value = None
    inner = value.get("error") or _bare(value) if isinstance(value, dict) else None
    return read_error(inner, status)


def error_value(data: bytes) -> Any:
    """What an error frame says: under `error`, or bare."""
    try:
        value = json.decode(data)
    except WireError:
        return data.decode("utf-8", "replace")
    return value.get("error") or value if isinstance(value, dict) else value


def read_error(value: Any, status: int | None = None) -> ApiError:
    """What stood under `error`, with the HTTP status if there was one.  A known code wins over it, a type does not."""
    members: dict[str, Any] = value if isinstance(value, dict) else {"message": value}
    word = members.get("code")
    kind_word = members.get("type")
    code = word if isinstance(word, str) and not _STATUS.fullmatch(word) else None
    if code is None and kind_word == QUOTA:
        code = QUOTA
    message = members.get("message")
    text = mask(message) if isinstance(message, str) and message.strip() else ""
    kind = _kind(code, word, kind_word, status)
    if kind is Kind.INVALID_REQUEST and code is None and (_TOO_LONG.search(text) or _TOO_LONG.search(str(kind_word))):
        code = CONTEXT
    param = members.get("param")
    where = f" with HTTP status {status}" if status is not None else ""
    return ApiError(
        kind,
        text or f"the upstream failed{where}",
        param=param if isinstance(param, str) else None,
        code=code,
    )


def mask(text: str) -> str:
    """The text on one line, of bounded length, with everything that looks like a key left out (F36)."""
    short = _CONTROL.sub(" ", text[:MESSAGE_CHARS]).strip()
    return _SECRET.sub(lambda found: f"{found[found.lastindex or 0]}***", short)


def _kind(code: str | None, word: Any, kind_word: Any, status: int | None) -> Kind:
    if code in CODE_KINDS:
        return CODE_KINDS[code]
    if status is not None:
        return kind_of_status(status)
    if _STATUS.fullmatch(str(word)):
        return kind_of_status(int(word))
    return TYPE_KINDS.get(kind_word, Kind.UPSTREAM) if isinstance(kind_word, str) else Kind.UPSTREAM


def _bare(value: dict[str, Any]) -> Any:
    """Bodies without `error`: the members at the top, or a web framework's `detail` (a text, or a list of faults)."""
    detail = value.get("detail")
    if isinstance(detail, list):
        faults = [d for d in detail if isinstance(d, dict)]
        place = [str(p) for p in faults[0].get("loc") or [] if p != "body"] if faults else []
        words = "; ".join(str(d.get("msg", "")) for d in faults)
        return {"message": words, "param": ".".join(place) or None}
    return value if detail is None else detail

"""Errors: `{"message": ...}` under a status that the SDKs turn into a class."""

from __future__ import annotations

import re
from typing import Any, Final

from rivermouth.ir.errors import ApiError, Kind, WireError, kind_of_status
from rivermouth.wire import json

# Statuses that mean something of their own here.
_KINDS: Final[dict[int, Kind]] = {498: Kind.AUTHENTICATION, 501: Kind.INVALID_REQUEST}

MESSAGE_CHARS: Final = 2000
_WORDED: Final = ("message", "error", "detail")
CONTEXT_TOO_LONG: Final = "context_length_exceeded"
_TOO_LONG: Final = re.compile(r"(?i)too many tokens|context (?:length|window|size)|maximum number of tokens")


def sentence(error: ApiError) -> str:
    """What is said of the error.  The protocol has no `param`: the text begins with the field it does not name."""
    text = error.message or error.kind.value
    return f"{error.param}: {text}" if error.param and error.param not in text else text


def error_document(error: ApiError, call_id: str) -> bytes:
    """The body of an error answer."""
    return json.encode({"id": call_id, "message": sentence(error)})


def words(value: Any) -> str:
    """The words of an error, a string or an object that has them under some name; "" where there are none."""
    for _ in range(2):  # {"error": {"message": ...}} is as deep as servers go
        if isinstance(value, dict):
            value = next((value[name] for name in _WORDED if value.get(name)), None)
    if not value:
        return ""
    text = value if isinstance(value, str) else json.encode(value).decode()
    return text[:MESSAGE_CHARS].strip()


def upstream_error(who: str, text: str, kind: Kind = Kind.UPSTREAM) -> ApiError:
    """An error that came without a status: inside a stream, or in a document that should have been an answer."""
    return ApiError(kind, text or "the upstream reported an error", provider=who)


def read_error(who: str, status: int, body: bytes) -> ApiError:
    """An upstream's HTTP error, whatever its body is."""
    try:
        text = words(json.decode(body))
    except WireError:
        text = body[:MESSAGE_CHARS].decode("utf-8", "replace").strip()
    kind = _KINDS.get(status) or kind_of_status(status)
    code = None
    if kind is Kind.NOT_FOUND and "model" in text:
        code = "model_not_found"
    elif kind is Kind.INVALID_REQUEST and _TOO_LONG.search(text):
        code = CONTEXT_TOO_LONG
    return ApiError(kind, text or f"the upstream answered with HTTP status {status}", code=code, provider=who)

"""Why an answer failed, in the five words that a chat's client knows, and in sentences for the person who reads it."""

from __future__ import annotations

from typing import Final

from rivermouth.ir.errors import ApiError, Kind

TIMEOUT: Final = "timeout"
NETWORK: Final = "network"
HTTP: Final = "http"
UNAVAILABLE: Final = "unavailable"
NOT_CONFIGURED: Final = "not_configured"

TYPES: Final[dict[Kind, str]] = {
    Kind.INVALID_REQUEST: HTTP,
    Kind.AUTHENTICATION: HTTP,
    Kind.PERMISSION: HTTP,
    Kind.NOT_FOUND: HTTP,
    Kind.TOO_LARGE: HTTP,
    Kind.RATE_LIMITED: HTTP,
    Kind.OVERLOADED: UNAVAILABLE,
    Kind.TIMEOUT: TIMEOUT,
    Kind.NETWORK: NETWORK,
    Kind.UPSTREAM: HTTP,
    Kind.TRUNCATED: NETWORK,
    Kind.CONTENT_FILTERED: HTTP,
    Kind.CANCELLED: UNAVAILABLE,
    Kind.INTERNAL: UNAVAILABLE,
}

SIGN: Final = "⚠️ "
BEFORE_WARNING: Final = "\n\n"

WARNINGS: Final[dict[str, str]] = {
    NETWORK: "Connection interrupted: the answer is not complete.",
    TIMEOUT: "Stalled: the answer stopped coming and is not complete.",
    HTTP: "The provider failed: the answer is not complete.",
    UNAVAILABLE: "The service became unavailable: the answer is not complete.",
    NOT_CONFIGURED: "No provider is configured.",
}
TOTAL_WARNING: Final = "Timed out: the answer took too long and is not complete."
LENGTH_WARNING: Final = "The answer became too long and was cut here."


def type_of(error: ApiError) -> str:
    """One of the five words."""
    return NOT_CONFIGURED if error.code == NOT_CONFIGURED else TYPES[error.kind]


def told(error: ApiError) -> dict[str, str]:
    """The `error` member of the frame."""
    return {"type": type_of(error), "message": error.message}


def warning(error: ApiError) -> str:
    """The words at the end of what was said, without the blank line before them."""
    if error.clock == "total":
        return SIGN + TOTAL_WARNING
    if error.code == TOO_LONG_CODE:
        return SIGN + LENGTH_WARNING
    return SIGN + WARNINGS[type_of(error)]


TOO_LONG_CODE: Final = "answer_too_long"


def too_long(limit_chars: int) -> ApiError:
    return ApiError(Kind.UPSTREAM, f"the answer is longer than {limit_chars} characters", code="answer_too_long")


def unconfigured(name: str | None) -> ApiError:
    who = f"{name} is not configured" if name is not None else "no provider is configured, and no local model is here"
    return ApiError(Kind.INVALID_REQUEST, who, code="not_configured", param="model")


UNAVAILABLE_ERROR: Final = {"type": UNAVAILABLE, "message": "the server stopped before the answer was complete"}
DEADLINE_ERROR: Final = {"type": TIMEOUT, "message": "the answer did not end in time"}

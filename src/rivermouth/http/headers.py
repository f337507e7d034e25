"""The headers of our answers.  They are made here; nothing of an upstream's travels on (F6)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from rivermouth.local.machine.router import HEADERS as DEVICE_HEADERS

Header = tuple[bytes, bytes]

STREAM: Final[tuple[Header, ...]] = (
    (b"cache-control", b"no-cache, no-transform"),
    (b"connection", b"keep-alive"),
    (b"x-accel-buffering", b"no"),
)
POLICY: Final = b"x-rivermouth-policy"
"""By which a request says what is to hold for it beside everything else."""
JSON: Final[Header] = (b"content-type", b"application/json")
TEXT: Final[Header] = (b"content-type", b"text/plain; charset=utf-8")
ID_NAMES: Final = (b"x-request-id", b"request-id", b"x-amzn-requestid")
LIMITS: Final = ("limit", "remaining", "reset")
EXPOSED: Final = b", ".join(
    (
        b"x-request-id",
        b"request-id",
        b"x-client-request-id",
        b"x-rivermouth-ignored",
        b"x-rivermouth-resume",
        b"x-rivermouth-resume-length",
        b"x-rivermouth-resume-complete",
        b"retry-after",
        *(f"x-ratelimit-{what}-{of}".encode() for of in ("requests", "tokens") for what in LIMITS),
        *(f"anthropic-ratelimit-{of}-{what}".encode() for of in ("requests", "tokens") for what in LIMITS),
        *(name.encode() for name in DEVICE_HEADERS),
    )
)
NO_TRACE: Final[Mapping[str, str]] = MappingProxyType({})
_CLIENT_ID: Final = re.compile(r"[\x21-\x7e]{1,128}")


def get(headers: list[Header], name: bytes) -> str | None:
    """The first header of that (lower-case) name."""
    for key, value in headers:
        if key == name:
            return value.decode("latin-1")
    return None


def client_request_id(headers: list[Header]) -> str | None:
    """The client's own X-Request-ID, if it is short and printable; anything else is dropped, not repaired."""
    value = get(headers, b"x-request-id")
    return value if value is not None and _CLIENT_ID.fullmatch(value) else None


def trace_context(headers: list[Header]) -> Mapping[str, str]:
    """The client's W3C trace context, unread: `traceparent`, if there is one alone, and with it `tracestate`."""
    parents = [value for name, value in headers if name == b"traceparent"]
    if len(parents) != 1:
        return NO_TRACE
    named = {"traceparent": parents[0].decode("latin-1")}
    states = [value for name, value in headers if name == b"tracestate"]
    return {**named, "tracestate": b",".join(states).decode("latin-1")} if states else named


def identity(call_id: str, client_id: str | None) -> list[Header]:
    """The call's id under each name that an SDK looks for, and the client's own."""
    value = call_id.encode()
    ids = [(name, value) for name in ID_NAMES]
    return [*ids, (b"x-client-request-id", client_id.encode())] if client_id is not None else ids


def retry_after(seconds: float) -> Header:
    """Whole seconds, rounded up: an HTTP header knows no fractions."""
    return (b"retry-after", str(max(int(-(-seconds // 1)), 0)).encode())

"""Errors outside every dialect: paths that are nobody's, hosts and origins that may not ask."""

from __future__ import annotations

from typing import Final

from rivermouth.wire import json

CODES: Final = {
    401: "invalid_api_key",
    403: "origin_not_allowed",
    404: "unknown_url",
    405: "method_not_allowed",
    421: "host_not_allowed",
}


def envelope(status: int, message: str, code: str | None = None) -> bytes:
    """An error outside every dialect, in the shape that most SDKs can read.  code: without it that of the status."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    return json.encode({"error": {"message": message, "type": kind, "param": None, "code": code or CODES.get(status)}})

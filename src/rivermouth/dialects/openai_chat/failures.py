"""Errors as this dialect answers with them; what they say is the vendor's own."""

from __future__ import annotations

from rivermouth.dialects.dialect import Failure
from rivermouth.ir.errors import ApiError
from rivermouth.vendors.openai.failures import error_body, retry_header
from rivermouth.wire import sse


def encode_error(error: ApiError, call_id: str) -> Failure:
    """An error before the stream has begun."""
    return Failure(status=error.status, body=error_body(error), headers=retry_header(error))


def encode_stream_error(error: ApiError) -> bytes:
    """An error after it: one frame, and nothing follows it (R6)."""
    return sse.data(error_body(error))

"""Errors as this dialect answers with them before a stream; in a stream the response itself fails (`response`)."""

from __future__ import annotations

from rivermouth.dialects.dialect import Failure
from rivermouth.ir.errors import ApiError
from rivermouth.vendors.openai.failures import error_body, retry_header


def encode_error(error: ApiError, call_id: str) -> Failure:
    """An error before the stream has begun."""
    return Failure(status=error.status, body=error_body(error), headers=retry_header(error))

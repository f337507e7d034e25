"""Errors of this dialect: those of the service, and in the plain framing an object with one member of the union."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rivermouth.dialects.bedrock_invoke.tables import NAME
from rivermouth.dialects.dialect import Failure
from rivermouth.ir.errors import ApiError
from rivermouth.vendors.bedrock.failures import (
    error_body,
    known,
    member_error,
    message_error,
    read_error,
    status_of,
    type_of,
)
from rivermouth.wire import json
from rivermouth.wire.frame import Frame

_SUFFIX: Final = b'Exception":'
_PEEK_BYTES: Final = 48  # a plain frame that is a failure begins with its member's name


def encode_error(error: ApiError, call_id: str) -> Failure:
    """An error before the stream."""
    return Failure(status=status_of(error), body=error_body(error), headers={"x-amzn-errortype": type_of(error)})


def parse_error(status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """An upstream's HTTP error.  Never raises, whatever the body is."""
    return read_error(NAME, status, headers, body)


def frame_error(frame: Frame) -> ApiError | None:
    """The failure that a frame is, in either framing; None for a frame that is none (F11)."""
    if frame.name:
        return message_error(NAME, frame)
    if _SUFFIX in frame.data[:_PEEK_BYTES]:
        fields = json.fields(frame.data)
        for member, value in fields.items():
            if known(member) is not None:
                return member_error(NAME, member, bytes(value))
    return None

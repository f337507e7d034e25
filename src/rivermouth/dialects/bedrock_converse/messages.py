"""The messages of a stream, as bytes: each event under its own name, failures as exceptions (F9)."""

from __future__ import annotations

from typing import Any, Final
from zlib import crc32

from rivermouth.dialects.bedrock_converse.tables import MEMBERS
from rivermouth.ir.errors import ApiError
from rivermouth.vendors.bedrock.failures import error_body
from rivermouth.wire import aws_eventstream as binary
from rivermouth.wire import json

BLOCK_DELTA: Final = "contentBlockDelta"
BLOCK_START: Final = "contentBlockStart"
BLOCK_STOP: Final = "contentBlockStop"
MESSAGE_START: Final = "messageStart"
MESSAGE_STOP: Final = "messageStop"
METADATA: Final = "metadata"

_NAMES: Final = (BLOCK_DELTA, BLOCK_START, BLOCK_STOP, MESSAGE_START, MESSAGE_STOP, METADATA)
_HEADERS: Final = {name: binary.event_headers(name) for name in _NAMES}
_EXCEPTIONS: Final = {kind: binary.exception_headers(member) for kind, member in MEMBERS.items()}
_head_of_delta: Final = binary.heads_of(_HEADERS[BLOCK_DELTA])
_crc_bytes: Final = binary.crc_bytes


def message(name: str, value: Any) -> bytes:
    """One event."""
    return passed(name, json.encode(value))


def passed(name: str, payload: bytes) -> bytes:
    """One event whose payload is JSON already."""
    headers = _HEADERS.get(name)
    return binary.message(binary.event_headers(name) if headers is None else headers, payload)


def block_delta(payload: bytes) -> bytes:
    """`passed` for the event that most are, without a call for each step: this is the hot path."""
    head, crc = _head_of_delta(len(payload))
    return head + payload + _crc_bytes(crc32(payload, crc))


def block_stop(index: int) -> bytes:
    return passed(BLOCK_STOP, b'{"contentBlockIndex":%d}' % index)


def failure(error: ApiError) -> bytes:
    """What ends a stream badly."""
    return binary.message(_EXCEPTIONS[error.kind], error_body(error))

"""The two framings of a stream, and which of them a request wants (R8).

    binary   AWS event stream: {"bytes":"<base64 of the model's object>"} in an event `chunk`; failures are exceptions
    plain    server-sent events: `data:{the model's object}` without a space; a failure is {"<member>":{"message"}}

Nothing in a request of the vendor's own client asks for the one or the other, so it is known by its other marks.  The
reader takes both, by the first byte: a length that fits the cap begins with 0 or 1, which no text does.
"""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Mapping
from typing import Final, Protocol
from zlib import crc32

import msgspec

from rivermouth.dialects.dialect import Route, Surface
from rivermouth.ir.errors import ApiError
from rivermouth.vendors.bedrock.failures import error_body
from rivermouth.vendors.bedrock.words import WORDINGS
from rivermouth.wire import aws_eventstream as binary
from rivermouth.wire import json
from rivermouth.wire.frame import FRAME_CAP_BYTES, Frame, Reader, frame_of
from rivermouth.wire.sse import SseReader

BINARY: Final = "binary"
PLAIN_TYPE: Final = "text/event-stream"
BINARY_TYPE: Final = binary.MEDIA_TYPE

_MARKS: Final = (
    "x-amz-date",
    "x-amz-security-token",
    "x-amz-content-sha256",
    "amz-sdk-invocation-id",
    "amz-sdk-request",
    "x-stainless-lang",
)
_MARKED_PREFIX: Final = "x-amzn-bedrock-"
_AGENTS: Final = ("boto3/", "aws-sdk-", "aws-cli/", "anthropicbedrock/", "asyncanthropicbedrock/")
_SIGNED: Final = "aws4-hmac-sha256"
_BETWEEN: Final = b"\n\ndata:"
_head_of_chunk: Final = binary.heads_of(binary.event_headers("chunk"))
_crc_bytes: Final = binary.crc_bytes
_EXCEPTIONS: Final = {kind: binary.exception_headers(wording.member) for kind, wording in WORDINGS.items()}


def variant(surface: Surface, route: Route, query: Mapping[str, str], headers: Mapping[str, str]) -> Surface:
    """The surface in the framing that this client reads: what it accepts in so many words, else what it is."""
    accept = headers.get("accept", "").lower()
    if PLAIN_TYPE in accept:
        wants_binary = False
    elif BINARY_TYPE in accept or _is_aws(query, headers):
        wants_binary = True
    else:
        return surface
    options = surface.options | {BINARY} if wants_binary else surface.options - {BINARY}
    stream_type = BINARY_TYPE if wants_binary else PLAIN_TYPE
    return msgspec.structs.replace(surface, options=options, stream_type=stream_type)


def _is_aws(query: Mapping[str, str], headers: Mapping[str, str]) -> bool:
    """True for a client of AWS.  `x-amzn-trace-id` is no mark: others send it too."""
    return (
        headers.get("authorization", "").lower().startswith(_SIGNED)
        or "X-Amz-Signature" in query
        or headers.get("user-agent", "").lower().startswith(_AGENTS)
        or any(name in headers for name in _MARKS)
        or any(name.startswith(_MARKED_PREFIX) for name in headers)
    )


class Framing(Protocol):
    """Objects of the model's stream, and what ends it badly, as bytes."""

    def frames(self, payloads: list[bytes]) -> bytes: ...

    def fail(self, error: ApiError) -> bytes: ...


class Plain:
    """Server-sent events."""

    def frames(self, payloads: list[bytes]) -> bytes:
        return b"data:" + _BETWEEN.join(payloads) + b"\n\n" if payloads else b""

    def fail(self, error: ApiError) -> bytes:
        member = WORDINGS[error.kind].member.encode()
        return self.frames([b'{"' + member + b'":' + error_body(error) + b"}"])


class Binary:
    """AWS event stream; errors get their checksums as everything else does (F9)."""

    def frames(self, payloads: list[bytes]) -> bytes:
        out: list[bytes] = []
        for payload in payloads:  # `binary.message` without a call for each: this is the hot path
            chunk = b'{"bytes":"' + b2a_base64(payload, newline=False) + b'"}'
            head, crc = _head_of_chunk(len(chunk))
            out.append(head + chunk + _crc_bytes(crc32(chunk, crc)))
        return out[0] if len(out) == 1 else b"".join(out)

    def fail(self, error: ApiError) -> bytes:
        return binary.message(_EXCEPTIONS[error.kind], error_body(error))


def framing(surface: Surface) -> Framing:
    """The framing of a surface as `variant` left it."""
    return Binary() if BINARY in surface.options else Plain()


class _Chunk(msgspec.Struct, gc=False):
    payload: bytes = msgspec.field(name="bytes", default=b"")


_chunk: Final = json.typed(_Chunk)


class FrameReader:
    """Bytes of either framing to the model's objects; the name of a frame is "" or tells a failure."""

    __slots__ = ("_binary", "_cap", "_inner")

    def __init__(self, cap_bytes: int = FRAME_CAP_BYTES) -> None:
        self._cap = cap_bytes
        self._inner: Reader | None = None
        self._binary = False

    def feed(self, data: bytes) -> list[Frame]:
        inner = self._inner
        if inner is None:
            if not data:
                return []
            self._binary = data[0] <= 1
            make = binary.EventStreamReader if self._binary else SseReader
            inner = self._inner = make(self._cap)
        frames = inner.feed(data)
        return _opened(frames) if self._binary else frames

    def statistics(self) -> dict[str, int]:
        return {"buffered_bytes": 0, "cap_bytes": self._cap} if self._inner is None else self._inner.statistics()


def _opened(frames: list[Frame]) -> list[Frame]:
    """The objects inside the chunks.  Events of other names are passed over, as the vendor's clients do."""
    opened: list[Frame] = []
    for frame in frames:
        name, data = frame
        if name == "chunk":
            opened.append(frame_of(("", json.decode_as(_chunk, data).payload)))
        elif name.startswith((binary.EXCEPTION, binary.ERROR)):
            opened.append(frame)
    return opened

"""AWS event streams: binary messages, each with two checksums.

    u32 total | u32 headers | u32 crc of these 8 bytes | headers | payload | u32 crc of all before      big endian
    header := u8 length, name, u8 type, value             a string is type 7: u16 length, UTF-8

A frame's name is the message's `:event-type`.  The two that end a stream badly, which protocols know as exceptions and
errors, are named `exception:<:exception-type>` and `error:<:error-code>`.

* Every message is made here, so no error ever travels under the checksum of what it replaced (F9).
* Lengths are believed only after the prelude's checksum, and a message only after its own.
* A message that the end of the stream cut off is no frame.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from struct import Struct
from typing import Final
from zlib import crc32

from rivermouth.ir.errors import WireError
from rivermouth.wire import json
from rivermouth.wire.frame import FRAME_CAP_BYTES, Frame, frame_of

MEDIA_TYPE: Final = "application/vnd.amazon.eventstream"
EXCEPTION: Final = "exception:"
ERROR: Final = "error:"
HEADERS_CAP_BYTES: Final = 128 * 1024

_PRELUDE: Final = Struct(">III")
_LENGTHS: Final = Struct(">II")
_CRC: Final = Struct(">I")
crc_bytes: Final = _CRC.pack
_CRC_BYTES: Final = 4
_PRELUDE_BYTES: Final = _PRELUDE.size
_AROUND_BYTES: Final = _PRELUDE_BYTES + _CRC_BYTES
_crc_at: Final = _CRC.unpack_from
_STRING: Final = 7
_SIZED: Final = frozenset({6, _STRING})  # bytes and text say their own length
# Header type -> bytes of its value: true, false, byte, short, int, long, timestamp, uuid.
_FIXED_BYTES: Final[dict[int, int]] = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}


def headers(named: Mapping[str, str]) -> bytes:
    """A block of string headers, ready for `message`."""
    block = b"".join(
        bytes((len(name),)) + name + bytes((_STRING,)) + len(value).to_bytes(2, "big") + value
        for name, value in ((n.encode(), v.encode()) for n, v in named.items())
    )
    if len(block) > HEADERS_CAP_BYTES:
        raise ValueError(f"headers of more than {HEADERS_CAP_BYTES} bytes")
    return block


def event_headers(event_type: str) -> bytes:
    """The headers of an event whose payload is JSON."""
    return headers({":event-type": event_type, ":content-type": "application/json", ":message-type": "event"})


def exception_headers(exception_type: str) -> bytes:
    """The headers of a modelled failure whose payload is JSON."""
    return headers(
        {":exception-type": exception_type, ":content-type": "application/json", ":message-type": "exception"}
    )


def message(block: bytes, payload: bytes) -> bytes:
    """One message.  `block` comes from `headers`."""
    head, crc = heads_of(block)(len(payload))
    return head + payload + crc_bytes(crc32(payload, crc))


@lru_cache(maxsize=64)
def heads_of(block: bytes) -> Callable[[int], tuple[bytes, int]]:
    """Under these headers: the length of a payload to all that stands before it, and the checksum so far."""

    @lru_cache(maxsize=1024)
    def head_of(payload_bytes: int) -> tuple[bytes, int]:
        lengths = _LENGTHS.pack(_AROUND_BYTES + len(block) + payload_bytes, len(block))
        head = lengths + crc_bytes(crc32(lengths)) + block
        return head, crc32(head)

    return head_of


@lru_cache(maxsize=4096)
def _lengths(prelude: bytes) -> tuple[int, int]:
    """The lengths of a message and of its headers, believed.  Raises `WireError`.

    Remembered, since the messages of a stream are of few lengths.
    """
    total, size, crc = _PRELUDE.unpack(prelude)
    if crc32(prelude[: _LENGTHS.size]) != crc:
        raise WireError("an event stream's prelude does not match its checksum")
    if size > HEADERS_CAP_BYTES or size + _AROUND_BYTES > total:
        raise WireError("an event stream's message has headers of an impossible length")
    return total, size


class EventStreamReader:
    """Bytes to frames.  Linear in the input, whatever the cuts; at most `cap_bytes` are held."""

    __slots__ = ("_block", "_buffer", "_cap", "_name", "_need")

    def __init__(self, cap_bytes: int = FRAME_CAP_BYTES) -> None:
        self._buffer = bytearray()
        self._need = _PRELUDE_BYTES  # bytes without which there is nothing to look at
        self._cap = cap_bytes
        self._block: bytes | None = None  # the headers of the last event and its name: most streams repeat them
        self._name = ""

    def feed(self, data: bytes) -> list[Frame]:
        buffer = self._buffer
        if buffer:
            buffer += data
            if len(buffer) < self._need:
                return []
            data = bytes(buffer)
            buffer.clear()
        frames: list[Frame] = []
        add, known, cap = frames.append, self._block, self._cap
        at, end = 0, len(data)
        self._need = _PRELUDE_BYTES
        try:
            while end - at >= _PRELUDE_BYTES:
                border = at + _PRELUDE_BYTES
                total, size = _lengths(data[at:border])
                if total > cap:
                    raise WireError(f"an event stream's message is larger than {cap} bytes")
                last = at + total - _CRC_BYTES
                if last + _CRC_BYTES > end:
                    self._need = total
                    break
                if (crc32(data[at:last]),) != _crc_at(data, last):
                    raise WireError("an event stream's message does not match its checksum")
                start = border + size
                block = data[border:start]
                if block == known:
                    add(frame_of((self._name, data[start:last])))
                else:
                    add(self._read(block, data[start:last]))
                    known = self._block
                at = last + _CRC_BYTES
        except WireError as error:
            error.frames = frames
            raise
        buffer += data[at:]
        return frames

    def statistics(self) -> dict[str, int]:
        return {"buffered_bytes": len(self._buffer), "cap_bytes": self._cap}

    def _read(self, block: bytes, payload: bytes) -> Frame:
        """A message whose headers are not those of the one before."""
        named = read_headers(block)
        kind = named.get(":message-type", "event")
        if kind == "exception":
            return Frame(EXCEPTION + named.get(":exception-type", ""), payload)
        if kind == "error":
            return Frame(ERROR + named.get(":error-code", ""), _error_payload(named, payload))
        name = named.get(":event-type", "")
        self._block, self._name = block, name
        return Frame(name, payload)


def read_headers(block: bytes) -> dict[str, str]:
    """The string headers of a block; those of another type are passed over.  Raises `WireError`."""
    named: dict[str, str] = {}
    seen: set[str] = set()
    at = 0
    try:
        while at < len(block):
            name, at = _text(block, at + 1, block[at])
            kind = block[at]
            at += 1
            size = _FIXED_BYTES.get(kind)
            if kind in _SIZED:
                size = int.from_bytes(_bytes(block, at, 2), "big")
                at += 2
            elif size is None:
                raise WireError(f"an event stream's header is of the unknown type {kind}")
            if name in seen:
                raise WireError("an event stream's header is there twice")
            seen.add(name)
            if kind == _STRING:
                named[name], at = _text(block, at, size)
            else:
                at += len(_bytes(block, at, size))
    except IndexError:
        raise WireError("an event stream's headers are cut") from None
    return named


def _bytes(block: bytes, at: int, size: int) -> bytes:
    if at + size > len(block):
        raise IndexError
    return block[at : at + size]


def _text(block: bytes, at: int, size: int) -> tuple[str, int]:
    try:
        return _bytes(block, at, size).decode(), at + size
    except UnicodeDecodeError:
        raise WireError("an event stream's header is not UTF-8") from None


def _error_payload(named: Mapping[str, str], payload: bytes) -> bytes:
    """An unmodelled error says its message in a header; the frame has it where exceptions have theirs."""
    said = named.get(":error-message")
    return payload if said is None else json.encode({"message": said})

"""One JSON object on each line.  Lines end in LF (a CR before it is dropped); blank lines are skipped."""

from __future__ import annotations

from typing import Final

from rivermouth.ir.errors import WireError
from rivermouth.wire.frame import FRAME_CAP_BYTES, Frame, nameless

_TOO_LARGE: Final = "a stream line is larger than %d bytes"


def line(payload: bytes) -> bytes:
    """One frame.  `payload` is a single line of JSON."""
    return payload + b"\n"


class NdjsonReader:
    """Bytes to frames.  A last line without its LF is no frame: it may have been cut."""

    __slots__ = ("_buffer", "_cap", "_scanned")

    def __init__(self, cap_bytes: int = FRAME_CAP_BYTES) -> None:
        self._buffer = bytearray()
        self._scanned = 0
        self._cap = cap_bytes

    def feed(self, data: bytes) -> list[Frame]:
        buffer = self._buffer
        if not buffer and data.endswith(b"\n"):
            return _frames(data, self._cap)
        buffer += data
        end = buffer.rfind(b"\n", self._scanned)
        if end < 0:
            self._scanned = len(buffer)
            self._check_rest()
            return []
        whole = bytes(buffer[:end])
        del buffer[: end + 1]
        self._scanned = len(buffer)
        self._check_rest()
        return _frames(whole, self._cap)

    def statistics(self) -> dict[str, int]:
        return {"buffered_bytes": len(self._buffer), "cap_bytes": self._cap}

    def _check_rest(self) -> None:
        if len(self._buffer) > self._cap:
            raise WireError(_TOO_LARGE % self._cap)


def _frames(data: bytes, cap_bytes: int) -> list[Frame]:
    lines = data.split(b"\n")
    if len(data) > cap_bytes and any(len(each) > cap_bytes for each in lines):
        raise WireError(_TOO_LARGE % cap_bytes)
    return nameless([*filter(None, map(bytes.strip, lines))])

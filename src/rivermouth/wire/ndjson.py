"""One JSON object on each line.  Lines end in LF (a CR before it is dropped); blank lines are skipped."""

from __future__ import annotations

from rivermouth.ir.errors import WireError
from rivermouth.wire.frame import FRAME_CAP_BYTES, Frame, nameless


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
            self._check_rest([])
            return []
        whole = bytes(buffer[:end])
        del buffer[: end + 1]
        self._scanned = len(buffer)
        frames = _frames(whole, self._cap)
        self._check_rest(frames)
        return frames

    def statistics(self) -> dict[str, int]:
        return {"buffered_bytes": len(self._buffer), "cap_bytes": self._cap}

    def _check_rest(self, before: list[Frame]) -> None:
        if len(self._buffer) > self._cap:
            raise _too_large(self._cap, before)


def _frames(data: bytes, cap_bytes: int) -> list[Frame]:
    lines = data.split(b"\n")
    if len(data) > cap_bytes:
        for number, each in enumerate(lines):
            if len(each) > cap_bytes:
                raise _too_large(cap_bytes, _nameless(lines[:number]))
    return _nameless(lines)


def _nameless(lines: list[bytes]) -> list[Frame]:
    return nameless([*filter(None, map(bytes.strip, lines))])


def _too_large(cap_bytes: int, before: list[Frame]) -> WireError:
    error = WireError(f"a stream line is larger than {cap_bytes} bytes")
    error.frames = before
    return error

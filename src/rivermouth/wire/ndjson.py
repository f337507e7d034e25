"""One JSON object on each line.  Lines end in LF (a CR before it is dropped); blank lines are skipped."""

from __future__ import annotations

from rivermouth.ir.errors import WireError
from rivermouth.wire.frame import FRAME_CAP_BYTES, Frame


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
            return _frames(data)
        buffer += data
        end = buffer.rfind(b"\n", self._scanned)
        if end < 0:
            self._scanned = len(buffer)
            if len(buffer) > self._cap:
                raise WireError(f"a stream line is larger than {self._cap} bytes")
            return []
        whole = bytes(buffer[:end])
        del buffer[: end + 1]
        self._scanned = len(buffer)
        return _frames(whole)

    def statistics(self) -> dict[str, int]:
        return {"buffered_bytes": len(self._buffer), "cap_bytes": self._cap}


def _frames(data: bytes) -> list[Frame]:
    return [Frame("", text) for part in data.split(b"\n") if (text := part.strip())]

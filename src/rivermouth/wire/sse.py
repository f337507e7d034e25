"""Server-sent events, as the WHATWG standard reads them, on bytes.

* Lines end in LF, CRLF or CR and in nothing else: U+2028 is text (F5).
* `data:` with or without the space, several `data:` lines, comments, `id:`, `retry:` and a BOM are all taken (F3).
* A block without data is no event, and a block that the end of the stream cut off is none either.
"""

from __future__ import annotations

from typing import Final

from rivermouth.ir.errors import WireError
from rivermouth.wire.frame import FRAME_CAP_BYTES, Frame, nameless

KEEP_ALIVE: Final = b": ping\n\n"
_BOM: Final = b"\xef\xbb\xbf"
_NAMED: Final = b"event: "
_PLAIN: Final = b"data: "
_BETWEEN: Final = b"\n\n" + _PLAIN
_LF: Final = ord("\n")
_CR: Final = ord("\r")  # to look for a number in bytes is ten times cheaper than for bytes


def event(name: str, data: bytes) -> bytes:
    """One event with a name.  `data` is a single line."""
    return b"event: " + name.encode() + b"\ndata: " + data + b"\n\n"


def data(payload: bytes) -> bytes:
    """One event without a name.  `payload` is a single line."""
    return b"data: " + payload + b"\n\n"


class SseReader:
    """Bytes to frames.  Linear in the input, whatever the cuts; at most `cap_bytes` are held."""

    __slots__ = ("_after_cr", "_begun", "_buffer", "_cap", "_scanned")

    def __init__(self, cap_bytes: int = FRAME_CAP_BYTES) -> None:
        self._buffer = bytearray()
        self._scanned = 0
        self._after_cr = False
        self._begun = False
        self._cap = cap_bytes

    def feed(self, data: bytes) -> list[Frame]:
        if not data:
            return []
        if self._after_cr:
            self._after_cr = False
            if data[:1] == b"\n":
                data = data[1:]
        if _CR in data:
            self._after_cr = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if self._begun and not self._buffer and len(data) <= self._cap and data.endswith(b"\n\n"):
            return _frames(data[:-2])
        whole = self._cut(data)
        return [] if whole is None else _frames(whole)

    def statistics(self) -> dict[str, int]:
        return {"buffered_bytes": len(self._buffer), "cap_bytes": self._cap}

    def _cut(self, data: bytes) -> bytes | None:
        """The blocks that are complete now, without the blank line after the last; the rest stays in the buffer."""
        buffer = self._buffer
        buffer += data
        if not self._begun:
            if len(buffer) < len(_BOM) and _BOM.startswith(buffer):
                return None
            if buffer.startswith(_BOM):
                del buffer[: len(_BOM)]
            self._begun = True
            self._scanned = 0
        end = buffer.rfind(b"\n\n", max(self._scanned - 1, 0))
        if end < 0:
            self._scanned = len(buffer)
            _check(buffer, self._cap)
            return None
        whole = bytes(buffer[:end])
        del buffer[: end + 2]
        self._scanned = len(buffer)
        sound = 0
        try:
            if len(whole) > self._cap:
                for block in whole.split(b"\n\n"):
                    _check(block, self._cap)
                    sound += len(block) + 2
            sound = len(whole)
            _check(buffer, self._cap)
        except WireError as error:
            error.frames = _frames(whole[:sound])
            raise
        return whole


def _check(block: bytes | bytearray, cap_bytes: int) -> None:
    """Blank lines around a block do not count, so that the verdict does not depend on the cuts."""
    if len(block) > cap_bytes and len(block.strip(b"\n")) > cap_bytes:
        raise WireError(f"a stream event is larger than {cap_bytes} bytes")


def _frames(whole: bytes) -> list[Frame]:
    """The frames of complete blocks.  Most streams are nothing but blocks of one `data: ` line."""
    if whole.startswith(_PLAIN):
        if _LF not in whole:
            return nameless([whole[len(_PLAIN) :]])
        payloads = whole[len(_PLAIN) :].split(_BETWEEN)
        if whole.count(b"\n") == 2 * (len(payloads) - 1):  # so no payload holds a line end: each is one line
            return nameless(payloads)
    found = (_parse(block) for block in whole.split(b"\n\n") if block)
    return [frame for frame in found if frame is not None]


def _parse(block: bytes) -> Frame | None:
    """One block of lines as the standard dispatches it; None when it carries no data."""
    if block.startswith(_NAMED):
        head, found, payload = block.partition(b"\n" + _PLAIN)
        if found and b"\n" not in head and b"\n" not in payload:
            return Frame(head[len(_NAMED) :].decode("utf-8", "replace"), payload)
    name = ""
    lines: list[bytes] = []
    for line in block.split(b"\n"):
        field, _, value = line.partition(b":")
        if value[:1] == b" ":
            value = value[1:]
        if field == b"data":
            lines.append(value)
        elif field == b"event":
            name = value.decode("utf-8", "replace")
    return Frame(name, b"\n".join(lines)) if lines else None


def with_offset(data: bytes, before: int) -> bytes:
    """The same events; the last one bears as its `id:` how many bytes of the stream there are up to its end.

    data: whole events, behind `before` bytes of the stream.  What ends in no event (a comment) stays as it is: an `id:`
    without data is no event, and there are clients that fail on it.
    """
    newline = b"\r\n" if data.endswith(b"\r\n") else b"\n"
    ending = newline * 2
    last = data.removesuffix(ending).rpartition(ending)[2]
    if not data.endswith(ending) or not any(line.startswith(b"data:") for line in last.split(newline)):
        return data
    size = before + len(data) + len(b"id: ") + len(newline)
    digits = 1
    while len(b"%d" % (size + digits)) > digits:
        digits += 1
    return b"%bid: %d%b" % (data[: -len(newline)], size + digits, ending)

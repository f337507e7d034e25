"""A stream that is one JSON array: its elements, each an object, come as they are made.

    OPEN  element  (BETWEEN element)*  CLOSE

The reader finds the border of an element by counting braces outside strings, so neither white space nor line breaks
matter, and an element is a frame as soon as its last brace is there.  Whether the element is JSON inside is the
decoder's business.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

from rivermouth.ir.errors import WireError
from rivermouth.wire.frame import FRAME_CAP_BYTES, Frame, nameless

OPEN: Final = b"["
BETWEEN: Final = b",\r\n"
CLOSE: Final = b"]"

_BLANK: Final = re.compile(rb"[ \t\r\n]*")
_BRACE_OR_QUOTE: Final = re.compile(rb'["{}]')
_QUOTE_OR_ESCAPE: Final = re.compile(rb'["\\]')
_BOM: Final = b"\xef\xbb\xbf"


class _At(Enum):
    """Where the reader stands, outside an element."""

    BEGIN = "before the array"
    FIRST = "before the first element"
    NEXT = "after an element"
    ELEMENT = "before an element"
    END = "after the array"


_MOVES: Final[dict[tuple[_At, int], _At]] = {
    (_At.BEGIN, ord("[")): _At.FIRST,
    (_At.FIRST, ord("]")): _At.END,
    (_At.FIRST, ord("{")): _At.NEXT,
    (_At.NEXT, ord(",")): _At.ELEMENT,
    (_At.NEXT, ord("]")): _At.END,
    (_At.ELEMENT, ord("{")): _At.NEXT,
}
_BRACE: Final = ord("{")


class JsonArrayReader:
    """Bytes to frames.  Linear in the input, whatever the cuts; at most `cap_bytes` are held.

    An array that the end of the stream cut off loses its last element if that is not whole, and nothing else.
    """

    __slots__ = ("_at", "_begun", "_buffer", "_cap", "_depth", "_in_string", "_scanned")

    def __init__(self, cap_bytes: int = FRAME_CAP_BYTES) -> None:
        self._at = _At.BEGIN
        self._begun = False
        self._buffer = bytearray()  # from the beginning of the element that is open
        self._scanned = 0
        self._depth = 0  # of braces; 0 is outside an element
        self._in_string = False
        self._cap = cap_bytes

    def feed(self, data: bytes) -> list[Frame]:
        buffer = self._buffer
        buffer += data
        if not self._begun and not self._begin():
            return []
        found: list[bytes] = []
        start = 0  # of the element that is open, or of what was not looked at
        try:
            while self._scanned < len(buffer):
                if self._depth == 0:
                    start = self._outside()
                elif not self._inside():
                    break
                elif self._depth == 0:
                    self._check(self._scanned - start)
                    found.append(bytes(buffer[start : self._scanned]))
                    start = self._scanned
            del buffer[:start]
            self._scanned -= start
            self._check(len(buffer))
        except WireError as error:
            error.frames = nameless(found)
            raise
        return nameless(found)

    def statistics(self) -> dict[str, int]:
        return {"buffered_bytes": len(self._buffer), "cap_bytes": self._cap}

    def _begin(self) -> bool:
        """Drops a byte order mark; False while it is open whether there is one."""
        buffer = self._buffer
        if len(buffer) < len(_BOM) and _BOM.startswith(buffer):
            return False
        if buffer.startswith(_BOM):
            del buffer[: len(_BOM)]
        self._begun = True
        return True

    def _outside(self) -> int:
        """Moves by one mark of the array itself; the place up to which nothing is needed any more."""
        buffer = self._buffer
        at = self._skip_blanks()
        if at == len(buffer):
            return at
        moved = _MOVES.get((self._at, buffer[at]))
        if moved is None:
            raise WireError(f"no array of JSON objects: an unexpected byte {self._at.value}")
        self._at = moved
        self._scanned = at + 1
        if buffer[at] != _BRACE:
            return at + 1
        self._depth = 1
        return at

    def _skip_blanks(self) -> int:
        match = _BLANK.match(self._buffer, self._scanned)
        assert match is not None  # it matches nothing, too
        self._scanned = match.end()
        return self._scanned

    def _inside(self) -> bool:
        """Moves to the next mark inside the element; False when there is none yet."""
        buffer = self._buffer
        pattern = _QUOTE_OR_ESCAPE if self._in_string else _BRACE_OR_QUOTE
        match = pattern.search(buffer, self._scanned)
        if match is None:
            self._scanned = len(buffer)
            return False
        mark = match.group()
        end = match.end()
        if mark == b"\\":
            if end == len(buffer):  # what it escapes is not here yet
                self._scanned = match.start()
                return False
            end += 1
        elif mark == b'"':
            self._in_string = not self._in_string
        else:
            self._depth += 1 if mark == b"{" else -1
        self._scanned = end
        return True

    def _check(self, size: int) -> None:
        if size > self._cap:
            raise WireError(f"an element of the stream's array is larger than {self._cap} bytes")

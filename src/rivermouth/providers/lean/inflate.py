"""Compressed bodies, a bounded piece at a time."""

from __future__ import annotations

import zlib
from typing import Final

INFLATED_CAP_BYTES: Final = 1024 * 1024
"""What one read may make of compressed bytes at a time; the rest follows in the next read."""
ZLIB_OR_GZIP: Final = zlib.MAX_WBITS | 32
ENCODINGS: Final = frozenset({"gzip", "deflate", "x-gzip"})


class Inflate:
    """Compressed bytes to plain ones, a bounded piece at a time.  We ask for identity; some upstreams do not listen."""

    def __init__(self, encoding: str) -> None:
        self._known = encoding in ENCODINGS
        self._engine = zlib.decompressobj(ZLIB_OR_GZIP)
        self._input = b""

    @property
    def waiting(self) -> bool:
        """Bytes are here that `more` has not looked at."""
        return bool(self._input)

    @property
    def whole(self) -> bool:
        return self._engine.eof

    def take(self, data: bytes) -> None:
        self._input += data

    def more(self) -> bytes | None:
        """The next piece, b"" when more input is needed; None when the input is no such compression."""
        if not self._known:
            return None
        if self._engine.eof:  # gzip may consist of several members
            self._engine = zlib.decompressobj(ZLIB_OR_GZIP)
        try:
            data = self._engine.decompress(self._input, INFLATED_CAP_BYTES)
        except zlib.error:
            return None
        self._input = self._engine.unconsumed_tail or self._engine.unused_data
        return data

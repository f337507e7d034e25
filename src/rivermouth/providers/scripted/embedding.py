"""Deterministic vectors: each word turns a few of 384 knobs, so texts that share words point the same way.  Pure."""

from __future__ import annotations

import hashlib
import math
import re
from typing import Final

from rivermouth.ir.errors import invalid

DIMENSIONS: Final = 384
KNOBS: Final = 8

_WORD: Final = re.compile(r"\w+")


def vector_of(text: str, dimensions: int | None = None) -> tuple[float, ...]:
    """The vector of a text, of unit length; the first `dimensions` of 384, scaled again.  Raises `ApiError`."""
    count = DIMENSIONS if dimensions is None else dimensions
    if not 1 <= count <= DIMENSIONS:
        raise invalid(f"dimensions must be from 1 to {DIMENSIONS}", "dimensions")
    knobs = [0.0] * DIMENSIONS
    for word in _WORD.findall(text.casefold()) or [text]:
        digest = hashlib.sha256(word.encode("utf-8", "surrogatepass")).digest()
        for i in range(KNOBS):
            at = int.from_bytes(digest[2 * i : 2 * i + 2]) % DIMENSIONS
            knobs[at] += 1.0 if digest[16 + i] & 1 else -1.0
    kept = knobs[:count]
    length = math.sqrt(math.fsum(x * x for x in kept))
    if length == 0.0:  # the words cancel out, or none of their knobs was kept
        return (1.0, *([0.0] * (count - 1)))
    return tuple(x / length for x in kept)

"""Times and durations as Ollama writes them: RFC 3339 with nanoseconds in UTC, and Go durations ("1h30m").

No clock is read here; every time arrives as a number.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from rivermouth.wire import times

NEVER_WAS: Final = "0001-01-01T00:00:00Z"  # Go's zero time: clients read it as "not known"
FOR_EVER: Final = times.LAST  # more than a century ahead: the CLI prints "Forever"

_LONGEST_S: Final = (2**63 - 1) / 1e9  # a Go duration is 64 bits of nanoseconds
_UNITS_S: Final = {
    "ns": 1e-9,
    "us": 1e-6,
    "\u00b5s": 1e-6,
    "\u03bcs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
}
_PIECE: Final = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|\u00b5s|\u03bcs|ms|s|m|h)")


def rfc3339_ns(unix_ns: int) -> str:
    """Unix nanoseconds as `2026-11-29T22:35:01.000000042Z`, always with nine decimals."""
    seconds, rest = divmod(unix_ns, 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"


def rfc3339(unix_s: float) -> str:
    """Unix seconds as RFC 3339; 0 or less is Go's zero time, and what is beyond the year 9999 is its last second."""
    return times.rfc3339(unix_s, unknown=NEVER_WAS)


unix_seconds: Final = times.unix_seconds


def duration_s(text: str) -> float:
    """A Go duration ("5m", "1h30m", "-1s", "0") in seconds.  Raises `ValueError`."""
    sign, digits = (-1.0, text[1:]) if text[:1] == "-" else (1.0, text.removeprefix("+"))
    if digits == "0":
        return 0.0
    total, at = 0.0, 0
    while at < len(digits):
        piece = _PIECE.match(digits, at)
        if piece is None:
            raise ValueError(f"{text[:40]!r} is no duration; write it like 5m or 1h30m")
        total += float(piece[1]) * _UNITS_S[piece[2]]
        at = piece.end()
    if not digits or total > _LONGEST_S:
        raise ValueError(f"{text[:40]!r} is no duration; write it like 5m or 1h30m")
    return sign * total

"""Numbers as people read them.  Pure: the present time is an argument."""

from __future__ import annotations

import time
from typing import Final

NS: Final = 1_000_000_000
UNKNOWN: Final = "-"

_SIZES: Final = (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3))
_SPANS: Final = (("year", 31_536_000), ("month", 2_592_000), ("week", 604_800), ("day", 86_400), ("hour", 3600))


def size(count: int | None) -> str:
    """98_362_432 -> "98 MB"; None is "-"."""
    if count is None:
        return UNKNOWN
    for unit, scale in _SIZES:
        if count >= scale:
            value = count / scale
            return f"{value:.1f} {unit}" if value < 10 else f"{value:.0f} {unit}"
    return f"{count} B"


def span(seconds: float) -> str:
    """90_000 -> "1 day"; minutes and seconds below an hour."""
    for word, scale in (*_SPANS, ("minute", 60), ("second", 1)):
        if seconds >= scale:
            count = int(seconds // scale)
            return f"{count} {word}" if count == 1 else f"{count} {word}s"
    return "a moment"


def ago(then_s: float, now_s: float) -> str:
    """How long it is since then."""
    return f"{span(max(now_s - then_s, 0))} ago"


def duration(nanoseconds: int | None) -> str:
    """450 ms, 1.23 s, 75 s; None is "-"."""
    if nanoseconds is None:
        return UNKNOWN
    if nanoseconds < NS:
        return f"{nanoseconds / 1e6:.0f} ms"
    seconds = nanoseconds / NS
    return f"{seconds:.2f} s" if seconds < 60 else f"{seconds:.0f} s"


def moment(unix_ns: int) -> str:
    """Local time to the second."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(unix_ns // NS))


def count(number: int | None) -> str:
    """12_345 -> "12345"; None is "-", never 0."""
    return UNKNOWN if number is None else str(number)


def some(number: int, word: str) -> str:
    """1 model, 2 models, no models."""
    return f"{number or 'no'} {word}" if number == 1 else f"{number or 'no'} {word}s"

"""Moments as RFC 3339 in UTC, and back.  Never fails: what no calendar has becomes the nearest that one has.

No clock is read here; every time arrives as a number.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Final

EPOCH: Final = "1970-01-01T00:00:00Z"
LAST: Final = "9999-12-31T23:59:59Z"

_LAST_S: Final = 253_402_300_799
_BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)


def rfc3339(unix_s: float, unknown: str = EPOCH) -> str:
    """Unix seconds as RFC 3339; 0 or less is `unknown`, and what is beyond the year 9999 is its last second."""
    if not unix_s > 0:
        return unknown
    if unix_s >= _LAST_S:
        return LAST
    return f"{datetime.fromtimestamp(unix_s, UTC):%Y-%m-%dT%H:%M:%S}Z"


def unix_seconds(stamp: str) -> int:
    """RFC 3339 as Unix seconds; 0 for what is no time, or lies before 1970."""
    try:
        when = datetime.fromisoformat(stamp)
    except ValueError:
        return 0
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return max(0, math.floor((when - _BEGINNING).total_seconds()))

"""Days and months of a time zone, as Unix nanoseconds.  Pure.

Both begin at midnight by the zone's own clocks; where that midnight is skipped when clocks are put forward, at the
moment at which they are.  A period ends where the next one begins.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Final, Literal, NamedTuple

from rivermouth.config.zones import zone_of

NS: Final = 1_000_000_000


class Period(NamedTuple):
    """[since, until)."""

    since_ns: int
    until_ns: int

    def holds(self, at_ns: int) -> bool:
        return self.since_ns <= at_ns < self.until_ns


def period_at(kind: Literal["day", "month"], zone: str, at_ns: int) -> Period:
    """The day or the month in which that moment is."""
    there = zone_of(zone)
    today = datetime.fromtimestamp(at_ns // NS, UTC).astimezone(there).date()
    first = today if kind == "day" else today.replace(day=1)
    after = first + timedelta(days=1) if kind == "day" else (first + timedelta(days=32)).replace(day=1)
    return Period(_midnight_ns(first, there), _midnight_ns(after, there))


def _midnight_ns(day: date, zone: tzinfo) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=zone).timestamp()) * NS

"""Days of a time zone, as the store sums by them.  Pure."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, tzinfo

from rivermouth.store.archive import Day
from rivermouth.store.port import NANO


def days(since_ns: int, until_ns: int, zone: tzinfo) -> list[Day]:
    """Every day of the zone that has a part of [since, until), whole and without a gap; a day of a change of clocks is
    longer or shorter than the others.
    """
    if until_ns <= since_ns:
        return []
    here = datetime.fromtimestamp(since_ns // NANO, UTC).astimezone(zone).date()
    found = []
    while (begins := _midnight(here, zone)) < until_ns:
        after = here + timedelta(days=1)
        ends = _midnight(after, zone)
        if ends > begins:  # a day that a zone left out, as Samoa did in 2011, has no part of anything
            found.append(Day(here.isoformat(), begins, ends))
        here = after
    return found


def _midnight(day: date, zone: tzinfo) -> int:
    """Unix nanoseconds."""
    return int(datetime(day.year, day.month, day.day, tzinfo=zone).timestamp()) * NANO

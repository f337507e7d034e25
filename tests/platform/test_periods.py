"""Days and months of a time zone: no moment is in none, none in two, and each begins at that zone's midnight."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.config.zones import zone_fault, zone_of
from rivermouth.platform.periods import NS, Period, period_at

ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Asia/Kathmandu",
    "Africa/Cairo",
    "America/Sao_Paulo",
    "Asia/Beirut",
)
MOMENTS = st.integers(0, 4_000_000_000).map(lambda s: s * NS + 5)


@given(at_ns=MOMENTS, kind=st.sampled_from(("day", "month")), zone=st.sampled_from(ZONES))
def test_each_moment_is_in_one_period_and_the_next_begins_where_it_ends(at_ns: int, kind, zone: str) -> None:
    period = period_at(kind, zone, at_ns)
    assert period.holds(at_ns)
    assert period_at(kind, zone, period.since_ns) == period
    assert period_at(kind, zone, period.until_ns - 1) == period
    assert period_at(kind, zone, period.until_ns).since_ns == period.until_ns


def unix_ns(*moment: int, zone: str) -> int:
    return int(datetime(*moment, tzinfo=ZoneInfo(zone)).timestamp()) * NS  # type: ignore[arg-type, misc]


@pytest.mark.parametrize(
    ("day", "hours"), [((2026, 3, 29), 23), ((2026, 10, 25), 25), ((2026, 6, 1), 24)], ids=["short", "long", "plain"]
)
def test_a_day_is_as_long_as_the_zone_makes_it(day: tuple[int, int, int], hours: int) -> None:
    noon = unix_ns(*day, 12, zone="Europe/Berlin")
    period = period_at("day", "Europe/Berlin", noon)
    assert (period.until_ns - period.since_ns) == hours * 3600 * NS
    assert period.since_ns == unix_ns(*day, zone="Europe/Berlin")


def test_a_month_begins_at_the_zones_midnight() -> None:
    at_ns = int(datetime(2026, 12, 31, 23, 30, tzinfo=UTC).timestamp()) * NS
    assert period_at("month", "Europe/Berlin", at_ns) == Period(
        unix_ns(2027, 1, 1, zone="Europe/Berlin"), unix_ns(2027, 2, 1, zone="Europe/Berlin")
    )
    assert period_at("month", "UTC", at_ns).until_ns == unix_ns(2027, 1, 1, zone="UTC")


@pytest.mark.parametrize("name", ["Mars/Olympus", "Europe", "berlin"])
def test_what_is_no_zone_is_named(name: str) -> None:
    assert zone_fault(name) == f"no time zone is called {name}"
    with pytest.raises(ValueError, match=name):
        zone_of(name)


def test_utc_needs_no_data() -> None:
    assert zone_of("UTC") is UTC
    assert zone_fault("Europe/Berlin") is None

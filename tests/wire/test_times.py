"""Moments that every calendar has, and the nearest one for those that none has."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.wire.times import EPOCH, LAST, rfc3339, unix_seconds


@given(st.integers(1, 253_402_300_798))
def test_a_time_comes_back(seconds: int) -> None:
    assert unix_seconds(rfc3339(seconds)) == seconds


@given(st.floats() | st.integers())
def test_any_number_is_a_moment(seconds: float) -> None:
    assert len(rfc3339(seconds)) == len(EPOCH)
    assert 0 <= unix_seconds(rfc3339(seconds)) <= unix_seconds(LAST)


def test_the_edges() -> None:
    assert rfc3339(0) == rfc3339(-1) == rfc3339(math.nan) == EPOCH
    assert rfc3339(0, unknown="then") == "then"
    assert rfc3339(math.inf) == rfc3339(1e300) == rfc3339(1_700_000_000_000) == LAST, "milliseconds are no seconds"


@pytest.mark.parametrize("stamp", ["", "yesterday", "0001-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "1969"])
def test_what_is_no_time_is_zero(stamp: str) -> None:
    assert unix_seconds(stamp) == 0


def test_a_time_has_a_zone_or_means_utc() -> None:
    assert unix_seconds("2023-12-12T14:13:43.416799123+02:00") == unix_seconds("2023-12-12T12:13:43") == 1702383223

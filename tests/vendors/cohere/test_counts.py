from __future__ import annotations

import pytest

from rivermouth.ir.events import Usage
from rivermouth.vendors.cohere.counts import Counts, Pair, read_counts, write_counts


@pytest.mark.fault("F28", "F29")
@pytest.mark.parametrize(
    "usage", [Usage(9, 2, 4), Usage(9), Usage(output_tokens=0), Usage(0, 0, 0), Usage(cached_tokens=3)]
)
def test_counts_come_back_as_they_were_said(usage: Usage) -> None:
    wire = write_counts(usage)
    pairs = {name: Pair(**wire[name]) if name in wire else None for name in ("tokens", "billed_units")}
    assert read_counts(Counts(**pairs, cached_tokens=wire.get("cached_tokens"))) == usage


@pytest.mark.fault("F29")
def test_nothing_said_is_nothing_counted() -> None:
    assert write_counts(None) == write_counts(Usage()) == {}
    assert read_counts(None) is None
    assert read_counts(Counts(tokens=Pair(), billed_units=Pair())) is None


def test_what_was_read_wins_over_what_is_billed() -> None:
    assert read_counts(Counts(tokens=Pair(9.0), billed_units=Pair(5.0, 2.0))) == Usage(9, 2)


@pytest.mark.parametrize("count", [float("inf"), float("nan"), -1.0])
def test_a_count_that_cannot_be_one_is_none(count: float) -> None:
    assert read_counts(Counts(tokens=Pair(count, 1))) == Usage(output_tokens=1)

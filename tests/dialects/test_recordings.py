"""Every recorded stream of every dialect: the reads do not matter, and cut off it never looks finished."""

from __future__ import annotations

from pathlib import Path

import pytest

from rivermouth.dialects import discover
from rivermouth.ir.events import Finish
from tests.dialects.conformance import survives

FIXTURES = [p for p in sorted(Path(__file__).parent.glob("*/streams/*")) if p.suffix in (".sse", ".ndjson")]


@pytest.mark.fault("F1", "F2", "F10")
@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda p: f"{p.parent.parent.name}-{p.stem}")
def test_it_reads_the_same_however_cut_and_cut_off_it_never_finishes(fixture: Path) -> None:
    dialect = discover()[fixture.parent.parent.name]
    data = fixture.read_bytes()
    whole = survives(dialect, [data])
    assert survives(dialect, [data[i : i + 1] for i in range(len(data))]) == whole
    for cut in range(0, len(data), 7):
        assert survives(dialect, [data[:cut], data[cut:]]) == whole
    if whole is None or not isinstance(whole[-1], Finish):
        return
    for cut in range(len(data.rstrip())):
        events = survives(dialect, [data[:cut]])
        if events is not None and isinstance(events[-1], Finish):
            assert events == whole, f"cut at {cut}: finished, though not all of it was said"

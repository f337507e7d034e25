"""Every recorded stream of every dialect: what it means stands beside it, and neither cuts nor a cut change that.

A recording is `<dialect>/streams/NAME.sse` or `.ndjson`, its meaning `NAME.events.jsonl`.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from rivermouth.dialects import discover
from rivermouth.dialects.dialect import Dialect
from rivermouth.ir.errors import Kind
from rivermouth.ir.events import Error, Finish
from tests.dialects.conformance import DIALECTS, Decoded, decoded, only_error
from tests.dialects.events_text import describe, parse_lines
from tests.every_way import every_way

RECORDINGS = [p for p in sorted(Path(__file__).parent.glob("*/streams/*")) if p.suffix in (".sse", ".ndjson")]
SHORT_BYTES = 1100
"""Longer recordings are cut at every seventh byte only; what a cut can fall on stands in the short ones too."""

recorded = pytest.mark.parametrize("recording", RECORDINGS, ids=lambda p: f"{p.parent.parent.name}-{p.stem}")


def opened(recording: Path) -> tuple[Dialect, bytes]:
    return discover()[recording.parent.parent.name], recording.read_bytes()


def step(data: bytes) -> int:
    return 1 if len(data) <= SHORT_BYTES else 7


@pytest.mark.fault("F1", "F2", "F3", "F26")
@recorded
def test_it_means_what_stands_beside_it_however_it_is_cut(recording: Path) -> None:
    dialect, data = opened(recording)
    events = Decoded(dialect).feed(data)
    assert [describe(e) for e in events] == parse_lines(recording.with_suffix(".events.jsonl").read_text())
    every_way(partial(Decoded, dialect), data, events, step=step(data))


@pytest.mark.fault("F10", "F16")
@recorded
def test_cut_off_it_is_one_error_and_never_a_finish(recording: Path) -> None:
    dialect, data = opened(recording)
    reader, ends = Decoded(dialect), 0
    while not reader.grammar.done:
        reader.feed(data[ends : ends + 1])
        ends += 1
    for cut in range(0, ends, step(data)):
        assert only_error(decoded(dialect, data[:cut])).error.kind is Kind.TRUNCATED, f"cut at {cut}"


@pytest.mark.parametrize("name", DIALECTS)
def test_each_dialect_has_a_good_and_a_bad_recording_and_one_that_is_cut_everywhere(name: str) -> None:
    mine = [opened(p) for p in RECORDINGS if p.parent.parent.name == name]
    ends = {type(Decoded(dialect).feed(data)[-1]) for dialect, data in mine}
    assert ends == {Finish, Error}
    assert any(step(data) == 1 for _, data in mine)

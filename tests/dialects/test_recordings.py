"""Every recorded stream of every dialect: what it means stands beside it, and neither cuts nor a cut change that."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from rivermouth.ir.errors import Kind
from rivermouth.ir.events import Error, Finish
from tests.dialects.conformance import DIALECTS, Decoded, decoded, only_error
from tests.dialects.recordings import (
    CASES,
    FAILED,
    NOWHERE,
    RECORDINGS,
    SHOWN_BY,
    dialect_of,
    events_of,
    meaning,
    meaning_of,
    shown,
)
from tests.every_way import every_way

SHORT_BYTES = 720
MEDIUM_BYTES = 4400
"""What is longer is cut in fewer places; what a cut can fall on stands in the short ones too."""

ids = {"ids": lambda p: f"{p.parent.parent.name}-{p.stem}"}
recorded = pytest.mark.parametrize("recording", RECORDINGS, **ids)
streamed = pytest.mark.parametrize("recording", [p for p in RECORDINGS if p.suffix != FAILED], **ids)
whole = [p for p in RECORDINGS if p.suffix != FAILED and p.stem != "cut"]
complete = pytest.mark.parametrize("recording", whole, **ids)


def step(data: bytes) -> int:
    return 1 if len(data) <= SHORT_BYTES else 13 if len(data) <= MEDIUM_BYTES else 151


@recorded
def test_it_means_what_stands_beside_it(recording: Path) -> None:
    """Nothing updates this by itself: `make goldens` writes what the code says, and a person reads the difference."""
    assert meaning(recording).splitlines() == meaning_of(recording).read_text(encoding="ascii").splitlines()


@pytest.mark.fault("F1", "F2", "F3", "F26")
@streamed
def test_it_means_the_same_however_it_is_cut(recording: Path) -> None:
    dialect, data = dialect_of(recording), recording.read_bytes()
    every_way(partial(Decoded, dialect), data, Decoded(dialect).feed(data), step=step(data))


@pytest.mark.fault("F10", "F16")
@complete
def test_cut_off_it_is_one_error_and_never_a_finish(recording: Path) -> None:
    dialect, data = dialect_of(recording), recording.read_bytes()
    reader, ends = Decoded(dialect), 0
    while not reader.grammar.done:
        reader.feed(data[ends : ends + 1])
        ends += 1
        assert ends <= len(data), "it ends by itself"
    for cut in range(0, ends, step(data)):
        assert only_error(decoded(dialect, data[:cut])).error.kind is Kind.TRUNCATED, f"cut at {cut}"


@pytest.mark.parametrize("name", DIALECTS)
def test_each_dialect_has_a_good_and_a_bad_recording_and_one_that_is_cut_everywhere(name: str) -> None:
    mine = [p for p in RECORDINGS if p.parent.parent.name == name and p.suffix != FAILED]
    assert {type(events_of(p)[-1]) for p in mine} == {Finish, Error}
    assert any(step(p.read_bytes()) == 1 for p in mine)


@pytest.mark.parametrize("name", DIALECTS)
def test_each_dialect_shows_every_case_or_says_why_not(name: str) -> None:
    missing = [case for case in CASES if shown(name, case) is None]
    assert [case for case in missing if (name, case) not in NOWHERE] == []
    assert [case for case in CASES if (name, case) in NOWHERE and case not in missing] == []


def test_no_meaning_is_left_without_its_recording_and_the_tables_name_what_exists() -> None:
    folders = {p.parent for p in RECORDINGS}
    left = {p for folder in folders for p in folder.glob("*.events.jsonl")} - {meaning_of(p) for p in RECORDINGS}
    assert left == set()
    assert {case for _, case in (*SHOWN_BY, *NOWHERE)} <= set(CASES)
    assert {name for name, _ in (*SHOWN_BY, *NOWHERE)} <= set(DIALECTS)

"""Numbers, tables and texts as a person sees them."""

from __future__ import annotations

import io

import pytest

from rivermouth.cli import words
from rivermouth.cli.calls import account
from rivermouth.cli.failures import EXPECTED, OF_KIND, OF_TYPE, exit_of, tell
from rivermouth.cli.term import EXIT_CODES, MEANINGS, Exit, colourful, dimmed, one_line, printable, table
from rivermouth.config import ConfigError
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.store.datadir import DataDirBusy
from rivermouth.store.port import Status, StoreError
from tests.store.records import ended, opened


@pytest.mark.parametrize(
    ("count", "text"),
    [(None, "-"), (0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (98_362_432, "98 MB"), (4_661_224_676, "4.7 GB")],
)
def test_a_size_has_two_digits_and_a_unit(count: int | None, text: str) -> None:
    assert words.size(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "a moment"), (1, "1 second"), (59, "59 seconds"), (60, "1 minute"), (7300, "2 hours"), (90_000, "1 day")],
)
def test_a_span_is_told_in_its_largest_unit(seconds: float, text: str) -> None:
    assert words.span(seconds) == text


def test_a_clock_that_went_back_is_no_negative_age() -> None:
    assert words.ago(200, 100) == "a moment ago"


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [(None, "-"), (0, "0 ms"), (450_000_000, "450 ms"), (1_234_000_000, "1.23 s"), (75_400_000_000, "75 s")],
)
def test_a_duration_that_is_not_known_is_not_zero(nanoseconds: int | None, text: str) -> None:
    assert words.duration(nanoseconds) == text


def test_counts_and_their_nouns() -> None:
    assert [words.some(n, "model") for n in (0, 1, 2)] == ["no models", "1 model", "2 models"]
    assert [words.count(n) for n in (None, 0, 12)] == ["-", "0", "12"]


def test_a_table_keeps_its_columns_whatever_its_cells_hold() -> None:
    text = table(("A", "B"), [("x\ny", "1"), ("\x1b[31mred", "2")])
    assert text.splitlines() == ["A         B", "x y       1", "\ufffd[31mred  2"]
    assert table(("A",), []) == "A"


def test_what_is_printed_cannot_steer_a_terminal() -> None:
    assert printable("a\tb\n\x1b]0;title\x07\x9b2J\r") == "a\tb\n\ufffd]0;title\ufffd\ufffd2J\ufffd"
    assert printable("fil\u202eslaf\u2069\u2028x") == "fil\ufffdslaf\ufffd\ufffdx", "nor what turns or breaks a line"


def test_a_line_of_what_somebody_else_said_is_one() -> None:
    """An upstream's message must not add a fact to a call's record, as `rivermouth calls show` prints it."""
    call = ended(opened(1, key_name="a\tb"), Status.FAILED, message="no\nstatus       completed\r\u2028key  boss")
    shown = [one_line(line) for line in account(call)]
    assert [line for line in shown if line.startswith("status")] == ["status       failed"]
    assert not any(len(line.splitlines()) > 1 for line in shown)


def test_a_stream_that_is_no_terminal_gets_no_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert dimmed("x", io.StringIO()) == "x"
    assert dimmed("x", Screen()) == "\x1b[2mx\x1b[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert not colourful(Screen())


def test_every_exit_code_has_a_meaning_and_every_kind_a_code() -> None:
    assert set(MEANINGS) == set(Exit)
    assert all(f"{code.value} {MEANINGS[code]}" in EXIT_CODES for code in Exit)
    assert set(OF_KIND) == set(Kind)
    assert {ApiError, *OF_TYPE} == set(EXPECTED)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ApiError(Kind.NOT_FOUND, "no"), 5),
        (ApiError(Kind.NETWORK, "no"), 6),
        (ApiError(Kind.TIMEOUT, "no"), 1),
        (ConfigError([]), 3),
        (StoreError("no"), 1),
    ],
)
def test_an_exit_code_says_what_kind_of_failure_it_was(error: Exception, code: int) -> None:
    assert exit_of(error) == code


def test_a_busy_directory_has_a_code_of_its_own(tmp_path: object) -> None:
    assert exit_of(DataDirBusy(tmp_path, 7)) is Exit.BUSY  # type: ignore[arg-type]


def test_who_has_no_key_is_told_how_to_give_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert tell(ApiError(Kind.AUTHENTICATION, "no valid API key was given")) is Exit.FAILED
    assert "--api-key KEY" in capsys.readouterr().err
    tell(ApiError(Kind.PERMISSION, "the index wants other credentials", code="index_refused"))
    assert capsys.readouterr().err == "rivermouth: the index wants other credentials\n"

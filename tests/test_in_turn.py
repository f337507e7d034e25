"""Cases in turn: every one is run, and a failure says which it was."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from tests.in_turn import in_turn


def test_every_case_is_run_and_fixtures_stay_what_they_are() -> None:
    seen: list[tuple[str, int, str]] = []

    @pytest.mark.fault("F7")
    @in_turn("a", "xy")
    @in_turn(("b", "c"), [(1, "p"), (2, "q")])
    def some(a: str, fixture: list[tuple[str, int, str]], b: int, c: str) -> None:
        fixture.append((a, b, c))

    assert list(inspect.signature(some).parameters) == ["fixture"]
    assert [mark.name for mark in some.pytestmark] == ["fault"]  # type: ignore[attr-defined]
    some(fixture=seen)
    assert seen == [("x", 1, "p"), ("x", 2, "q"), ("y", 1, "p"), ("y", 2, "q")]


def test_the_case_that_failed_is_named_and_ends_the_test() -> None:
    seen: list[int] = []

    @in_turn("n", [1, 2, 3])
    def some(n: int) -> None:
        seen.append(n)
        assert n < 2

    with pytest.raises(AssertionError) as failed:
        some()
    assert seen == [1, 2]
    assert failed.value.__notes__ == ["in the case {'n': 2}"]


def test_what_would_show_nothing_is_refused() -> None:
    def some(n: int) -> None:
        assert n

    async def other(n: int) -> None:
        assert n

    refused: list[tuple[str, list[int], Any]] = [("n", [], some), ("m", [1], some), ("n", [1], other)]
    for names, cases, test in refused:
        with pytest.raises(AssertionError):
            in_turn(names, cases)(test)

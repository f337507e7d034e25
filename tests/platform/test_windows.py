"""A minute's window: never more than the limit in any minute, and all of it free again when it is over."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rivermouth.platform.windows import KEPT_S, SPAN_S, Window

STEPS = st.lists(
    st.tuples(st.floats(0, 40, allow_nan=False), st.integers(1, 30)),
    max_size=60,
)


@given(steps=STEPS, limit=st.integers(1, 100))
def test_no_minute_holds_more_than_the_limit(steps: list[tuple[float, int]], limit: int) -> None:
    window, now_s = Window(), 1000.25
    taken: list[tuple[float, int]] = []
    for pause_s, units in steps:
        now_s += pause_s
        if window.left(limit, now_s) >= units:
            window.take(units, now_s)
            taken.append((now_s, units))
    for begin_s, _ in taken:
        assert sum(units for at_s, units in taken if begin_s <= at_s < begin_s + SPAN_S) <= limit


@given(steps=STEPS)
def test_what_is_taken_is_free_again_when_its_minute_is_over(steps: list[tuple[float, int]]) -> None:
    window, now_s = Window(), 7.5
    for pause_s, units in steps:
        now_s += pause_s
        window.take(units, now_s)
    assert window.reset_s(now_s) <= KEPT_S
    assert window.left(1000, now_s + window.reset_s(now_s)) == 1000
    assert window.used == 0


@given(steps=STEPS, wanted=st.integers(1, 50), limit=st.integers(1, 50))
def test_the_wait_that_is_named_is_long_enough_and_no_longer(
    steps: list[tuple[float, int]], wanted: int, limit: int
) -> None:
    window, now_s = Window(), 0.0
    for pause_s, units in steps:
        now_s += pause_s
        window.take(units, now_s)
    wait_s = window.wait_s(wanted, limit, now_s)
    if wanted > limit:
        assert wait_s is None
        return
    assert wait_s is not None
    if wait_s > 0.01:
        assert window.left(limit, now_s + wait_s - 0.01) < wanted
    assert window.left(limit, now_s + wait_s) >= wanted


@given(steps=STEPS, actual=st.lists(st.integers(0, 60), min_size=60, max_size=60))
def test_a_correction_leaves_what_was_really_used(steps: list[tuple[float, int]], actual: list[int]) -> None:
    window, now_s = Window(), 3.0
    taken = []
    for pause_s, units in steps:
        now_s += pause_s
        taken.append((window.take(units, now_s), units, now_s))
    for (second, units, _), really in zip(taken, actual, strict=False):
        window.correct(second, really - units, now_s)
    kept = [really for (second, _, _), really in zip(taken, actual, strict=False) if second + KEPT_S > now_s]
    assert window.used == sum(kept)


def test_what_was_taken_late_in_a_second_is_not_forgotten_early() -> None:
    window = Window()
    window.take(5, 0.9)
    assert window.left(5, 60.85) == 0
    assert window.left(5, 61.0) == 5


def test_a_window_does_not_grow_with_the_calls() -> None:
    window = Window()
    for step in range(100_000):
        window.take(1, step / 500)
    assert len(window._seconds) <= KEPT_S

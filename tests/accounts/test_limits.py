"""How often anybody may try."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.accounts.limits import Tries


def test_so_many_at_once_and_then_one_after_the_other() -> None:
    tries = Tries(3, 30.0)
    assert [tries.take("a", 100.0) for _ in range(4)] == [0, 0, 0, 10.0]
    assert tries.take("b", 100.0) == 0
    assert tries.take("a", 109.0) == pytest.approx(1.0)
    assert [tries.take("a", 110.0), tries.take("a", 110.0)] == [0, 10.0]
    assert [tries.take("a", 140.0) for _ in range(4)] == [0, 0, 0, 10.0]


def test_a_good_try_does_not_count() -> None:
    tries = Tries(2, 10.0)
    for _ in range(10):
        assert tries.take("a", 0.0) == 0
        tries.give_back("a")
    tries.give_back("nobody")
    assert [tries.take("a", 0.0) for _ in range(3)] == [0, 0, 5.0]


def test_another_limit_holds_from_now_on() -> None:
    tries = Tries(2, 10.0)
    assert [tries.take("a", 0.0) for _ in range(3)] == [0, 0, 5.0]
    tries.allow(4, 10.0)
    assert [tries.take("b", 0.0) for _ in range(5)] == [0, 0, 0, 0, 2.5]
    tries.allow(1, 100.0)
    assert [tries.take("c", 0.0), tries.take("c", 0.0)] == [0, 100.0]


@given(
    tries=st.integers(1, 9),
    steps=st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 40)), max_size=80),
)
def test_never_more_than_twice_the_tries_within_one_window(tries: int, steps: list[tuple[str, float]]) -> None:
    """At the worst a full budget, and what comes back of it meanwhile; and who waits as told may try."""
    limits, now_s, made = Tries(tries, 60.0), 0.0, []
    for key, after_s in steps:
        now_s += after_s
        wait_s = limits.take(key, now_s)
        if wait_s == 0:
            made.append((key, now_s))
        else:
            assert 0 < wait_s <= 60.0 / tries + 1e-6
            assert Tries.take(limits, key, now_s + wait_s + 1e-6) == 0
            limits.give_back(key)
    for key, at_s in made:
        assert sum(other == key and at_s <= when_s < at_s + 60.0 for other, when_s in made) <= 2 * tries


def test_the_table_is_bounded_and_forgets_first_what_tells_nothing() -> None:
    tries = Tries(1, 10.0, most_keys=100)
    assert tries.take("victim", 0.0) == 0
    for number in range(99):
        assert tries.take(f"old-{number}", -20.0) == 0
    assert len(tries) == 100
    assert tries.take("new", 1.0) == 0
    assert len(tries) == 2
    assert tries.take("victim", 1.0) == pytest.approx(9.0)
    for number in range(1_000):
        tries.take(f"more-{number}", 1.0)
        assert len(tries) <= 100

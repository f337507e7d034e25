"""When silence means a hang: the decision alone."""

from __future__ import annotations

import pytest

from rivermouth.local.inference.watch import LOOKS, Verdict, judge, look_every_s


@pytest.mark.parametrize(
    ("now", "heard_at", "live", "verdict"),
    [
        (100.0, 0.0, False, Verdict.REST),  # nobody waits: it may be silent for ever
        (100.0, 99.0, True, Verdict.LOOK_AGAIN),
        (100.0, 90.1, True, Verdict.LOOK_AGAIN),
        (100.0, 90.0, True, Verdict.HANGS),
    ],
)
def test_silence_counts_from_the_last_word_and_only_while_somebody_waits(
    now: float, heard_at: float, live: bool, verdict: Verdict
) -> None:
    assert judge(now, due=now, heard_at=heard_at, live=live, step_s=10.0) is verdict


def test_a_loop_that_was_held_up_itself_looks_again() -> None:
    """The words of the time may lie in the pipe."""
    assert judge(100.0, due=90.0, heard_at=80.0, live=True, step_s=10.0) is Verdict.LOOK_AGAIN
    assert judge(100.0, due=99.0, heard_at=80.0, live=True, step_s=10.0) is Verdict.HANGS


def test_a_hang_is_seen_at_most_one_look_later() -> None:
    assert look_every_s(60.0) * LOOKS == 60.0

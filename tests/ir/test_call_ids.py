"""Ids of tool calls: each once, and the same for the same answer."""

from __future__ import annotations

import pytest

from rivermouth.ir.call_ids import call_id, fresh


@pytest.mark.fault("F20")
def test_an_id_that_is_new_is_kept_and_any_other_is_made_from_the_position() -> None:
    taken: set[str] = set()
    given = ["a", "a", None, "", "call_s_4x", "call_s_4"]
    assert [call_id(g, "s", i, taken) for i, g in enumerate(given)] == [
        "a", "call_s_1", "call_s_2", "call_s_3", "call_s_4x", "call_s_4",
    ]  # fmt: skip
    assert len(taken) == len(given)


def test_without_the_answers_id_the_position_is_all() -> None:
    assert call_id(None, "", 3, set()) == "call_3"


def test_a_made_id_never_meets_one_that_is_taken() -> None:
    taken = {"call_1", "call_1x"}
    assert fresh("call_1", taken) == "call_1xx"
    assert "call_1xx" in taken

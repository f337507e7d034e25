"""Ids of tool calls: each once, and the same for the same answer."""

from __future__ import annotations

import pytest

from rivermouth.ir.call_ids import Pairing, call_id, fresh


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


@pytest.mark.fault("F20")
def test_a_result_without_an_id_answers_the_first_call_of_its_name_that_nothing_answered() -> None:
    pairing = Pairing(["b"])
    calls = [
        pairing.call(given, name, str(i)) for i, (given, name) in enumerate([(None, "f"), ("b", "g"), (None, "f")])
    ]
    assert calls == ["call_0", "b", "call_2"]
    assert pairing.result("b", None, "3") == ("b", "g")
    assert pairing.result(None, "f", "4") == ("call_0", "f")
    assert pairing.result(None, None, "5") == ("call_2", "f")
    assert pairing.result("unheard", "f", "6") == ("unheard", "f")
    assert pairing.result(None, None, "7") == ("call_7", None)

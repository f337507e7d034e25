"""A budget of thinking in OpenAI's words: whatever number it is, there is a word."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.ir.request import Thinking
from rivermouth.vendors.openai.efforts import EFFORTS, write_effort


@given(st.none() | st.integers())
def test_every_budget_has_a_word(budget: int | None) -> None:
    losses: list[str] = []
    assert write_effort(Thinking(budget_tokens=budget), losses) in EFFORTS
    assert losses == ([] if budget is None else ["thinking.budget_tokens"])


@pytest.mark.parametrize(
    ("budget", "word"), [(-1, "low"), (0, "low"), (4095, "low"), (4096, "medium"), (16384, "high"), (None, "medium")]
)
def test_the_word_is_that_of_its_size(budget: int | None, word: str) -> None:
    assert write_effort(Thinking(budget_tokens=budget), []) == word
    assert write_effort(Thinking(effort="minimal", budget_tokens=budget), []) == "minimal"
    assert write_effort(Thinking(enabled=False, budget_tokens=budget), []) == "none"

"""How hard a model is to think, in the vendor's words."""

from __future__ import annotations

from typing import Final

from rivermouth.ir.errors import invalid
from rivermouth.ir.request import Thinking

NONE: Final = "none"
EFFORTS: Final = (NONE, "minimal", "low", "medium", "high", "xhigh", "max")
BUDGET_EFFORTS: Final = ((16384, "high"), (4096, "medium"))
"""From this many tokens of thinking on, a budget is called by this name; a smaller one is "low"."""


def read_effort(word: str, param: str) -> str | None:
    """The effort; None for "none", which forbids thinking instead.  Raises `ApiError` for a word that is none."""
    if word not in EFFORTS:
        raise invalid(f"known are {', '.join(EFFORTS)}", param, "invalid_value")
    return None if word == NONE else word


def write_effort(thinking: Thinking, losses: list[str]) -> str:
    """The effort in the vendor's words; a budget becomes the word for its size, which is a loss."""
    if not thinking.enabled:
        return NONE
    budget = thinking.budget_tokens
    if budget is not None:
        losses.append("thinking.budget_tokens")
    named = "medium" if budget is None else next((word for least, word in BUDGET_EFFORTS if budget >= least), "low")
    return thinking.effort or named

"""How hard a model of Anthropic's is asked to reason: by a word, or by a number of tokens where it knows no words."""

from __future__ import annotations

import re
from typing import Final

MIN_BUDGET_TOKENS: Final = 1024

# Neutral effort -> (effort here, thinking budget where a model only knows budgets).
EFFORTS: Final[dict[str, tuple[str, int]]] = {
    "minimal": ("low", 1024),
    "low": ("low", 2048),
    "medium": ("medium", 8192),
    "high": ("high", 16384),
    "xhigh": ("xhigh", 24576),
    "max": ("max", 32000),
}
_BUDGET_ONLY: Final = re.compile(
    r"(?:^|[./])(?:anthropic\.)?claude-(?:3|(?:opus|sonnet|haiku)-4(?:-[0-5])?(?:-\d{8})?"
    r"(?:-latest$|-v\d+(?:$|:)|@|$))"
)


def only_budgets(model: str) -> bool:
    """The model knows `thinking: enabled` with a budget and neither `adaptive` nor an effort.

    Under whichever name: Bedrock has the vendor and perhaps a region before it, and a version behind it.
    """
    return _BUDGET_ONLY.search(model) is not None


def budget_of(effort: str | None) -> int:
    """The budget in tokens that comes nearest to a word."""
    return EFFORTS.get(effort or "medium", EFFORTS["medium"])[1]

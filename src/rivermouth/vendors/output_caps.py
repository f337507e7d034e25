"""How long an answer well-known models may be asked for: they refuse a greater number instead of taking their own.

Clients that were made for one model ask every other one for as much (32,000 tokens of a model that gives 4,096), and
one protocol demands a number where others have a default.  A model that is not here has no cap that is known.
"""

from __future__ import annotations

import re
from typing import Final

# What the name has to begin with, after a vendor's or a region's prefix; the first that fits counts.
_CAPS: Final[tuple[tuple[str, int], ...]] = (
    ("claude-3-5", 8192),
    ("claude-3-7", 64_000),
    ("claude-3-(?:opus|sonnet|haiku)", 4096),
    (r"claude-opus-4(?:-[01])?(?:-\d{8}|@|$)", 32_000),
    ("claude-(?:opus|sonnet|haiku)-4", 64_000),
    ("gpt-3\\.5-turbo", 4096),
    ("gpt-4o-2024-05-13", 4096),
    ("gpt-4o", 16_384),
    ("gpt-4-(?:turbo|1106|0125|vision)", 4096),
    (r"gpt-4(?:-0613)?$", 8192),
    ("gpt-4\\.1", 32_768),
    ("o1-preview", 32_768),
    ("o1-mini", 65_536),
    (r"o[134](?:-|$)", 100_000),
    ("gpt-5-chat", 16_384),
    ("gpt-5", 128_000),
    (r"gemini-(?:1|2\.0)", 8192),
    (r"gemini-2\.5", 65_536),
    ("command-(?:r|light|nightly)", 4096),
)
_NAMES: Final = tuple((re.compile(rf"(?:^|[./]){pattern}"), cap) for pattern, cap in _CAPS)
_CLAUDE: Final = re.compile(r"(?:^|[./])claude-")
_ANY_CLAUDE: Final = 32_000
"""What every model of that family gives that is newer than those of the table."""


def output_cap(model: str) -> int | None:
    """The greatest number of tokens that this model may be asked for, if that is known."""
    return next((cap for name, cap in _NAMES if name.search(model)), None)


def clamped(wanted: int | None, model: str) -> int | None:
    """The number to ask for: never more than the model gives."""
    cap = output_cap(model)
    return wanted if wanted is None or cap is None else min(wanted, cap)


def filled(model: str, otherwise: int) -> int:
    """A number for a protocol that demands one, where the client says none: what the model gives, if it is known."""
    return output_cap(model) or (max(_ANY_CLAUDE, otherwise) if _CLAUDE.search(model) else otherwise)

"""Names of accounts: what may be one, and when two are the same.  Pure."""

from __future__ import annotations

import unicodedata
from typing import Final

from rivermouth.ir.errors import ApiError, invalid

LONGEST: Final = 64
MOST_TYPED: Final = 4 * LONGEST
"""Composing can shorten a text, but a name that needs more than that is none."""
UNFIT: Final = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
"""Categories of characters that nobody sees, or that no two systems see alike."""


def shown(name: str) -> str:
    """The name as it is kept: composed, without spaces around it, or more than one inside.  Raises `ApiError`."""
    plain = " ".join(unicodedata.normalize("NFKC", name[:MOST_TYPED]).split())
    if len(name) > MOST_TYPED or not 1 <= len(plain) <= LONGEST or not 1 <= len(key(plain)) <= LONGEST:
        raise _unfit(f"a name has 1 to {LONGEST} characters")
    if any(unicodedata.category(char) in UNFIT for char in plain):
        raise _unfit("a name has letters, digits and signs that can be seen")
    return plain


def key(name: str) -> str:
    """Equal for names that are one name: whatever case, width and composition they were typed in."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFD", name).casefold()).casefold()
    return " ".join(unicodedata.normalize("NFKC", folded).split())


def _unfit(why: str) -> ApiError:
    return invalid(why, "name", "unfit_name")

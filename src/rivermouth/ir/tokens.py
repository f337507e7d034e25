"""How many tokens a text is, where nobody has counted them."""

from __future__ import annotations

from typing import Final

CHARS_PER_TOKEN: Final = 4


def estimate_tokens(chars: int, chunks: int = 0) -> int:
    """Tokens in a text of that length: four characters a token, but never fewer than the pieces a model made of it."""
    return max(-(-chars // CHARS_PER_TOKEN), chunks)

"""Tokens to text as they come: each piece at once, a character never in halves, the work per token constant.

Decoding a token alone is wrong (a character may span several, a word may need its neighbour), and decoding all of
them each time is quadratic.  So a short window is decoded, and what is new at its end is the piece.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

# A character has at most 4 bytes, so 4 tokens; 8 of context let it and its word be decoded whole.
WINDOW_TOKENS: Final = 24
CONTEXT_TOKENS: Final = 8
_UNFINISHED: Final = "�"


Decode = Callable[[list[int]], str]


def spelling(decode: Decode, marks: Mapping[int, str], hidden: Collection[int]) -> Decode:
    """`decode` that shows some tokens which it would leave out, and leaves out some which it might show.

    marks: tokens with the text that stands for each.  hidden: tokens that end an answer.
    """

    def decoded(tokens: list[int]) -> str:
        pieces: list[str] = []
        run: list[int] = []
        for token in tokens:
            if token in marks:
                pieces += [decode(run) if run else "", marks[token]]
                run = []
            elif token not in hidden:
                run.append(token)
        return "".join([*pieces, decode(run) if run else ""])

    return decoded


class Detokenizer:
    """`decode` gives the text of a list of tokens; it drops, or ends with U+FFFD for, a character that is cut."""

    def __init__(self, decode: Decode) -> None:
        self._decode = decode
        self._window: list[int] = []
        self._shown = ""

    def feed(self, tokens: Sequence[int]) -> str:
        """The text that these tokens complete; "" while a character is unfinished."""
        self._window.extend(tokens)
        text = self._decode(self._window)
        piece = self._new(text.rstrip(_UNFINISHED))
        if len(self._window) >= WINDOW_TOKENS and self._shown == text:
            self._window = self._window[-CONTEXT_TOKENS:]
            self._shown = self._decode(self._window)
        return piece

    def flush(self) -> str:
        """What is left when no more tokens come."""
        return self._new(self._decode(self._window)) if self._window else ""

    def _new(self, text: str) -> str:
        """What follows the text that was shown.  Text that came out different is not shown twice."""
        if len(text) <= len(self._shown) or not text.startswith(self._shown):
            return ""
        piece = text[len(self._shown) :]
        self._shown = text
        return piece

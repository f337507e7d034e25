"""A text as the numbers that the network reads, no more of them than it can.

Only as much of a long text is looked at as fills the network's room, so a book costs what a page does: where a text is
cut, the word at the cut may be read otherwise than it would be in the whole, and no other.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

TOKENIZER: Final = "tokenizer.json"
# Of a long text this many characters for each token are looked at first.
LOOK_CHARS: Final = 8
LOOK_FACTOR: Final = 4
# A vocabulary without a token for what is not in it fails when it meets that, so it meets it at once.
UNKNOWN_WORD: Final = "q" * 1000
# So many tokens beside the word at the cut are not relied upon either: "[SEP]" cut in two is several words.
MARGIN_TOKENS: Final = 8


class Cut(StrEnum):
    """What may be left out of a text that is too long: nothing, its beginning, or its end."""

    NONE = "none"
    START = "start"
    END = "end"


class Tokens(NamedTuple):
    """`cut`: not all of the text is in them."""

    ids: tuple[int, ...]
    cut: bool


class Encoding(Protocol):
    """What the tokenizer makes of a text.  In the mask, 1 marks what it added around it; `word_ids` are None there."""

    @property
    def ids(self) -> list[int]: ...

    @property
    def special_tokens_mask(self) -> list[int]: ...

    @property
    def word_ids(self) -> list[int | None]: ...


class Tokenizer(Protocol):
    """As much of the tokenizer as is used here."""

    def encode(self, text: str) -> Encoding: ...


def load_tokenizer(tokenizers: Any, folder: Path, vocabulary: int) -> Tokenizer:
    """The model's own tokenizer, without the limits that are written in its file.  Raises `ValueError`."""
    try:
        made = tokenizers.Tokenizer.from_file(str(folder / TOKENIZER))
        made.encode(UNKNOWN_WORD)
    except Exception as error:  # the library has no narrower one for a bad file
        raise ValueError(f"{TOKENIZER} cannot be read: {error}") from None
    made.no_truncation()
    made.no_padding()
    largest = max(made.get_vocab(with_added_tokens=True).values(), default=0)
    if largest >= vocabulary:
        raise ValueError(f"{TOKENIZER} has a token {largest}, and the network knows {vocabulary}")
    tokenizer: Tokenizer = made
    return tokenizer


def read(tokenizer: Tokenizer, text: str, limit: int, cut: Cut) -> Tokens | None:
    """At most `limit` tokens, those around the text included; None when it has more and nothing may be left out."""
    encoding, whole = _look(tokenizer, text, limit, cut)
    if whole and len(encoding.ids) <= limit:
        return Tokens(tuple(encoding.ids), cut=False)
    if cut is Cut.NONE:
        return None
    return Tokens(shorten(encoding.ids, encoding.special_tokens_mask, limit, cut), cut=True)


def shorten(ids: Sequence[int], added: Sequence[int], limit: int, cut: Cut) -> tuple[int, ...]:
    """The tokens without those of one end of the text; what the tokenizer put around it stays (and is less than
    `limit`)."""
    begin = next((n for n, mark in enumerate(added) if not mark), len(ids))
    end = len(ids) - next((n for n, mark in enumerate(reversed(added)) if not mark), 0)
    room = limit - begin - (len(ids) - end)
    text = ids[begin:end]
    kept = text[max(0, len(text) - room) :] if cut is Cut.START else text[:room]
    return (*ids[:begin], *kept, *ids[end:])


def _look(tokenizer: Tokenizer, text: str, limit: int, cut: Cut) -> tuple[Encoding, bool]:
    """The tokens of the text, or of so much of one of its ends that they are enough; and whether of all."""
    chars = LOOK_CHARS * limit
    while chars < len(text):
        encoding = tokenizer.encode(text[-chars:] if cut is Cut.START else text[:chars])
        if _sure(encoding.word_ids, cut) >= limit + MARGIN_TOKENS:
            return encoding, False
        chars *= LOOK_FACTOR
    return tokenizer.encode(text), True


def _sure(words: Sequence[int | None], cut: Cut) -> int:
    """How many tokens are not of the word at the cut."""
    inner = [word for word in words if word is not None]
    if not inner:
        return 0
    return len(inner) - inner.count(inner[0 if cut is Cut.START else -1])

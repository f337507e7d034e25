"""A streamed answer as pieces of the wire, each with what it carries: a fault is told where to strike by that."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

PIECE_CHARS: Final = 7


class Tag(StrEnum):
    """What a piece of a stream carries."""

    OPEN = "open"
    THOUGHTS = "thoughts"
    TEXT = "text"
    CALL = "call"
    END = "end"


class Piece(msgspec.Struct, frozen=True):
    """Bytes that go out in one write."""

    tag: Tag
    data: bytes


def pieces_of(text: str) -> list[str]:
    """The text in deltas of a few characters."""
    return [text[at : at + PIECE_CHARS] for at in range(0, len(text), PIECE_CHARS)]


def through(pieces: list[Piece], tag: Tag, times: int) -> list[Piece]:
    """The beginning of a stream: everything up to the piece that is the `times`th with this tag."""
    places = [at for at, piece in enumerate(pieces) if piece.tag is tag]
    return pieces[: places[times - 1] + 1]

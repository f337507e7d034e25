"""The answers that a request goes on from: whether they are all there, and what is put before it.  Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rivermouth.dialects.dialect import Turn
from rivermouth.ir.errors import ApiError, invalid
from rivermouth.store.kept.port import KeptAnswer

LINKS_CAP: Final = 1000
MESSAGES_CAP: Final = 20_000
"""Of a talk with all that goes before it."""
PARAM: Final = "previous_response_id"
NOT_FOUND: Final = "previous_response_not_found"


def turns_of(previous: str, links: Sequence[KeptAnswer], limit_bytes: int) -> tuple[Turn, ...]:
    """The turns before a request, the oldest first; links: what the store has of them, the newest first.

    Raises `ApiError` where one is missing, has no end, or where there are too many.
    """
    if not links:
        raise _missing(previous)
    if links[0].ended_ns is None:
        raise invalid(f"'{previous[:100]}' is not there yet: it is in progress", PARAM, "previous_response_in_progress")
    if sum(len(link.input) + len(link.answer) for link in links) > limit_bytes:
        raise invalid(f"the talk before it is longer than {limit_bytes} bytes", PARAM, "previous_response_too_long")
    behind = links[-1].previous
    if behind is not None and len(links) >= LINKS_CAP:
        raise invalid(f"there are more than {LINKS_CAP} responses before it", PARAM, "previous_response_too_long")
    if behind is not None:
        raise _missing(behind)
    return tuple(map(turn_of, reversed(links)))


def turn_of(kept: KeptAnswer) -> Turn:
    return Turn(kept.call_id, kept.input, kept.answer)


def _missing(answer_id: str) -> ApiError:
    return invalid(f"there is no response '{answer_id[:100]}' to go on from", PARAM, NOT_FOUND)

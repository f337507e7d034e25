"""Which texts go into the next step.  Pure.

A step costs as much as its longest text times the number of texts, so it takes texts of like length, and no more than
`STEP_TOKENS` with what fills the shorter ones up.  That is also how long a cancel waits, and how long one call can
hold up the others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

STEP_TOKENS: Final = 1024
STEP_TEXTS: Final = 32


class Item(NamedTuple):
    """One text of a call: where it stood in it, and its tokens."""

    call: int
    at: int
    ids: tuple[int, ...]


def in_order(items: Iterable[Item]) -> deque[Item]:
    """The long ones first: a step then fills up with shorter ones, never the other way round."""
    return deque(sorted(items, key=lambda item: -len(item.ids)))


def pick(queues: Iterable[deque[Item]]) -> list[Item]:
    """Takes the texts of one step: as many of the first queue as it can have, then of the others what finds room.

    Takes one at least, if there is any.
    """
    taken: list[Item] = []
    longest = 0
    for queue in queues:
        while queue and len(taken) < STEP_TEXTS:
            length = max(longest, len(queue[0].ids))
            if taken and length * (len(taken) + 1) > STEP_TOKENS:
                break
            longest = length
            taken.append(queue.popleft())
    return taken

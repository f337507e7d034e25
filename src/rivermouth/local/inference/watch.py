"""Has the engine process stopped stepping?  A pure decision over what was heard of it, and when.

Silence counts only while a request lives, from the later of the last word and the request's beginning.  A loop that was
itself held up may have words in the pipe that it has not read yet: a look that comes late is no witness.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

LOOKS: Final = 4
"""So many looks in the time that a step may take: a hang is seen at most one look after it."""


class Verdict(Enum):
    REST = "rest"  # nobody waits for it: no more looks until somebody does
    LOOK_AGAIN = "look again"
    HANGS = "hangs"


def look_every_s(step_s: float) -> float:
    """The time between two looks."""
    return step_s / LOOKS


def judge(now: float, *, due: float, heard_at: float, live: bool, step_s: float) -> Verdict:
    """What a look that was due at `due` shows.  heard_at: the last word, or the beginning of the wait.  All seconds."""
    if not live:
        return Verdict.REST
    late = now - due > look_every_s(step_s)
    if late or now - heard_at < step_s:
        return Verdict.LOOK_AGAIN
    return Verdict.HANGS

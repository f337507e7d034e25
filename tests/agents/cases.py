"""What goes wrong on the way of a task, and what has to come of it."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from tests.agents.stream import Tag
from tests.agents.task import COMMANDS


class Kind(StrEnum):
    """A fault of an upstream."""

    NONE = "none"
    OVERLOADED = "overloaded"
    LIMITED = "limited"
    STALL = "stall"
    CUT = "cut"


class Fault(msgspec.Struct, frozen=True):
    """Strikes once, at the request with that many results in it.

    tag, times: a stall or a cut comes behind the `times`th piece that carries this.
    """

    kind: Kind
    tag: Tag = Tag.OPEN
    times: int = 1
    step: int = 0


class Case(msgspec.Struct, frozen=True):
    """rescued: the server asks again by itself, and the agent sees nothing of it; else the server is told not to, and
    the agent has to."""

    name: str
    fault: Fault
    rescued: bool
    words: str


LAST: Final = len(COMMANDS)
RETRY_AFTER_S: Final = 1

CASES: Final = (
    Case("plain", Fault(Kind.NONE), True, "nothing goes wrong"),
    Case("overloaded", Fault(Kind.OVERLOADED), True, "one 529 or 503, which the server rides out"),
    Case("stall", Fault(Kind.STALL), True, "one stream that stalls before its content, which the server gives up"),
    Case("overloaded, told", Fault(Kind.OVERLOADED), False, "one 529 or 503, which the agent is told"),
    Case("limited, told", Fault(Kind.LIMITED), False, "one 429 with Retry-After, which the agent is told"),
    Case("stall, told", Fault(Kind.STALL), False, "one stall before content, which the agent is told as 504"),
    Case("cut in a thought", Fault(Kind.CUT, Tag.THOUGHTS, 2), True, "the connection breaks in the first thought"),
    Case("cut in a text", Fault(Kind.CUT, Tag.TEXT, 2), True, "the connection breaks in the first text"),
    Case("cut in a call", Fault(Kind.CUT, Tag.CALL, 3), True, "the connection breaks in the arguments of a call"),
    Case("stall in a text", Fault(Kind.STALL, Tag.TEXT, 2), True, "silence in the first text"),
    Case("cut in the last text", Fault(Kind.CUT, Tag.TEXT, 2, LAST), True, "the connection breaks in the last text"),
)

BY_NAME: Final = {case.name: case for case in CASES}


def posts_wanted(case: Case) -> int:
    """How often the task's conversation has to reach the upstream: once for each answer, and once more for each that
    was spoilt.  More is a loop, less is an answer that was made up."""
    return len(COMMANDS) + 1 + (case.fault.kind is not Kind.NONE)

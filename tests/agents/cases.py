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
    SLOW = "slow"
    STALL = "stall"
    CUT = "cut"


class Fault(msgspec.Struct, frozen=True):
    """Strikes once, at the request with that many results in it.

    tag, times: slowness, a stall or a cut comes behind the `times`th piece that carries this.
    """

    kind: Kind
    tag: Tag = Tag.OPEN
    times: int = 1
    step: int = 0

    @property
    def spoils(self) -> bool:
        """What it strikes is no answer."""
        return self.kind not in (Kind.NONE, Kind.SLOW)


class Rescue(StrEnum):
    """What the server may do about an answer that has not begun: ask again, ask a second endpoint, or say so at once.

    What stalled had its time, so the same endpoint is not asked again.  shown: nothing, and it has shown life by then,
    with a 200 and a keep-alive, so it can only say so in the stream.
    """

    RETRY = "retry"
    SPARE = "spare"
    NONE = "none"
    SHOWN = "shown"


class Case(msgspec.Struct, frozen=True):
    """A fault, and what the server is configured to do about it."""

    name: str
    fault: Fault
    rescue: Rescue
    words: str

    @property
    def breaks(self) -> bool:
        """The agent has a stream that fails."""
        begun = self.fault.tag is not Tag.OPEN or self.rescue is Rescue.SHOWN
        return self.fault.kind in (Kind.CUT, Kind.STALL) and begun

    @property
    def told(self) -> bool:
        """The agent learns of the fault."""
        return self.breaks or (self.fault.spoils and self.rescue is Rescue.NONE)


LAST: Final = len(COMMANDS)
RETRY_AFTER_S: Final = 1
HOLD_S: Final = 1
"""When a server that shows life does so first."""
SLOW_S: Final = 2.5

CASES: Final = (
    Case("plain", Fault(Kind.NONE), Rescue.RETRY, "nothing goes wrong"),
    Case("overloaded", Fault(Kind.OVERLOADED), Rescue.RETRY, "a 529 or 503; the server asks again"),
    Case("stall", Fault(Kind.STALL), Rescue.SPARE, "a stall before content; the server asks its second endpoint"),
    Case("overloaded, told", Fault(Kind.OVERLOADED), Rescue.NONE, "a 529 or 503; the agent is told"),
    Case("limited, told", Fault(Kind.LIMITED), Rescue.NONE, "a 429 with Retry-After; the agent is told"),
    Case("stall, told", Fault(Kind.STALL), Rescue.NONE, "a stall before content; the agent is told (504)"),
    Case("slow", Fault(Kind.SLOW), Rescue.SHOWN, "a model that takes its time; keep-alives meanwhile"),
    Case("stall, shown", Fault(Kind.STALL), Rescue.SHOWN, "a stall before content, behind a keep-alive"),
    Case("cut in a thought", Fault(Kind.CUT, Tag.THOUGHTS, 2), Rescue.RETRY, "a cut in the first thought"),
    Case("cut in a text", Fault(Kind.CUT, Tag.TEXT, 2), Rescue.RETRY, "a cut in the first text"),
    Case("cut in a call", Fault(Kind.CUT, Tag.CALL, 3), Rescue.RETRY, "a cut in the arguments of a call"),
    Case("stall in a text", Fault(Kind.STALL, Tag.TEXT, 2), Rescue.RETRY, "silence in the first text"),
    Case("cut in the last text", Fault(Kind.CUT, Tag.TEXT, 2, LAST), Rescue.RETRY, "a cut in the last text"),
)


def posts_wanted(case: Case) -> int:
    """How often the task's conversation has to reach the upstream: once for each answer, and once more for each that
    was spoilt.  More is a loop, less is an answer that was made up."""
    return len(COMMANDS) + 1 + case.fault.spoils

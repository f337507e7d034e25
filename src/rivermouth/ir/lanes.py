"""Parts that overlap, for a wire that has one place for all of them.

A lane is such a place: one string that every text of a choice is joined to, say.  The first open part of a lane
speaks; what the others say meanwhile is kept until their turn comes, so that a stream says what the whole answer says:
each part's text in one piece, in the order of opening (F26).

    open(part, lane)   -> True: it speaks            hold(event)   keeps what a waiting part says, its end included
    close(part)        -> who speaks next            drain()       everything that was kept: the stream fails

`OneAtATime` is what encoders have in common whose whole wire is one lane.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Hashable
from enum import Enum
from typing import Any, ClassVar, Final, NamedTuple

from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.events import ArgsDelta, Event, MediaDelta, PartEnd, PartStart, ReasoningDelta, Signature, TextDelta

WAITING_CAP_CHARS: Final = 16 * 1024 * 1024
NOBODY: Final = -1
"""The number of no part."""
_WIRE: Final = 0


class Said(NamedTuple):
    """What a part said while it waited, and whether it has ended meanwhile."""

    part: int
    events: list[Event]
    ended: bool


class Lanes:
    """Whose turn it is.  Raises `ApiError` (upstream) when what has to wait is more than the cap."""

    __slots__ = ("_cap", "_chars", "_held", "_lane_of", "_lanes")

    def __init__(self, cap_chars: int = WAITING_CAP_CHARS) -> None:
        self._lanes: dict[Hashable, deque[int]] = {}  # the open parts of each, the one that speaks first
        self._lane_of: dict[int, Hashable] = {}
        self._held: dict[int, list[Event]] = {}
        self._chars = 0
        self._cap = cap_chars

    def open(self, part: int, lane: Hashable) -> bool:
        """True when the part may speak at once."""
        queue = self._lanes.setdefault(lane, deque())
        self._lane_of[part] = lane
        queue.append(part)
        if len(queue) == 1:
            return True
        self._held[part] = []
        return False

    def waits(self, part: int) -> bool:
        return part in self._held

    def hold(self, part: int, event: Event) -> None:
        """What a waiting part says, its end included."""
        chars = said_chars(event)
        if self._chars + chars > self._cap:
            raise ApiError(Kind.UPSTREAM, "the upstream's answer cannot be put in this protocol's order within bounds")
        self._chars += chars
        self._held[part].append(event)

    def close(self, part: int) -> list[Said]:
        """The part that spoke has ended: those that come next, up to the first that has not ended itself."""
        queue = self._lanes[self._lane_of.pop(part)]
        queue.popleft()
        turns: list[Said] = []
        while queue:
            said = self._release(queue[0])
            turns.append(said)
            if not said.ended:
                break
            del self._lane_of[queue.popleft()]
        return turns

    def drain(self) -> list[Said]:
        """Each waiting part, in the order of opening."""
        return [self._release(part) for part in list(self._held)]

    def statistics(self) -> dict[str, int]:
        return {"waiting_chars": self._chars, "cap_chars": self._cap}

    def _release(self, part: int) -> Said:
        events = self._held.pop(part)
        self._chars -= sum(map(said_chars, events))
        ended = bool(events) and type(events[-1]) is PartEnd
        return Said(part, events[:-1] if ended else events, ended)


class Ending(Enum):
    """What ends a part's turn: its own end, that of the answer before it, or that of a stream that has failed."""

    WHOLE = "whole"
    OPEN = "open"
    CUT = "cut"


Delta = TextDelta | ReasoningDelta | ArgsDelta | Signature | MediaDelta


class OneAtATime(ABC):
    """An encoder whose wire has one place for all parts: one of them holds it, and what the others say waits.

    Of its parts every turn is `_take`, `_write` for each delta, `_release`; turns never overlap, and come in the order
    in which the parts were opened.  Raises `ApiError` (upstream) when what has to wait is more than the cap.
    """

    __slots__ = ("_holder", "_lanes", "_starts")

    def __init__(self, cap_chars: int = WAITING_CAP_CHARS) -> None:
        self._lanes = Lanes(cap_chars)
        self._starts: dict[int, PartStart] = {}  # of the parts that have not ended
        self._holder = NOBODY  # the part that holds the wire

    @abstractmethod
    def _take(self, start: PartStart, out: list[bytes]) -> None:
        """The part holds the wire from here on."""

    @abstractmethod
    def _write(self, event: Delta, out: list[bytes]) -> None:
        """What the part says that holds the wire."""

    @abstractmethod
    def _release(self, ending: Ending, out: list[bytes]) -> None:
        """The part that holds the wire has said all that it will."""

    def part_start(self, event: PartStart, out: list[bytes]) -> None:
        """A part of another choice has no place: who has one wire has one answer, and cannot have asked for more."""
        if event.choice:
            return
        self._starts[event.part] = event
        if self._lanes.open(event.part, _WIRE):
            self._hand_to(event, out)

    def part_delta(self, event: Delta, out: list[bytes]) -> None:
        if event.part == self._holder:
            self._write(event, out)
        elif self._lanes.waits(event.part):
            self._lanes.hold(event.part, event)

    def part_end(self, event: PartEnd, out: list[bytes]) -> None:
        if self._lanes.waits(event.part):
            self._lanes.hold(event.part, event)
        elif self._starts.pop(event.part, None) is not None:
            self._let_go(Ending.WHOLE, out)
            for said in self._lanes.close(event.part):
                self._repeat(said, out)
                if said.ended:
                    del self._starts[said.part]
                    self._let_go(Ending.WHOLE, out)

    PARTS: ClassVar[dict[type, Callable[[OneAtATime, Any, list[bytes]], None]]] = {
        PartStart: part_start,
        TextDelta: part_delta,
        ReasoningDelta: part_delta,
        ArgsDelta: part_delta,
        Signature: part_delta,
        MediaDelta: part_delta,
        PartEnd: part_end,
    }
    """What is done with each event of a part."""

    def _drain(self, left: Ending, out: list[bytes]) -> None:
        """Every turn that was not over, in order (F13).  left: how those end that had no end of their own."""
        if self._holder != NOBODY:
            self._let_go(left, out)
        for said in self._lanes.drain():
            self._repeat(said, out)
            self._let_go(Ending.WHOLE if said.ended else left, out)

    def _repeat(self, said: Said, out: list[bytes]) -> None:
        """A part that waited holds the wire, with all that it has said."""
        self._hand_to(self._starts[said.part], out)
        for event in said.events:
            self._write(event, out)  # type: ignore[arg-type]  # no start is held, and the end has been taken off

    def _hand_to(self, start: PartStart, out: list[bytes]) -> None:
        self._holder = start.part
        self._take(start, out)

    def _let_go(self, ending: Ending, out: list[bytes]) -> None:
        self._holder = NOBODY
        self._release(ending, out)


def said_chars(event: Event) -> int:
    """The characters that an event of a part carries."""
    match event:
        case TextDelta() | ReasoningDelta():
            return len(event.text)
        case ArgsDelta():
            return len(event.json)
        case Signature():
            return len(event.signature)
        case MediaDelta():
            return len(event.data or "") + len(event.url or "")
        case _:
            return 0

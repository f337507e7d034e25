"""Parts that overlap, for a wire that has one place for all of them.

A lane is such a place: one string that every text of a choice is joined to, say.  The first open part of a lane
speaks; what the others say meanwhile is kept until their turn comes, so that a stream says what the whole answer says:
each part's text in one piece, in the order of opening (F26).

    open(part, lane)   -> True: it speaks            hold(event)   keeps what a waiting part says, its end included
    close(part)        -> who speaks next            drain()       everything that was kept: the stream fails
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Final, NamedTuple

from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.events import ArgsDelta, Event, MediaDelta, PartEnd, ReasoningDelta, Signature, TextDelta

WAITING_CAP_CHARS: Final = 16 * 1024 * 1024


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

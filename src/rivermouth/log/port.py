"""What a log of a chat's turns must do.

A log is a list of entries with growing ids, one for each chat.  One writer appends at a time, and the ids, not the
adapter, see to that: an entry whose id is not above the last one is refused, also after everything was trimmed away.
So the first entry of generation g+1 shuts out the writer of generation g for ever.

A log may be lost at any instant (a restart, an eviction).  Then `append` says so instead of beginning a new one in
silence, unless the entry is one that may (`opening`): the first of a turn, a fence, or a snapshot of all that was said.

The contract suite in tests/chat/test_log.py runs over every adapter.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple, Protocol, Self


class FrameId(NamedTuple):
    """Which frame of a chat: the generation of its writer, and the number among that writer's frames, from 0.

    Compared as a pair of numbers.  As text it is "<generation>-<seq>", the `id:` of the frame on every wire.
    """

    generation: int
    seq: int

    def __str__(self) -> str:
        return f"{self.generation}-{self.seq}"

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """None for what is none."""
        generation, dash, seq = text.partition("-")
        if not (dash and generation.isascii() and seq.isascii() and generation.isdigit() and seq.isdigit()):
            return None
        if len(generation) > LONGEST_NUMBER or len(seq) > LONGEST_NUMBER:
            return None
        return cls(int(generation), int(seq))

    def next(self) -> FrameId:
        return FrameId(self.generation, self.seq + 1)


LONGEST_NUMBER: Final = 18
ZERO: Final = FrameId(0, 0)
"""Before every frame: generations begin with 1."""


class Landed(Enum):
    """What became of an append.

    OK: it is the last entry now.  FENCED: another writer has come; stop.  LOST: the log is gone and this entry may not
    begin a new one.
    """

    OK = "ok"
    FENCED = "fenced"
    LOST = "lost"


class Entry(NamedTuple):
    id: FrameId
    body: bytes


class Page(NamedTuple):
    """Entries after a cursor, oldest first.

    exact: the cursor's own entry is in the log, so nothing is missing between it and these.
    last: the newest entry's id, trimmed or not; None when there is no log.
    """

    entries: Sequence[Entry]
    exact: bool
    last: FrameId | None


class LogError(Exception):
    """The log cannot be reached now."""


class LogStatistics(NamedTuple):
    logs: int
    entries: int
    size_bytes: int
    limit_bytes: int
    evicted: int


class StreamLog(Protocol):
    """The port.  Every method may raise `LogError`."""

    async def append(self, chat: str, at: FrameId, body: bytes, *, opening: bool = False) -> Landed:
        """Add one entry.  Nothing is written unless this returns OK."""
        ...

    async def read(self, chat: str, after: FrameId, limit: int) -> Page:
        """At most `limit` entries above `after`."""
        ...

    async def trim(self, chat: str, before: FrameId) -> None:
        """Forget entries below that id.  What is refused stays refused."""
        ...

    async def drop(self, chat: str) -> None:
        """Forget the whole log: appends find it lost."""
        ...

    async def close(self) -> None:
        """Release what it holds.  Idempotent."""
        ...

"""The answer of one call as a log of bytes: one writer, and any number of readers that come and go.

    start     status and headers are there
    write     bytes are appended, and go on at once to each reader that has read all before them
    send      the same, by a writer that can wait for room
    finish    the last bytes; nothing follows
    break_off there is no proper end: readers get what there is, and then are hung up on

A reader gets a prefix of the log and nothing else, whenever it comes: so what a client has, and what it gets later from
there on, are together the whole answer, byte for byte.  The cursor is an offset into the body.

Readers at the tail are written to where the bytes arrive, without waking anybody.  One that cannot take them falls
behind: from then on its own task reads from the log, as much at a time as its client takes, until it has caught up.

Memory: a log holds at most `limit_bytes`, and all of them what their `Budget` says, and what one `send` brings beyond.
A log that is full forgets what every reader has read, the oldest first.  What somebody has still to read, or everything
while nobody reads, is kept, and the writer waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Final, Self

from rivermouth.log.budget import QUANTUM_BYTES, Budget

PIECE_BYTES: Final = 64 * 1024
"""What a reader that is behind takes at a time."""
SPARE: Final = 8
"""A full log frees an eighth at a time, since moving its bytes is dear."""

HeadFields = Sequence[tuple[bytes, bytes]]


class BrokenOffError(Exception):
    """The log has no proper end, and everything in it has been read."""


class TrimmedError(Exception):
    """What is asked for has been forgotten."""


class AnswerLog:
    """See above.  first, end: offsets of the first byte that is kept, and after the last one that was written.

    attended, deserted: called when the first reader has come, and when the last has left.
    known: some reader has been given the head, so somebody may know how to come again.
    """

    __slots__ = (
        "_budget",
        "_buffer",
        "_granted",
        "_limit_bytes",
        "_readers",
        "_room",
        "_tail",
        "attended",
        "broken",
        "deserted",
        "ended",
        "first",
        "headers",
        "known",
        "started",
        "status",
    )

    def __init__(self, budget: Budget, limit_bytes: int) -> None:
        self._buffer = bytearray()
        self._budget = budget
        self._granted = 0
        self._limit_bytes = limit_bytes
        self._readers: set[Reader] = set()
        self._tail: tuple[Reader, ...] = ()
        self._room: asyncio.Future[None] | None = None
        self.attended: Callable[[], None] = _nothing
        self.deserted: Callable[[], None] = _nothing
        self.first = 0
        self.status = 0
        self.headers: HeadFields = ()
        self.started = self.ended = self.broken = self.known = False

    @property
    def end(self) -> int:
        return self.first + len(self._buffer)

    @property
    def held_bytes(self) -> int:
        """What it has of the budget."""
        return self._granted

    @property
    def read(self) -> int:
        """How far every reader has got; where there is none, nothing is read."""
        return min((reader.at for reader in self._readers), default=self.first)

    @property
    def readers(self) -> int:
        return len(self._readers)

    def admit(self) -> bool:
        """Takes what a log begins with; False when there is no room for another one."""
        return self._fits(1)

    def start(self, status: int, headers: HeadFields) -> None:
        self.status, self.headers, self.started = status, headers, True
        self._wake()

    def write(self, data: bytes) -> bool:
        """Append; False, and nothing is written, when the log is full: then `send` waits."""
        buffer = self._buffer
        if len(buffer) + len(data) > self._granted and not self._fits(len(data)):
            return False
        buffer += data
        for reader in self._tail:
            if not reader.write(data):
                reader.fall_behind(len(data))
        return True

    async def send(self, data: bytes) -> None:
        """Append, and return when the log is not full any more."""
        if not self.write(data):
            self._budget.force(len(data))
            self._granted += len(data)
            self.write(data)
        while self._full() and not self.ended:
            self._room = asyncio.get_running_loop().create_future()
            self._budget.waiting.add(self._made_room)
            try:
                await self._room
            finally:
                self._budget.waiting.discard(self._made_room)
                self._room = None

    def finish(self, data: bytes) -> None:
        """The last bytes, which wait for nobody."""
        for reader in self._tail:
            reader.fall_behind(0)
        if not self.write(data):
            self._budget.force(len(data))
            self._granted += len(data)
            self.write(data)
        self.ended = True
        self._settle()

    def break_off(self) -> None:
        """No proper end comes."""
        if not self.ended:
            self.ended = self.broken = True
            self._settle()

    def forget(self) -> None:
        """Everything is given back; readers that are still there are hung up on."""
        self.break_off()
        for reader in tuple(self._readers):
            reader.cut()
        self.first = self.end
        self._buffer = bytearray()
        self._shrink()

    def piece(self, at: int) -> bytes:
        """What follows that offset, as much as is read at a time.  Raises `TrimmedError`."""
        start = at - self.first
        if start < 0:
            raise TrimmedError
        return bytes(memoryview(self._buffer)[start : start + PIECE_BYTES])

    def join(self, reader: Reader) -> None:
        self._readers.add(reader)
        if len(self._readers) == 1:
            self.attended()

    def leave(self, reader: Reader) -> None:
        if reader in self._readers:
            self._readers.remove(reader)
            self.drop_behind(reader)
            self._made_room()
            if not self._readers:
                self.deserted()

    def at_tail(self, reader: Reader) -> None:
        self._tail = (*self._tail, reader)

    def drop_behind(self, reader: Reader) -> None:
        self._tail = tuple(other for other in self._tail if other is not reader)

    def moved(self) -> None:
        """Some reader has got further."""
        if self._room is not None:
            self._made_room()

    def _fits(self, more: int) -> bool:
        """There is room for so many bytes, or could be made."""
        size = len(self._buffer) + more
        if size > self._granted:
            wanted = min(size + QUANTUM_BYTES - size % QUANTUM_BYTES, self._limit_bytes) - self._granted
            if wanted > 0 and self._budget.grant(wanted):
                self._granted += wanted
        if size > self._granted:
            self._trim(size - self._granted)
        return len(self._buffer) + more <= self._granted

    def _full(self) -> bool:
        """Waiting helps, and is needed."""
        if len(self._buffer) > self._limit_bytes or self._budget.over:
            self._trim(max(len(self._buffer) - self._limit_bytes, self._budget.taken_bytes - self._budget.limit_bytes))
            self._shrink()
        return bool(self._buffer) and (len(self._buffer) > self._limit_bytes or self._budget.over)

    def _trim(self, least: int) -> None:
        read = self.read - self.first
        if read > 0:
            size = min(read, max(least, self._granted // SPARE))
            del self._buffer[:size]
            self.first += size

    def _shrink(self) -> None:
        surplus = self._granted - len(self._buffer)
        self._granted -= surplus
        self._budget.release(surplus)

    def _settle(self) -> None:
        self._shrink()
        self._made_room()
        self._wake()

    def _made_room(self) -> None:
        if self._room is not None and not self._room.done():
            self._room.set_result(None)

    def _wake(self) -> None:
        for reader in self._readers:
            reader.wake()


class Reader:
    """One reader of a log.  `with reader:` from its coming to its leaving; `at` is how far it has got.

    write: takes bytes at once, or says False and does not.  hang_up: closes the client's connection.
    """

    __slots__ = ("_at", "_given", "_live", "_log", "_waiter", "gone", "hang_up", "write")

    def __init__(self, log: AnswerLog, at: int, write: Callable[[bytes], bool], hang_up: Callable[[], None]) -> None:
        self._log = log
        self._at = at
        self._given = 0
        self._live = False
        self._waiter: asyncio.Future[None] | None = None
        self.write = write
        self.hang_up = hang_up
        self.gone = False

    @property
    def at(self) -> int:
        return self._log.end if self._live else self._at

    def __enter__(self) -> Self:
        self._log.join(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._log.leave(self)

    async def head(self) -> bool:
        """True when there is a head; False when there is none and will be none, or the client has gone."""
        log = self._log
        while not (log.started or log.ended or self.gone):
            await self._woken()
        return log.started and not self.gone

    async def next(self) -> tuple[bytes, bool]:
        """Bytes for the client, and whether they are the last; (b"", False) when it has gone.

        Asked again when the bytes before have been taken.  Raises `BrokenOffError`, `TrimmedError`.
        """
        log = self._log
        if self._given:
            self._at += self._given
            self._given = 0
            log.moved()
        while not self.gone:
            data = log.piece(self._at)
            if data or log.ended:
                if log.broken and not data:
                    raise BrokenOffError
                self._given = len(data)
                return data, log.ended and not log.broken and self._at + len(data) == log.end
            self._live = True
            log.at_tail(self)
            try:
                await self._woken()
            finally:
                self._off_tail(log.end)
        return b"", False

    def fall_behind(self, size: int) -> None:
        """The last `size` bytes of the log, or those that come now, are for its own task to read."""
        self._off_tail(self._log.end - size)
        self.wake()

    def leave(self) -> None:
        """The client has gone."""
        self.gone = True
        self.wake()

    def cut(self) -> None:
        """The client is sent away."""
        self.leave()
        self.hang_up()

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _off_tail(self, at: int) -> None:
        if self._live:
            self._live = False
            self._at = at
            self._log.drop_behind(self)

    async def _woken(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None


def _nothing() -> None:
    """Nobody cares."""

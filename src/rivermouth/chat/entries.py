"""What the writer of a turn appends to the chat's log: entries, one after the other, each under the next frame id.

reached      an entry is appended, and followers are rung
grown        one entry with all of the turn's takes the place of those before it
lost         the log has forgotten: it begins anew with all that was said, if the turn is still ours
unreachable  it is tried again now and then, with all that was said; the row and its checkpoints say it meanwhile
fenced       another writer has come: nothing of ours is taken any more
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from rivermouth.chat import frames, moves
from rivermouth.chat.moves import Fenced
from rivermouth.chat.ports import Ports, chat_channel, slot_key
from rivermouth.log.port import FrameId, Landed, LogError
from rivermouth.store.chats.port import Chat, Turn

log = structlog.get_logger()


class Entries:
    """last: the id of the newest entry.  written_s: when one was last due.  unkept: no checkpoint has it yet.

    whole: an entry that says all that was said so far.
    """

    def __init__(self, turn: Turn, chat: Chat, ports: Ports, whole: Callable[[], bytes]) -> None:
        self.last = FrameId(turn.generation, -1)
        self.written_s = ports.clock.now_s()
        self.unkept = False
        self._turn = turn
        self._channel = chat_channel(chat.id)
        self._key = slot_key(chat.owner, chat.id)
        self._ports = ports
        self._whole = whole
        self._dark_s: float | None = None  # since when, or when last tried, the log cannot be reached
        self._bytes = 0

    async def append(self, frame: frames.Frame, *, opening: bool = False) -> None:
        """One entry more.  Raises `Fenced`."""
        self.written_s = self._ports.clock.now_s()
        self.unkept = True
        if self._dark_s is not None and not self._try_again():
            return
        body = frames.encode(frame) if self._dark_s is None else self._whole()
        try:
            landed = await self._ports.log.append(
                self._key, self.last.next(), body, opening=opening or self._dark_s is not None
            )
            if landed is Landed.LOST:
                await self._reopen()
            elif landed is Landed.FENCED:
                raise Fenced
            else:
                self.last = self.last.next()
                self._bytes += len(body)
                if self._bytes > self._ports.settings.snapshot_bytes:
                    await self._compact()
        except LogError:
            self._warn()
            self._dark_s = self.written_s
            return
        self._dark_s = None
        self.ring()

    async def end(self, frame: frames.Ended) -> None:
        """The last one, after the end was committed: who does not get it reads the row."""
        try:
            await self._ports.log.append(self._key, self.last.next(), frames.encode(frame))
        except LogError:
            self._warn()
        self.ring()

    def leave_an_id_unused(self) -> None:
        """A row that has more than the log has a frame id of its own: readers who were told it know what they have."""
        if self._dark_s is not None:
            self.last = self.last.next()

    async def trim(self, before: FrameId) -> None:
        try:
            await self._ports.log.trim(self._key, before)
        except LogError:
            self._warn()

    def ring(self) -> None:
        self._ports.doorbell.ring(self._channel)

    def _try_again(self) -> bool:
        return self._dark_s is not None and self.written_s >= self._dark_s + self._ports.settings.look_s

    async def _reopen(self) -> None:
        self._ports.metrics.log_lost()
        log.warning("log.lost", chat=self._key)
        await self._ports.store.run(lambda tx: moves.still_mine(tx, self._turn))
        await self._replace(self.last.next())

    async def _compact(self) -> None:
        at = self.last.next()
        await self._replace(at)
        await self.trim(at)

    async def _replace(self, at: FrameId) -> None:
        """All of the turn in one entry."""
        landed = await self._ports.log.append(self._key, at, self._whole(), opening=True)
        if landed is not Landed.OK:
            raise Fenced
        self.last = at
        self._bytes = 0

    def _warn(self) -> None:
        log.warning("log.unreachable", chat=self._key)

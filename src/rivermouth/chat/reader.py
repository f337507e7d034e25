"""What every reader of a chat does: it asks, and nobody waits for it.

A follower holds a cursor and no queue.  It reads the log, and where the log has nothing more, the rows.  So its end is
sure twice: by the log's, and by the row's.  What a log has lost, a row or a snapshot makes good: text is known by its
place in the answer, so nothing is shown twice and nothing is left out.

    bytes = await follower.next(limit_s)         b"" when there was nothing for so long; the end when `ended`
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, Final

import structlog

from rivermouth.chat import frames, wire
from rivermouth.chat.draft import digest
from rivermouth.chat.feed import Board, Feed
from rivermouth.chat.machine import TERMINAL
from rivermouth.chat.ports import Ports, chat_channel
from rivermouth.chat.wire import Ending
from rivermouth.log.port import ZERO, FrameId, LogError, Page
from rivermouth.store.chats.port import Answer, Turn
from rivermouth.store.port import StoreError
from rivermouth.wire import json

log = structlog.get_logger()

_error: Final = json.typed(dict[str, str])

NOTHING: Final = Page((), False, None)
SAME_RING_S: Final = 0.005
"""Followers that one ring has woken ask the rows together."""


def ending_of(turn: Turn, answer: Answer | None, message_id: int | None = None) -> Ending:
    """How a turn ended, as its row says."""
    text = answer.text if answer is not None else ""
    return Ending(
        state=turn.state,
        message_id=turn.assistant_message_id if message_id is None else message_id,
        provider=turn.provider,
        error=json.decode_as(_error, turn.error.encode()) if turn.error is not None else None,
        text_chars=len(text),
        digest=digest(text),
    )


def ending_in(frame: frames.Ended) -> Ending:
    """How a turn ended, as its log says."""
    return Ending(
        state=frame.state,
        message_id=frame.message_id,
        provider=frame.provider,
        error=frame.error,
        text_chars=frame.text_chars,
        digest=frame.digest,
    )


def whole_before(end: FrameId) -> FrameId:
    """The id that stands for the whole text of a turn which ended with `end`: nothing but the end is after it.

    An owner or reaper whose log lacks some of the text leaves this id unused, for whoever tells that text from the row.
    """
    return FrameId(end.generation, max(end.seq - 1, 0))


def text_upto(answer: Answer, at: FrameId) -> FrameId:
    """The id that the text of an answer bears which was asked for at `at` and may have gone on, or ended, since."""
    found = FrameId.parse(answer.folded_to) or at
    return whole_before(found) if answer.state in TERMINAL else found


class Outbox:
    """Frames that wait for a client's next read; neighbouring texts become one token.

    What is long is made piece by piece, as it is read, so no more than `limit_bytes` and a piece are held.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._pieces: deque[bytes | Iterator[bytes]] = deque()
        self._run: list[str] = []
        self._at = ZERO
        self._size = 0

    def __bool__(self) -> bool:
        return bool(self._pieces or self._run)

    @property
    def full(self) -> bool:
        return self._size >= self._limit_bytes

    def frame(self, data: bytes) -> None:
        """b"" is none."""
        if data:
            self._close()
            self._pieces.append(data)
            self._size += len(data)

    def text(self, at: FrameId, text: str) -> None:
        """More of the answer, up to the frame `at`."""
        self._run.append(text)
        self._at = at
        self._size += len(text)

    def long(self, event: str, at: FrameId | None, member: str, text: str, begin: int = 0, **members: Any) -> None:
        """A frame with a text that may have any length."""
        self._close()
        self._pieces.append(wire.long(event, at, member, text, begin, **members))
        self._size += self._limit_bytes

    def pop(self) -> bytes:
        """Some of it, in order; b"" when there is nothing."""
        self._close()
        taken: list[bytes] = []
        size = 0
        while self._pieces and size < self._limit_bytes:
            piece = self._pieces[0]
            if taken and isinstance(piece, bytes) and size + len(piece) > self._limit_bytes:
                break
            data = piece if isinstance(piece, bytes) else next(piece, None)
            if data is None or isinstance(piece, bytes):
                self._pieces.popleft()
            if data is not None:
                taken.append(data)
                size += len(data)
        if not self._pieces:
            self._size = 0
        return b"".join(taken)

    def _close(self) -> None:
        if self._run:
            self._pieces.append(wire.token(self._at, "".join(self._run)))
            self._run = []


class Reader:
    """Waits, and looks by itself now and then."""

    def __init__(self, feed: Feed, ports: Ports) -> None:
        self.feed = feed
        self.out = Outbox(ports.settings.drain_bytes)
        self.cursor = ZERO
        self._ports = ports
        self._bell = ports.doorbell.listen(chat_channel(feed.chat.id))
        self._rung_s = ports.clock.now_s()
        self._over = False
        feed.bells.add(self._bell)

    @property
    def ended(self) -> bool:
        """Everything was read, and there will be no more."""
        return self._over and not self.out

    def close(self) -> None:
        """The reader will not ask again.  Idempotent."""
        self.feed.bells.discard(self._bell)
        self._bell.close()

    async def next(self, limit_s: float) -> bytes:
        """What there is to be sent; b"" after `limit_s` without anything.  A long frame comes in several pieces."""
        if self.out:
            return self.out.pop()
        clock, look_s = self._ports.clock, self._ports.settings.look_s
        until_s = clock.now_s() + limit_s
        rung = True
        while True:
            self._bell.clear()
            page = await self._page()
            if page.entries and not rung:
                self._ports.metrics.missed_ring()
            try:
                await self._read(page)
            except StoreError as error:  # the rows cannot be asked now; the log still can
                log.warning("chat.store_failed", work="follow", reason=str(error))
            if not self.out and not self._over and self.feed.dismissed and self._may_go():
                self._bye()
            left_s = until_s - clock.now_s()
            if self.out or self._over or left_s <= 0:
                return self.out.pop()
            rung = await self._bell.wait(min(left_s, look_s))
            if rung:
                self._rung_s = clock.now_s() - SAME_RING_S

    async def _read(self, page: Page) -> None:
        """Everything that is not for this client is passed over at once."""
        while True:
            before = self.cursor
            await self._take(page)
            if self.out or self._over:
                return
            if self.cursor == before:
                await self._look(page)
                return
            page = await self._page()

    async def _page(self) -> Page:
        try:
            page = await self.feed.page(self.cursor)
        except LogError:
            return NOTHING
        if page.entries and page.last is not None:
            self._ports.metrics.lag(_behind(page))
        return page

    async def _board(self) -> Board:
        """No older than the last ring, which may be about them, or than any change that the feed knows of."""
        return await self.feed.board(no_older_s=self._rung_s)

    async def _take(self, page: Page) -> None:
        """What the log has for this client.  The cursor moves over what was told, and over what is not for it."""
        raise NotImplementedError

    async def _look(self, page: Page) -> None:
        """What the rows say where the log says nothing, or, in `page`, what cannot be told without them."""
        raise NotImplementedError

    def _bye(self) -> None:
        """The server sends its followers away: they come again, to another start of it."""
        self._over = True

    def _may_go(self) -> bool:
        """Nothing will be told any more while this server lives."""
        return True

    def _merges(self, page: Page) -> bool:
        """So far behind that pieces are joined."""
        return _behind(page) > self._ports.settings.lag_frames


def _behind(page: Page) -> int:
    """How many frames the newest is ahead of the first of the page, within one generation."""
    if page.last is None or not page.entries or page.last.generation != page.entries[0].id.generation:
        return 0
    return page.last.seq - page.entries[0].id.seq

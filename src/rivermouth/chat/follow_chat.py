"""The reader behind `/events`: a chat, across its turns, after a cursor.

What the log has lost comes from the rows, as a `snapshot` that takes the place of what the client shows.
"""

from __future__ import annotations

from typing import Final

from rivermouth.chat import frames, wire
from rivermouth.chat.feed import Board, Feed
from rivermouth.chat.machine import LIVE, TERMINAL
from rivermouth.chat.ports import Ports
from rivermouth.chat.reader import NOTHING, Reader, ending_in, ending_of, text_upto
from rivermouth.chat.wire import EVENTS
from rivermouth.log.port import ZERO, Entry, FrameId, Page
from rivermouth.store.chats.port import Answer, Turn
from rivermouth.store.port import StoreError

MOST_MISSED: Final = 20
"""Turns that a reader is told of one by one after a long absence; it asks for the chat anew if there were more."""


class ChatFollower(Reader):
    """A chat, across its turns, after a cursor; `until`: the turn with whose end it ends."""

    def __init__(self, feed: Feed, ports: Ports, *, after: FrameId | None, until: int | None = None) -> None:
        super().__init__(feed, ports)
        self._until = until
        self._greeted = False
        self._caught_up = False
        self._given = after
        self.cursor = after or ZERO
        self._open: int | None = None
        settings = ports.settings
        spread = ports.clock.between(0.9, 1.1)
        self._recycle_s = ports.clock.now_s() + settings.recycle_s * spread

    def _bye(self) -> None:
        """The server wants the client to come again, not all at once."""
        retry_ms = int(self._ports.settings.retry_ms * self._ports.clock.between(1.0, 3.0))
        self.out.frame(b"retry: %d\n" % retry_ms + wire.sse("bye", None))
        self._over = True

    async def next(self, limit_s: float) -> bytes:
        if not self.out and not self._greeted:
            await self._greet()
        elif not self.out and self._ports.clock.now_s() >= self._recycle_s:
            self._bye()
        return await super().next(min(limit_s, max(self._recycle_s - self._ports.clock.now_s(), 0.001)))

    async def _greet(self) -> None:
        self._greeted = True
        try:
            board = await self.feed.board(no_older_s=self._ports.clock.now_s())
        except StoreError:
            self._bye()
            return
        live = next((turn for turn in board.turns if turn.state in LIVE), None)
        if self._given is None:
            wanted = next((turn.seqno for turn in board.turns if turn.id == self._until), None)
            self.cursor = _told_of(board, wanted)
        exact = self._follows(await self._page())
        told = (
            {"message_id": live.assistant_message_id, "generation": live.generation, "turn": live.id}
            if live is not None
            else None
        )
        first = {"from": str(self.cursor), "live": told, "snapshot": not exact}
        self.out.frame(b"retry: %d\n" % self._ports.settings.retry_ms + wire.sse("hello", None, **first))

    def _follows(self, page: Page) -> bool:
        """Nothing is missing between the cursor and the page."""
        if page.exact or not page.entries:
            return True
        first = page.entries[0].id
        return first == self.cursor.next() or (self.cursor == ZERO and first == FrameId(1, 0))

    async def _take(self, page: Page) -> None:
        if not page.entries:
            return
        if not self._follows(page) and not isinstance(self.feed.frame(page.entries[0]), frames.Snapshot):
            await self._make_good(await self._board(), page)
            return
        merging = self._merges(page)
        for entry in page.entries:
            frame = self.feed.frame(entry)
            text = wire.text_of(frame) if merging and isinstance(frame, frames.Said | frames.Warned) else ""
            self.cursor = entry.id
            if text:
                self.out.text(entry.id, text)
            else:
                self._one(entry, frame)
            if self._over or self.out.full:
                break

    def _one(self, entry: Entry, frame: frames.Frame) -> None:
        at = entry.id
        match frame:
            case frames.Opened():
                self._open = frame.turn
                self.out.frame(wire.start(at, frame.message_id, at.generation, EVENTS, frame.user_message_id))
            case frames.Chosen():
                self.out.frame(wire.sse("provider", at, provider=frame.provider))
            case frames.Said() | frames.Warned():
                self.out.frame(self.feed.wire(at, frame, EVENTS))
            case frames.Snapshot():
                self._open = frame.turn
                self.out.long("snapshot", at, "text", frame.text, message_id=frame.message_id)
            case frames.Ended():
                self._open = None
                self._over = frame.turn == self._until
                self.out.frame(wire.ending(at, ending_in(frame), EVENTS))
            case frames.Fenced():
                pass

    async def _look(self, page: Page) -> None:
        """The log has nothing more: say so once; and if a turn is open, ask its row whether it has ended."""
        if page.entries:
            return  # `_take` has asked already
        board = await self._board()
        if not self._caught_up:
            self._caught_up = True
            self.out.frame(wire.sse("caught_up", None))
        if board.chat is None:
            self._bye()
        else:
            await self._make_good(board, NOTHING)

    async def _make_good(self, board: Board, page: Page) -> None:
        """What the rows know beyond the cursor, as snapshots; then the log goes on from there."""
        for turn in _newest(board.turns):
            if not board.answered(turn) or turn.state not in TERMINAL | LIVE:
                continue
            at = board.place(turn)
            if at is not None and at > self.cursor:
                answer = await self.feed.answer(turn.assistant_message_id or 0, at)
                if answer is None:
                    return  # deleted meanwhile: the next look says so
                self._snapshot(turn, answer, at)
                if self._over:
                    return
            elif page.entries and turn.state in LIVE and page.entries[0].id == FrameId(turn.generation, 0):
                self.cursor = FrameId(turn.generation, -1)

    def _snapshot(self, turn: Turn, answer: Answer, at: FrameId) -> None:
        """All of an answer, and its end, if the turn, as it was read, has ended."""
        if self._open != turn.id and at.generation > self.cursor.generation:
            self.out.frame(wire.start(None, answer.id, at.generation, EVENTS, turn.user_message_id))
        upto = text_upto(answer, at)
        ident = upto if upto > self.cursor else None
        self.out.long("snapshot", ident, "text", answer.text, message_id=answer.id)
        self.cursor, self._open = max(self.cursor, upto), turn.id
        if turn.state in TERMINAL:
            self.out.frame(wire.ending(at, ending_of(turn, answer), EVENTS))
            self.cursor, self._open = at, None
            self._over = turn.id == self._until


def _told_of(board: Board, before: int | None) -> FrameId:
    """The end of the newest turn that has ended, before that `seqno`, if one is given."""
    over = (t for t in board.turns if t.state in TERMINAL and (before is None or t.seqno < before))
    return max((at for turn in over if (at := board.place(turn)) is not None), default=ZERO)


def _newest(turns: list[Turn]) -> list[Turn]:
    return sorted(turns, key=lambda turn: turn.generation)[-MOST_MISSED:]

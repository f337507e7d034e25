"""The reader behind `/stream`: one turn, from its first frame, or after the last one that its client has.

A client that comes back is passed over, in silence, what it has: then it is known how many characters it shows, and the
rest follows.  Where the log cannot tell any more what that was, one `snapshot` takes the place of all that it has; only
a client that said where it was gets one, so one that knows `start`, `provider`, `token` and the ends alone never does.

Every frame that changes the text has an id, and coming back with that id goes on after exactly that frame.
"""

from __future__ import annotations

from collections.abc import Sequence

from rivermouth.chat import frames, wire
from rivermouth.chat.feed import Board, Feed
from rivermouth.chat.machine import LIVE, TERMINAL
from rivermouth.chat.ports import Ports
from rivermouth.chat.reader import Reader, ending_in, ending_of, text_upto, whole_before
from rivermouth.chat.wire import Ending, View
from rivermouth.log.port import ZERO, Entry, FrameId, Page
from rivermouth.store.chats.port import Turn


class TurnFollower(Reader):
    """after: the last frame that the client has; None for one that has none.

    `_shown`: how many characters the client shows.  `_told`: the newest id that it was given.  `_ours`: the generation
    that writes this turn; a frame that names no turn is told by it, for the log may have lost where another turn began.
    """

    def __init__(
        self,
        feed: Feed,
        ports: Ports,
        turn: Turn,
        *,
        view: View,
        after: FrameId | None = None,
    ) -> None:
        super().__init__(feed, ports)
        self._turn_id = turn.id
        self._answer_id = turn.assistant_message_id
        self._view = view
        self._after = after
        """Where the client is, as long as it is not known what it shows there."""
        self._told = after or ZERO
        self._begun = False
        self._chosen = False
        self._ours: int | None = None
        self._others = False
        self._gap = False
        self._shown = 0
        self._waits = False

    def _may_go(self) -> bool:
        return self._waits

    def _bye(self) -> None:
        """It waits still, and nothing more will be told here; a stream has one end all the same."""
        self._over = True
        text = "the server stops; the message is kept and will be answered"
        self._tell(None, wire.sse("error", None, error={"type": "unavailable", "message": text}))

    # -- from the log

    async def _take(self, page: Page) -> None:
        merging = self._merges(page)
        for entry in self._beyond(page.entries):
            frame = self.feed.frame(entry)
            text = None
            if isinstance(frame, frames.Said | frames.Warned) and entry.id.generation == self._ours:
                if frame.at > self._shown:
                    break  # some text is missing before it
                text = wire.text_of(frame)[self._shown - frame.at :] if merging else None
            self.cursor = entry.id
            if text:
                self._shown += len(text)
                self._told = entry.id
                self.out.text(entry.id, text)
            else:
                self._one(entry, frame)
            if self._over or self.out.full:
                break

    def _beyond(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """The entries that the client lacks, once it is known what it has; what it has is passed over."""
        if self._after is None:
            return entries
        for index, entry in enumerate(entries):
            frame = self.feed.frame(entry)
            turn_id: int | None = getattr(frame, "turn", None)
            ours = turn_id == self._turn_id
            if entry.id <= self._after:
                self.cursor = entry.id
                self._pass(entry.id, frame, ours=ours)
                if entry.id == self._after and entry.id.generation == self._ours and not self._gap:
                    self._after = None
                    return entries[index + 1 :]
            elif ours and isinstance(frame, frames.Opened):  # it has nothing of this turn
                self._after = None
                return entries[index:]
            elif ours and isinstance(frame, frames.Snapshot):
                return entries[index:]
            elif self._others or (turn_id is not None and not ours and self._ours is None):
                self._others = True
                self.cursor = entry.id
            else:
                return ()
        return ()

    def _pass(self, at: FrameId, frame: frames.Frame, *, ours: bool) -> None:
        """The client has this frame."""
        match frame:
            case frames.Opened() | frames.Snapshot():
                self._ours = at.generation if ours else None
                self._begun = ours
                self._others = not ours
                if ours and isinstance(frame, frames.Snapshot):
                    self._chosen = self._chosen or frame.provider is not None
                    self._shown, self._gap = len(frame.text), False
            case frames.Chosen() if at.generation == self._ours:
                self._chosen = True
            case frames.Said() | frames.Warned() if at.generation == self._ours:
                self._gap = self._gap or frame.at > self._shown
                self._shown = max(self._shown, frame.at + len(wire.text_of(frame)))
            case _:
                pass

    def _one(self, entry: Entry, frame: frames.Frame) -> None:
        at = entry.id
        match frame:
            case frames.Opened() if frame.turn == self._turn_id:
                self._ours = at.generation
                self._start(at, at.generation, frame.message_id)
            case frames.Snapshot() if frame.turn == self._turn_id:
                self._replace(at, frame.message_id, frame.text, frame.provider)
            case frames.Ended() if frame.turn == self._turn_id and self._shown >= frame.text_chars:
                self._end(at, ending_in(frame))
            case frames.Chosen() if at.generation == self._ours:
                self._provider(at, frame.provider)
            case frames.Said() | frames.Warned() if at.generation == self._ours:
                self._say(at, frame)
            case _:
                pass

    def _say(self, at: FrameId, frame: frames.Said | frames.Warned) -> None:
        skip = self._shown - frame.at
        whole = len(wire.text_of(frame))
        self._shown = max(self._shown, frame.at + whole)
        if not skip:
            self._tell(at, self.feed.wire(at, frame, self._view))
        elif isinstance(frame, frames.Said):
            self._tell(at, wire.said(at, frame, self._view, skip))
        elif skip < whole:
            self._tell(at, wire.token(at, frame.text[skip:]))

    # -- what is told

    def _tell(self, at: FrameId | None, data: bytes) -> None:
        """b"" says nothing."""
        self.out.frame(data)
        if data and at is not None:
            self._told = max(self._told, at)

    def _start(self, at: FrameId | None, generation: int, message_id: int) -> None:
        if not self._begun:
            self._begun = True
            self._answer_id = message_id
            self._tell(at, wire.start(at, message_id, generation, self._view, None))

    def _provider(self, at: FrameId | None, provider: str | None) -> None:
        if not self._chosen and provider is not None:
            self._chosen = True
            self._tell(at, wire.sse("provider", at, provider=provider))

    def _replace(self, at: FrameId, message_id: int, text: str, provider: str | None) -> None:
        """All that was said up to `at`, which is beyond what was told: the rest of it, or, for a client of which it is
        not known what it shows, the whole in the place of that."""
        self._ours = at.generation
        self.cursor = max(self.cursor, at)
        ident = at if at > self._told else None
        self._told = max(self._told, at)
        if self._after is not None:
            self._begun = self._chosen = True
            self._after = None
            self.out.long("snapshot", ident, "text", text, message_id=message_id)
        else:
            self._start(None, at.generation, message_id)
            self._provider(None, provider)
            if self._shown < len(text):
                self.out.long("token", ident, "token", text, self._shown)
        self._shown = max(self._shown, len(text))

    def _end(self, at: FrameId, end: Ending) -> None:
        self._over = True
        self._tell(at, wire.ending(at, end, self._view))

    # -- from the rows

    async def _look(self, page: Page) -> None:
        board = await self._board()
        turn = next((turn for turn in board.turns if turn.id == self._turn_id), None)
        if turn is None:
            self._over = True
            self._tell(None, wire.sse("cancelled", None, reason="the chat was deleted", message_id=self._answer_id))
            return
        self._waits = turn.state not in TERMINAL | LIVE
        if turn.state in TERMINAL:
            await self._finish(turn, board)
        elif turn.state in LIVE:
            await self._catch_up(turn, board.place(turn))

    async def _finish(self, turn: Turn, board: Board) -> None:
        if not board.answered(turn):  # it ended in the queue
            self._end(self.cursor, ending_of(turn, None, self._answer_id))
            return
        end = board.place(turn) or self.cursor.next()
        whole = whole_before(end)
        answer = await self.feed.answer(turn.assistant_message_id or 0, board.place(turn))
        if answer is None:
            return  # deleted meanwhile: the next look says so
        if self._after not in (whole, end):
            self._replace(whole, answer.id, answer.text, turn.provider if answer.text else None)
        self._end(end, ending_of(turn, answer))

    async def _catch_up(self, turn: Turn, at: FrameId | None) -> None:
        """A live turn whose log lacks something: the row's checkpoint may have it."""
        if at is None or at <= self.cursor or (self._after is not None and at < self._after):
            return
        answer = await self.feed.answer(turn.assistant_message_id or 0, at)
        if answer is not None:
            self._replace(text_upto(answer, at), answer.id, answer.text, turn.provider)

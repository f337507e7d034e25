"""What the followers of one chat share: its rows, asked for once for all of them, and its frames, decoded once."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, TypeVar

import msgspec
import structlog

from rivermouth.chat import frames
from rivermouth.chat.ports import Ports, chat_channel, slot_key
from rivermouth.chat.wire import View, said, token
from rivermouth.doorbell.port import Bell
from rivermouth.log.port import Entry, FrameId, Page
from rivermouth.store.chats.port import Answer, Chat, Message, Pulse, Turn, Tx
from rivermouth.store.port import StoreError

log = structlog.get_logger()

K = TypeVar("K")
V = TypeVar("V")

KEPT_FRAMES: Final = 256
PAGE: Final = 256
UNKNOWN: Final = object()


class Rows(msgspec.Struct, frozen=True):
    """A chat from one consistent read; None when it is gone."""

    chat: Chat | None
    turns: list[Turn]
    messages: dict[int, Message]

    def answer(self, turn: Turn) -> Message | None:
        return self.messages.get(turn.assistant_message_id) if turn.assistant_message_id is not None else None


def read_rows(tx: Tx, chat_id: int) -> Rows:
    return Rows(tx.chat(chat_id), list(tx.turns(chat_id)), {m.id: m for m in tx.messages(chat_id)})


class Board(msgspec.Struct, frozen=True):
    """How a chat's turns stand, from one consistent read, without a word of what was said.  chat: None when it is gone.

    folded: up to which frame each answer is written, by its id.
    """

    chat: Chat | None
    turns: list[Turn]
    folded: Mapping[int, str]

    def answered(self, turn: Turn) -> bool:
        """The turn has an answer, be it empty."""
        return turn.assistant_message_id in self.folded

    def place(self, turn: Turn) -> FrameId | None:
        """Up to which frame its answer is written; None: not at all."""
        return FrameId.parse(self.folded.get(turn.assistant_message_id or 0, ""))


class Feed:
    """Of one chat; made for its first follower and forgotten with its last."""

    def __init__(self, chat: Chat, ports: Ports) -> None:
        self.chat = chat
        self.followers = 0
        self.dismissed = False
        self.bells: set[Bell] = set()
        self._ports = ports
        self._key = slot_key(chat.owner, chat.id)
        self._reading: dict[str, asyncio.Task[None]] = {}
        self._read_s = float("-inf")
        self._board: Board | None = None
        self._answer: Answer | None = None
        self._gone: int | None = None
        self._stale = False
        self._pulse: Pulse | object | None = UNKNOWN
        self._frames: OrderedDict[FrameId, frames.Frame] = OrderedDict()
        self._wires: OrderedDict[tuple[FrameId, View], bytes] = OrderedDict()

    def join(self) -> None:
        """One follower more; maybe of a turn that the board lacks, though it began in the same instant of the clock."""
        self.followers += 1
        self._stale = True

    async def page(self, after: FrameId) -> Page:
        """Entries after that one.  Raises `LogError`."""
        return await self._ports.log.read(self._key, after, PAGE)

    async def board(self, *, no_older_s: float) -> Board:
        """The rows as they were asked for at that time or later, and after the last change that is known of; one
        question for all who ask meanwhile.  Raises `StoreError`."""
        while self._board is None or self._stale or self._read_s < no_older_s:
            await self._shared("board", self._read)
        return self._board

    async def answer(self, message_id: int, at: FrameId | None) -> Answer | None:
        """An answer as its row has it, as far as `at` or further; None when it is gone.  Raises `StoreError`."""
        while not self._knows(message_id, at):
            await self._shared("answer", lambda: self._read_answer(message_id))
        return self._answer

    def _knows(self, message_id: int, at: FrameId | None) -> bool:
        held = self._answer
        if held is None or held.id != message_id:
            return self._gone == message_id
        far = FrameId.parse(held.folded_to)
        return at is None or (far is not None and far >= at)

    async def _shared(self, name: str, read: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Asks, or waits for who has asked already, maybe something else."""
        reading = self._reading.get(name)
        if reading is None:
            reading = self._reading[name] = asyncio.create_task(self._asking(name, read))
        await asyncio.shield(reading)

    async def _asking(self, name: str, read: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Forgotten before it is done: whoever comes then asks anew."""
        try:
            await read()
        finally:
            del self._reading[name]

    async def _read(self) -> None:
        began_s = self._ports.clock.now_s()
        self._stale = False
        chat_id = self.chat.id
        try:
            board = await self._ports.store.read(
                lambda tx: Board(tx.chat(chat_id), list(tx.turns(chat_id)), tx.folded(chat_id))
            )
        except BaseException:
            self._stale = True
            raise
        self._board, self._read_s = board, began_s

    async def _read_answer(self, message_id: int) -> None:
        found = await self._ports.store.read(lambda tx: tx.answer(message_id))
        self._answer, self._gone = found, (message_id if found is None else None)

    def beats(self, pulse: Pulse | None) -> None:
        """The chat as the common question found it: if it is not as it was, the followers look at it."""
        if pulse != self._pulse:
            self._pulse = pulse
            self._stale = True
            for bell in self.bells:
                bell.strike()

    def frame(self, entry: Entry) -> frames.Frame:
        """The entry decoded."""
        found = self._frames.get(entry.id)
        if found is None:
            found = self._frames[entry.id] = frames.decode(entry.body)
            _bound(self._frames)
        return found

    def wire(self, at: FrameId, frame: frames.Said | frames.Warned, view: View) -> bytes:
        """The entry as every follower with that view sends it."""
        found = self._wires.get((at, view))
        if found is None:
            found = token(at, frame.text) if isinstance(frame, frames.Warned) else said(at, frame, view)
            self._wires[at, view] = found
            _bound(self._wires)
        return found


def _bound(kept: OrderedDict[K, V]) -> None:
    while len(kept) > KEPT_FRAMES:
        kept.popitem(last=False)


class Feeds:
    """Of all chats that somebody follows here, idle ones too: one question in each `look_s` watches over them all."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._feeds: dict[int, Feed] = {}

    def enter(self, chat: Chat) -> Feed:
        feed = self._feeds.get(chat.id)
        if feed is None:
            feed = self._feeds[chat.id] = Feed(chat, self._ports)
        feed.join()
        return feed

    async def watch(self) -> None:
        """For ever.  A change of which no ring has told is found so."""
        while True:
            await self._ports.clock.sleep(self._ports.settings.look_s)
            if not self._feeds:
                continue
            try:
                await self._look()
            except StoreError as error:
                log.warning("chat.store_failed", work="watch", reason=str(error))
            except Exception:  # without this loop a ring that is lost is lost for good
                log.exception("chat.loop_failed", work="watch")

    async def _look(self) -> None:
        asked = dict(self._feeds)
        pulses = await self._ports.store.read(lambda tx: tx.pulses(list(asked)))
        for chat_id, feed in asked.items():
            feed.beats(pulses.get(chat_id))

    def dismiss(self) -> None:
        """Send every follower away: those of a chat at once, those of a turn with its end."""
        for feed in self._feeds.values():
            feed.dismissed = True
            self._ports.doorbell.ring(chat_channel(feed.chat.id))

    def send_away(self, owner: str) -> None:
        """Whoever follows a chat of that person has to come again, and to say who they are."""
        for feed in [feed for feed in self._feeds.values() if feed.chat.owner == owner]:
            del self._feeds[feed.chat.id]  # who comes again begins a new one
            feed.dismissed = True
            self._ports.doorbell.ring(chat_channel(feed.chat.id))

    def leave(self, feed: Feed) -> None:
        feed.followers -= 1
        if not feed.followers and self._feeds.get(feed.chat.id) is feed:
            del self._feeds[feed.chat.id]

    def followed(self) -> list[tuple[Chat, int]]:
        """Each chat that is followed here, and by how many."""
        return [(feed.chat, feed.followers) for feed in self._feeds.values()]

    def count(self, which: Callable[[Chat], bool] = lambda chat: True) -> int:
        """How many followers there are of such chats."""
        return sum(feed.followers for feed in self._feeds.values() if which(feed.chat))

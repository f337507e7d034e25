"""What a front asks of the chat.  Every method is for one person, and what is not theirs is not found."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import structlog

from rivermouth.chat import moves
from rivermouth.chat.choice import AUTO
from rivermouth.chat.documents import ChatView, Summary, chat_view, summary
from rivermouth.chat.feed import Feed, Feeds, read_rows
from rivermouth.chat.follow_chat import ChatFollower
from rivermouth.chat.follow_turn import TurnFollower
from rivermouth.chat.machine import TERMINAL, UNENDED
from rivermouth.chat.moves import Submission, Submitted
from rivermouth.chat.ports import CLAIMS, Ports, chat_channel, slot_key
from rivermouth.chat.slots import Slots, look
from rivermouth.chat.wire import View
from rivermouth.chat.worker import Worker
from rivermouth.ir.errors import ApiError, Kind, invalid
from rivermouth.log.port import FrameId
from rivermouth.store.chats.port import Chat, Hit, NoSuchOwner, Turn, Tx
from rivermouth.store.port import StoreError

log = structlog.get_logger()

T = TypeVar("T")

MODEL: Final = "model"
PAGE: Final = 50
MOST: Final = 200
LONGEST_QUERY: Final = 200
MOST_WORDS: Final = 12


class ChatService:
    """`async with ChatService(...)`: turns are written while it is open.  boot_id: of this start of the process."""

    def __init__(self, ports: Ports, *, boot_id: str, alone: bool) -> None:
        self._ports = ports
        self._settings = ports.settings
        self.worker = Worker(boot_id, ports, alone=alone)
        self._feeds = Feeds(ports)
        self._keeping: set[asyncio.Task[Any]] = set()
        self._watching: asyncio.Task[None] | None = None
        ports.metrics.ask(lambda: len(self.worker.owners), lambda: self._feeds.count())

    async def __aenter__(self) -> Self:
        await self.worker.__aenter__()
        self._watching = asyncio.create_task(self._feeds.watch())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end_all()
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait({self._watching})
        if self._keeping:
            await asyncio.wait(self._keeping)
        await self.worker.__aexit__(kind, error, trace)

    def end_all(self) -> None:
        """The server stops: turns end with what there is, followers are sent away."""
        self.worker.shut_down()
        self._feeds.dismiss()

    def statistics(self) -> dict[str, int]:
        return {"live": len(self.worker.owners), "followers": self._feeds.count(), "keeping": len(self._keeping)}

    async def slots(self) -> Slots:
        """Every chat that has a turn at work, or a follower here."""
        at_work = await self._read(lambda tx: tx.at_work(UNENDED))
        followed = self._feeds.followed()
        chats = {*((turn.owner, turn.chat_id) for turn in at_work), *((chat.owner, chat.id) for chat, _ in followed)}
        followers = {chat.id: count for chat, count in followed}
        return Slots(self.worker.boot_id, await look(self._ports.log, chats, followers))

    # -- turns

    async def submit(self, wanted: Submission) -> Submitted:
        """A turn, or the one that this request id has already.  Raises `ApiError`, `Busy`."""
        self._check_content(wanted)
        if wanted.asked is not None:
            await self._ports.chooser.check(wanted.asked)
        return await self._whole(self._submit(wanted))

    async def _submit(self, wanted: Submission) -> Submitted:
        submitted = await self._run(lambda tx: moves.submit(tx, wanted, self._settings))
        if submitted.fresh:
            self._ring(submitted.turn.chat_id)
            self._ports.doorbell.ring(CLAIMS)
            self._count(submitted.withdrawn)
            await self.worker.attend(submitted.stopping)
        return submitted

    def _check_content(self, wanted: Submission) -> None:
        if wanted.content is None and wanted.redo is not None:
            return
        content, most = wanted.content or "", self._settings.max_content_chars
        if not content.strip() and not wanted.attachments:
            raise invalid("a message needs its content", "content", "content_empty")
        if len(content) > most:
            raise invalid(f"a message has at most {most} characters", "content", "content_too_long")

    async def stop(
        self, owner: str, chat_id: int, *, generation: int | None = None, message_id: int | None = None
    ) -> bool:
        """True if something was running, which has ended when this returns, or will within moments."""
        began_s = self._ports.clock.now_s()
        stopped = await self._whole(self._stop(owner, chat_id, generation, message_id))
        if stopped.running:
            await self._ended(chat_id, {turn.id for turn in stopped.running})
            self._ports.metrics.stopped(self._ports.clock.now_s() - began_s)
        return bool(stopped.running or stopped.withdrawn)

    async def _stop(self, owner: str, chat_id: int, generation: int | None, message_id: int | None) -> moves.Stopped:
        stopped = await self._run(
            lambda tx: moves.stop(tx, chat_id, owner, self._settings, generation=generation, message_id=message_id)
        )
        self._count(stopped.withdrawn)
        await self.worker.attend(stopped.running)
        self._ring(chat_id)
        return stopped

    def _count(self, withdrawn: tuple[Turn, ...]) -> None:
        """Turns that ended in the queue."""
        for turn in withdrawn:
            self._ports.metrics.ended(turn.reason or turn.state)

    async def _ended(self, chat_id: int, turn_ids: set[int]) -> None:
        """Waits for their ends; not for longer than a stop may take."""
        clock = self._ports.clock
        until_s = clock.now_s() + self._settings.stop_s
        bell = self._ports.doorbell.listen(chat_channel(chat_id))
        try:
            while True:
                bell.clear()
                turns = await self._read(lambda tx: [tx.turn(turn_id) for turn_id in turn_ids])
                left_s = until_s - clock.now_s()
                if left_s <= 0 or all(turn is None or turn.state in TERMINAL for turn in turns):
                    return
                await bell.wait(min(left_s, self._settings.look_s))
        finally:
            bell.close()

    # -- followers

    async def ask(self, wanted: Submission, view: View, after: FrameId | None = None) -> tuple[Submitted, TurnFollower]:
        """Submit and follow; a message that could not be followed is not taken.

        after: where a follower of a turn that was there already goes on.  Raises `ApiError`, `Busy`.
        """
        self._check_room(wanted.owner, wanted.chat_id)
        submitted = await self.submit(wanted)
        turn = submitted.turn
        chat = await self._read(lambda tx: moves.chat_of(tx, turn.chat_id, wanted.owner))
        where = None if submitted.fresh else after
        return submitted, TurnFollower(self._feeds.enter(chat), self._ports, turn, view=view, after=where)

    def _check_room(self, owner: str, chat_id: int) -> None:
        """Raises `ApiError` where no further follower is let in."""
        here = self._feeds.count(lambda other: other.id == chat_id)
        theirs = self._feeds.count(lambda other: other.owner == owner)
        if here >= self._settings.followers_per_chat or theirs >= self._settings.followers_per_owner:
            raise ApiError(
                Kind.RATE_LIMITED, "too many follow this chat", code="too_many_followers", retry_after_s=10.0
            )

    async def follow_turn(self, owner: str, turn: Turn, view: View, after: FrameId | None = None) -> TurnFollower:
        """Whoever asked gives it back with `leave`.  Raises `ApiError`."""
        chat = await self._read(lambda tx: moves.chat_of(tx, turn.chat_id, owner))
        return TurnFollower(self._enter(chat), self._ports, turn, view=view, after=after)

    async def follow_chat(
        self, owner: str, chat_id: int, after: FrameId | None, turn_id: int | None = None
    ) -> ChatFollower | None:
        """None when that turn has ended and the cursor is at its end.  Raises `ApiError`."""

        def find(tx: Tx) -> tuple[Chat, bool]:
            chat = moves.chat_of(tx, chat_id, owner)
            if turn_id is None:
                return chat, False
            turn = tx.turn(turn_id)
            if turn is None or turn.chat_id != chat_id:
                raise ApiError(Kind.NOT_FOUND, "this chat has no such turn", param="turn", code="turn_not_found")
            answer = tx.message(turn.assistant_message_id or 0)
            end = FrameId.parse(answer.folded_to) if answer is not None else None
            over = turn.state in TERMINAL and (end is None or (after is not None and after >= end))
            return chat, over

        chat, over = await self._read(find)
        return None if over else ChatFollower(self._enter(chat), self._ports, after=after, until=turn_id)

    def leave(self, follower: TurnFollower | ChatFollower) -> None:
        """The follower will not ask again."""
        follower.close()
        self._feeds.leave(follower.feed)

    def _enter(self, chat: Chat) -> Feed:
        self._check_room(chat.owner, chat.id)
        return self._feeds.enter(chat)

    # -- chats

    async def chats(self, owner: str, limit: int, before: tuple[int, int] | None) -> list[Summary]:
        """The one touched last first."""
        return await self._read(
            lambda tx: [summary(chat) for chat in tx.chats(owner, min(max(limit, 1), MOST), before)]
        )

    async def create(self, owner: str, title: str, instructions: str) -> Summary:
        self._check_texts(title, instructions)
        return await self._run(
            lambda tx: summary(tx.insert_chat(owner, title, titled=bool(title), instructions=instructions))
        )

    async def chat(self, owner: str, chat_id: int) -> ChatView:
        """With its history, and the cursor to which that is folded."""

        def view(tx: Tx) -> ChatView:
            chat = moves.chat_of(tx, chat_id, owner)
            return chat_view(chat, read_rows(tx, chat_id))

        return await self._read(view)

    async def update(self, owner: str, chat_id: int, title: str | None, instructions: str | None) -> Summary:
        """None leaves it as it is; an empty title lets the chat be named anew by its first message."""
        self._check_texts(title or "", instructions or "")

        def update(tx: Tx) -> Summary:
            chat = moves.chat_of(tx, chat_id, owner)
            values: dict[str, Any] = {"updated_ns": tx.now_ns()}
            if title is not None:
                values |= {"title": title, "titled": bool(title)}
            if instructions is not None:
                values["instructions"] = instructions
            tx.update_chat(chat.id, **values)
            return summary(moves.chat_of(tx, chat_id, owner))

        return await self._run(update)

    async def delete(self, owner: str, chat_id: int) -> None:
        """What is running for it is stopped: its writer finds its turn gone."""

        def delete(tx: Tx) -> None:
            moves.chat_of(tx, chat_id, owner)
            tx.delete_chat(chat_id)

        await self._run(delete)
        await self._gone(owner, chat_id)

    async def _gone(self, owner: str, chat_id: int) -> None:
        """Whoever writes or follows it finds out."""
        for running in list(self.worker.owners.values()):
            if running.chat.id == chat_id:
                running.fence()
        await self._ports.log.drop(slot_key(owner, chat_id))
        self._ring(chat_id)

    async def search(self, owner: str, query: str) -> list[Summary]:
        """Chats that hold every word, the best first, each with a place where it does."""
        words = query[:LONGEST_QUERY].split()[:MOST_WORDS]

        def find(tx: Tx) -> list[Summary]:
            hits: dict[int, Hit] = {}
            for hit in tx.search(owner, words, MOST):
                hits.setdefault(hit.chat_id, hit)
            chats = [(tx.chat(hit.chat_id, owner), hit.snippet) for hit in list(hits.values())[:PAGE]]
            return [summary(chat, snippet) for chat, snippet in chats if chat is not None]

        return await self._read(find)

    # -- a person who leaves for good

    async def quiet(self, owner: str) -> None:
        """Every turn of that person is stopped, and has ended when this returns, or will within moments."""

        at_work = await self._read(lambda tx: tx.at_work(UNENDED))
        theirs = {turn.chat_id for turn in at_work if turn.owner == owner}
        await asyncio.gather(*(self._stop_if_there(owner, chat_id) for chat_id in theirs))

    async def _stop_if_there(self, owner: str, chat_id: int) -> None:
        try:
            await self.stop(owner, chat_id)
        except ApiError as error:
            if error.kind is not Kind.NOT_FOUND:
                raise

    def send_away(self, owner: str) -> None:
        """Somebody may not be that person any more: all who follow as such come again."""
        self._feeds.send_away(owner)

    async def forgotten(self, owner: str, chat_ids: Sequence[int]) -> None:
        """These chats are gone from the store."""
        for chat_id in chat_ids:
            await self._gone(owner, chat_id)

    # -- the model

    async def models(self, owner: str) -> dict[str, Any]:
        """Every choice, the saved one, what may be offered (a model that is not here yet), what a message may hold."""
        saved = await self._read(lambda tx: tx.preference(owner, MODEL))
        choices = await self._ports.chooser.listed()
        offer = self._settings.offer
        here = {row["model"] for row in choices if row["local"]}
        pulled = offer is not None and offer["model"] in here
        limits = {
            "content_chars": self._settings.max_content_chars,
            "attachments": self._settings.max_attachments,
        }
        return {"selected": saved or AUTO, "models": choices, "offer": None if pulled else offer, "limits": limits}

    async def prefer(self, owner: str, name: str) -> None:
        """Raises `ApiError` not_found for what is no choice."""
        await self._ports.chooser.check(name)
        await self._run(lambda tx: tx.prefer(owner, MODEL, name))

    # -- what they are made of

    def _check_texts(self, title: str, instructions: str) -> None:
        for text, most, name in (
            (title, self._settings.max_title_chars, "title"),
            (instructions, self._settings.max_instructions_chars, "instructions"),
        ):
            if len(text) > most:
                raise invalid(f"{name} has at most {most} characters", name)

    def _ring(self, chat_id: int) -> None:
        self._ports.doorbell.ring(chat_channel(chat_id))

    async def _whole(self, work: Awaitable[T]) -> T:
        """Done to its end, also when whoever asked for it is gone meanwhile."""
        task: asyncio.Task[T] = asyncio.ensure_future(work)
        self._keeping.add(task)
        task.add_done_callback(self._keeping.discard)
        return await asyncio.shield(task)

    async def _run(self, work: Callable[[Tx], T]) -> T:
        return await _named(self._ports.store.run(work))

    async def _read(self, work: Callable[[Tx], T]) -> T:
        return await _named(self._ports.store.read(work))


async def _named(work: Awaitable[T]) -> T:
    """The store's failure as the client is told of it."""
    try:
        return await work
    except NoSuchOwner:
        raise ApiError(Kind.AUTHENTICATION, "the account is gone", code="session_ended") from None
    except StoreError as error:
        log.error("chat.store_failed", reason=str(error))
        kind = Kind.OVERLOADED if error.passing else Kind.INTERNAL
        retry_after_s = 1.0 if error.passing else None
        raise ApiError(kind, "the chat cannot be stored now", retry_after_s=retry_after_s) from None

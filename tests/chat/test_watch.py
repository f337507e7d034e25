"""Rings are lost, logs too, and chats are many: what a follower is told late, and what looking costs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event

from rivermouth.chat.follow_chat import ChatFollower
from rivermouth.chat.wire import STREAM
from rivermouth.log.port import FrameId, Landed
from rivermouth.store.port import StoreError
from tests.chat.faulty import FaultyDoorbell
from tests.chat.lab import ChatLab, events, read_frames, run, tokens

LOOK_S = 1.0
INSTANT_S = 0.001


async def followers(lab: ChatLab, count: int, chat_id: int | None = None) -> list[ChatFollower]:
    made = []
    for _ in range(count):
        follower = await lab.service.follow_chat("anna", chat_id or await lab.new_chat(), None)
        assert follower is not None
        made.append(follower)
    return made


async def asked_for_a_minute(lab: ChatLab, chats: int) -> list[str]:
    """The statements about chats that a minute of following so many idle ones costs, after they have settled."""
    many = await followers(lab, chats)

    async def watching(follower: ChatFollower) -> None:
        while True:
            await follower.next(15.0)

    tasks = [asyncio.create_task(watching(follower)) for follower in many]
    await asyncio.sleep(5)
    seen: list[str] = []

    def executed(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        if "chats.updated_ns" in statement or "FROM messages" in statement:
            seen.append(statement)

    event.listen(Engine, "before_cursor_execute", executed)
    try:
        await asyncio.sleep(60)
    finally:
        event.remove(Engine, "before_cursor_execute", executed)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for follower in many:
            lab.service.leave(follower)
    return seen


@pytest.mark.parametrize("chats", [0, 1, 100])
def test_idle_chats_are_watched_by_one_question_a_second_however_many_they_are(tmp_path: Path, chats: int):
    async def story(lab: ChatLab) -> None:
        seen = await asked_for_a_minute(lab, chats)
        assert len(seen) == pytest.approx(60 if chats else 0, abs=1)
        assert len(set(seen)) == (1 if chats else 0)

    run(story, tmp_path)


@pytest.mark.parametrize("log_is_lost", [False, True])
def test_a_lost_ring_costs_a_second_at_most(tmp_path: Path, log_is_lost: bool):
    """From the moment that something was written, to the log or, where that is lost, to the row."""

    async def story(lab: ChatLab) -> None:
        loop = asyncio.get_running_loop()
        chat = await lab.new_chat()
        (following,) = await followers(lab, 1, chat)
        written: dict[str, float] = {}
        told: dict[str, float] = {}
        append, store_run = lab.ports.log.append, lab.ports.store.run

        async def appending(key: str, at: FrameId, body: bytes, *, opening: bool = False) -> Landed:
            if log_is_lost:
                return Landed.OK  # as one that was dropped at once
            landed = await append(key, at, body, opening=opening)
            written[str(at)] = loop.time()
            return landed

        async def running(work: Any) -> Any:
            done = await store_run(work)
            for message in await lab.ports.store.read(lambda tx: tx.messages(chat, "assistant")):
                if message.folded_to and log_is_lost:
                    written.setdefault(message.folded_to, loop.time())
            return done

        lab.ports.log.append = appending  # type: ignore[method-assign]
        lab.ports.store.run = running  # type: ignore[method-assign]

        async def reading() -> None:
            while "done" not in told:
                for frame in read_frames(await following.next(15.0)):
                    told.setdefault(frame.get("#", frame["event"]), loop.time())
                    if frame["event"] == "done":
                        told["done"] = loop.time()

        reader = asyncio.create_task(reading())
        await asyncio.sleep(10.3)
        await lab.ask("x", chat_id=chat)
        call = await lab.model.asked()
        for number in range(40):
            call.say(f"{number} ")
            await asyncio.sleep(0.17)
        call.finish()
        await reader
        lab.service.leave(following)
        late = {at: told[at] - when for at, when in written.items() if at in told}
        assert len(late) >= (5 if log_is_lost else 40)
        assert max(late.values()) <= LOOK_S + INSTANT_S, late
        assert max(late.values()) > 0.1, "no ring was lost"

    run(story, tmp_path, doorbell=FaultyDoorbell())


def test_what_a_ring_did_not_tell_is_counted_and_how_far_readers_are_behind(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        turn = await lab.ask()
        following = asyncio.create_task(lab.follow(turn))
        call = await lab.model.asked()
        for number in range(40):
            call.say(f"{number} ")
            await asyncio.sleep(0.1)
        call.finish()
        await following
        collected = {s.name: s.value for m in _metrics(lab) for s in m.samples if not s.labels}
        assert collected["rivermouth_doorbell_misses_total"] >= 2
        lags = {
            s.labels["le"]: s.value for m in _metrics(lab) for s in m.samples if s.name.endswith("lag_frames_bucket")
        }
        assert 0 < lags["1.0"] < lags["+Inf"] == lags["256.0"]

    run(story, tmp_path, doorbell=FaultyDoorbell())


def _metrics(lab: ChatLab) -> list[Any]:
    return list(lab.ports.metrics._lag.collect()) + list(lab.ports.metrics._misses.collect())


def test_rows_that_cannot_be_read_for_a_while_end_no_follower(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        turn = await lab.ask()
        following = asyncio.create_task(lab.follow(turn))
        (chat,) = await followers(lab, 1, turn.chat_id)
        call = await lab.model.asked()
        call.say("one ")
        await asyncio.sleep(0.1)
        assert b"hello" in await chat.next(1.0)
        read = lab.ports.store.read

        async def failing(work: Any) -> Any:
            raise StoreError("the disk is away", passing=True)

        lab.ports.store.read = failing  # type: ignore[method-assign]
        assert b"one " in await chat.next(1.0)
        chat.feed._stale = True
        assert await chat.next(5.0) == b""
        late = ChatFollower(chat.feed, lab.ports, after=None)
        late.feed._board = None
        assert b'"event":"bye"' in await late.next(1.0)
        late.close()
        lab.ports.store.read = read  # type: ignore[method-assign]
        call.say("two")
        call.finish()
        said = b""
        while b'"done"' not in said:
            said += await chat.next(5.0)
        assert tokens(read_frames(said)) == "two"
        assert tokens(await following) == "one two"
        lab.service.leave(chat)

    run(story, tmp_path)


def test_a_turn_that_begins_in_the_instant_in_which_the_rows_were_asked_for_is_not_taken_for_deleted(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        loop = asyncio.get_running_loop()
        lab.service.worker._accepting = False
        (chat,) = await followers(lab, 1)
        assert b"hello" in await chat.next(0.0)
        assert b"caught_up" in await chat.next(0.0)
        asked_s = loop.time()
        turn = await lab.ask()
        follower = await lab.service.follow_turn("anna", turn, STREAM)
        assert loop.time() == asked_s
        assert await follower.next(0.0) == b""
        lab.service.worker._accepting = True
        call = await lab.model.asked()
        call.say("x")
        call.finish()
        said = b""
        while not follower.ended:
            said += await follower.next(5.0)
        assert events(read_frames(said)) == ["start", "provider", "token", "done"]
        lab.service.leave(follower)
        lab.service.leave(chat)

    run(story, tmp_path)


def test_whoever_asks_while_an_answer_arrives_that_is_old_already_asks_anew(tmp_path: Path):
    """It did so for ever, without letting anybody else go on."""

    async def story(lab: ChatLab) -> None:
        (follower,) = await followers(lab, 1)
        feed, read = follower.feed, lab.ports.store.read
        late: list[asyncio.Task[Any]] = []

        async def reading(work: Any) -> Any:
            found = await read(work)
            if not late:
                feed._stale = True  # something has changed meanwhile
                late.append(asyncio.create_task(feed.board(no_older_s=0.0)))  # runs before the reader is called back
            return found

        lab.ports.store.read = reading  # type: ignore[method-assign]
        assert (await feed.board(no_older_s=0.0)).chat is not None
        assert (await late[0]).chat is not None
        lab.service.leave(follower)

    run(story, tmp_path)

"""Followers: from any place, after any cut, slow ones and many, they show the same text, once."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from rivermouth.chat.follow_chat import ChatFollower
from rivermouth.chat.wire import STREAM
from rivermouth.ir.errors import ApiError
from rivermouth.log.port import ZERO, FrameId
from rivermouth.store.chats.port import Turn
from tests.chat.faulty import FaultyDoorbell
from tests.chat.front import Screen
from tests.chat.lab import ChatLab, LedCall, events, read_frames, run, tokens, with_settings


async def events_of(
    lab: ChatLab, chat_id: int, after: FrameId | None, until: str = "caught_up", times: int = 1
) -> bytes:
    """What `/events` says until that event has come so many times."""
    follower = await lab.service.follow_chat("anna", chat_id, after)
    assert follower is not None
    try:
        return await told(follower, until, times)
    finally:
        lab.service.leave(follower)


async def told(follower: ChatFollower, until: str, times: int = 1) -> bytes:
    out = b""
    while out.count(f'"event":"{until}"'.encode()) < times:
        out += await follower.next(15.0)
    return out


async def an_answer(lab: ChatLab, *pieces: str) -> tuple[Turn, LedCall]:
    turn = await lab.ask()
    call = await lab.model.asked()
    for piece in pieces:
        call.say(piece)
        await asyncio.sleep(0.03)
    return turn, call


def chopped(text: str, pieces: int, seed: int = 0) -> list[str]:
    chance = random.Random(seed)
    cuts = sorted(chance.sample(range(1, len(text)), pieces - 1))
    return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


TEXT = 'A river 🌊 runs\n\nto the sea\u2028, "quoted" data: and\r\nmore. ' * 8


def test_a_finished_answer_is_followed_from_everywhere(tmp_path: Path):
    """The stream of `/events`, cut at each byte and resumed from the last whole frame, equals the uncut one."""

    async def story(lab: ChatLab) -> None:
        turn, call = await an_answer(lab, *chopped(TEXT, 20))
        call.finish()
        await lab.over(turn)
        whole = await events_of(lab, turn.chat_id, ZERO)
        uncut = Screen()
        uncut.feed(whole)
        assert (uncut.text, uncut.ends) == (TEXT, ["done"])
        resumed: dict[FrameId, bytes] = {}
        for cut in range(len(whole) + 1):
            screen = Screen()
            screen.feed(whole[:cut])
            screen.rest = b""
            if screen.cursor not in resumed:
                resumed[screen.cursor] = await events_of(lab, turn.chat_id, screen.cursor)
            screen.feed(resumed[screen.cursor])
            assert (screen.text, screen.ends, screen.cursor) == (TEXT, ["done"], uncut.cursor), cut

    run(story, tmp_path)


@pytest.mark.parametrize("seed", range(6))
def test_a_running_answer_cut_at_many_places_is_shown_once(tmp_path: Path, seed: int):
    chance = random.Random(seed)

    async def story(lab: ChatLab) -> None:
        turn = await lab.ask()
        call = await lab.model.asked()
        screen = Screen()

        async def watching() -> None:
            while not screen.ends:
                follower = await lab.service.follow_chat("anna", turn.chat_id, screen.cursor)
                assert follower is not None
                for _ in range(chance.randrange(1, 6)):
                    data = await follower.next(chance.random())
                    if chance.random() < 0.3:
                        screen.feed(data[: chance.randrange(len(data) + 1)])
                        break
                    screen.feed(data)
                screen.rest = b""
                lab.service.leave(follower)

        watcher = asyncio.create_task(watching())
        for piece in chopped(TEXT, 40, seed):
            call.say(piece)
            await asyncio.sleep(chance.random() / 10)
            if chance.random() < 0.05:
                await lab.ports.log.drop("uanna:c1")
            if chance.random() < 0.1:
                await lab.ports.log.trim("uanna:c1", FrameId(1, chance.randrange(20)))
        call.finish()
        await watcher
        assert (screen.text, screen.ends) == (TEXT, ["done"])

    run(story, tmp_path)


@pytest.mark.parametrize("seed", range(6))
def test_a_stream_whose_log_is_trimmed_and_lost_still_says_everything_once(tmp_path: Path, seed: int):
    chance = random.Random(seed)

    async def story(lab: ChatLab) -> None:
        turn = await lab.ask()
        call = await lab.model.asked()
        readers = [asyncio.create_task(lab.stream(turn))]
        for piece in chopped(TEXT, 40, seed):
            call.say(piece)
            await asyncio.sleep(chance.random() / 5)
            if chance.random() < 0.1:
                await lab.ports.log.drop("uanna:c1")
            if chance.random() < 0.1:
                await lab.ports.log.trim("uanna:c1", FrameId(1, chance.randrange(30)))
            if chance.random() < 0.2:
                readers.append(asyncio.create_task(lab.stream(turn)))
        call.finish()
        for reader in readers:
            frames = read_frames(await reader)
            assert tokens(frames) == TEXT
            assert [e for e in events(frames) if e != "token"] == ["start", "provider", "done"]
            ids = [FrameId.parse(frame["#"]) for frame in frames if "#" in frame]
            assert ids == sorted(set(ids))  # type: ignore[type-var]
            assert "#" in frames[-1]

    run(story, tmp_path)


def test_a_stream_tells_no_word_of_a_turn_whose_beginning_the_log_has_lost(tmp_path: Path):
    """Its reader rests until the log has neither its end any more nor the frame in which the next one began."""

    async def story(lab: ChatLab) -> None:
        first, call = await an_answer(lab, "one ")
        resting = await lab.service.follow_turn("anna", first, STREAM)
        said = await resting.next(0.0)
        assert tokens(read_frames(said)) == "one "
        call.say("two")
        call.finish()
        await lab.over(first)
        await an_answer(lab, "another answer ")
        await lab.ports.log.trim("uanna:c1", FrameId(2, 1))
        while not resting.ended:
            said += await resting.next(0.0)
        lab.service.leave(resting)
        for frames in (read_frames(said), await lab.follow(first)):
            assert tokens(frames) == "one two"
            assert [e for e in events(frames) if e != "token"] == ["start", "provider", "done"]
            assert frames[0]["generation"] == 1
            ids = [FrameId.parse(frame["#"]) for frame in frames if "#" in frame]
            assert ids == sorted(set(ids))  # type: ignore[type-var]

    run(story, tmp_path)


@pytest.mark.promise(90)
def test_a_page_that_is_loaded_in_mid_answer_goes_on_from_its_cursor(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        turn, call = await an_answer(lab, "one ", "two ")
        await asyncio.sleep(1.2)
        call.say("three ")
        await asyncio.sleep(0.1)
        view = await lab.service.chat("anna", turn.chat_id)
        assert view.live is not None
        assert (view.live["message_id"], view.live["generation"]) == (turn.assistant_message_id, 1)
        loaded = view.messages[-1].content
        assert loaded in ("one two ", "one two three ")
        cursor = FrameId.parse(view.cursor)
        call.say("four")
        call.finish()
        screen = Screen(cursor or ZERO, loaded)
        screen.feed(await events_of(lab, turn.chat_id, cursor, "done"))
        assert screen.text == "one two three four"

    run(story, tmp_path)


def test_a_reload_before_the_first_token_follows_the_turn(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        lab.service.worker._accepting = False
        turn = await lab.ask()
        view = await lab.service.chat("anna", turn.chat_id)
        assert [(m.role, m.state) for m in view.messages] == [("user", "completed"), ("assistant", "queued")]
        following = asyncio.create_task(events_of(lab, turn.chat_id, FrameId.parse(view.cursor), "done"))
        await asyncio.sleep(0.1)
        lab.service.worker._accepting = True
        call = await lab.model.asked()
        call.say("x")
        call.finish()
        frames = read_frames(await following)
        assert [f["event"] for f in frames] == ["hello", "caught_up", "start", "provider", "token", "done"]
        assert frames[2]["user_message_id"] == turn.user_message_id

    run(story, tmp_path)


def test_the_events_of_a_chat_go_on_across_turns(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        chat = await lab.new_chat()
        follower = await lab.service.follow_chat("anna", chat, None)
        assert follower is not None
        hello = read_frames(await follower.next(1.0))[0]
        assert hello == {"event": "hello", "from": "0-0", "live": None, "snapshot": False}
        seen: list[dict[str, Any]] = []
        for text in ("one", "two"):
            turn = await lab.ask(text)
            call = await lab.model.asked()
            call.say(text)
            call.finish()
            seen += read_frames(await told(follower, "done"))
            await lab.over(turn)
        assert [f["event"] for f in seen if f["event"] != "caught_up"] == ["start", "provider", "token", "done"] * 2
        assert [f["generation"] for f in seen if f["event"] == "start"] == [1, 2]
        assert all(f["digest"] for f in seen if f["event"] == "done")
        lab.service.leave(follower)

    run(story, tmp_path)


@pytest.mark.parametrize("after", [None, ZERO, FrameId(1, 3), FrameId(99, 99), FrameId(1, 10**17)])
def test_an_old_or_unknown_cursor_gets_what_is_true(tmp_path: Path, after: FrameId | None):
    async def story(lab: ChatLab) -> None:
        first, call = await an_answer(lab, "first")
        call.finish()
        await lab.over(first)
        second = await lab.ask("more")
        call = await lab.model.asked()
        for piece in ("sec", "ond"):
            call.say(piece)
            await asyncio.sleep(1.1)
        await lab.ports.log.trim("uanna:c1", FrameId(2, 3))
        screen = Screen(after if after is not None and after.generation < 99 else ZERO)
        ends = 1 if after is None or after.seq > 99 else 2
        task = asyncio.create_task(events_of(lab, second.chat_id, after, "done", ends))
        await asyncio.sleep(0.1)
        call.say(" end")
        call.finish()
        if after is not None and after.generation == 99:
            await lab.over(second)
            task.cancel()  # from the future: nothing is new until ids are beyond it
            return
        screen.feed(await task)
        assert screen.text == "second end"
        assert screen.ends[-1] == "done"

    run(story, tmp_path)


def test_after_a_long_absence_the_missed_turns_come_whole(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        for text in ("one", "two", "three"):
            turn = await lab.ask(text)
            call = await lab.model.asked()
            call.say(text)
            call.finish()
            await lab.over(turn)
        await lab.ports.log.drop("uanna:c1")
        frames = read_frames(await events_of(lab, turn.chat_id, FrameId(1, 3)))
        names = [f["event"] for f in frames]
        assert names == ["hello", "caught_up", "start", "snapshot", "done", "start", "snapshot", "done"]
        assert [f["text"] for f in frames if f["event"] == "snapshot"] == ["two", "three"]

    run(story, tmp_path)


def test_a_turn_that_has_ended_has_nothing_more_to_say(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        turn, call = await an_answer(lab, "x")
        following = await lab.service.follow_chat("anna", turn.chat_id, ZERO, turn.id)
        assert following is not None
        call.finish()
        while not following.ended:
            await following.next(5.0)
        lab.service.leave(following)
        end = FrameId.parse((await lab.message(turn.assistant_message_id)).folded_to)
        assert await lab.service.follow_chat("anna", turn.chat_id, end, turn.id) is None
        assert await lab.service.follow_chat("anna", turn.chat_id, ZERO, turn.id) is not None
        with pytest.raises(ApiError, match="no such turn"):
            await lab.service.follow_chat("anna", turn.chat_id, ZERO, 999)

    run(story, tmp_path)


def test_a_lost_ring_costs_a_second(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        turn, call = await an_answer(lab, "one")
        following = asyncio.create_task(lab.follow(turn))
        began = asyncio.get_running_loop().time()
        call.finish()
        assert events(await following) == ["start", "provider", "token", "done"]
        assert asyncio.get_running_loop().time() - began < 1.6
        turn, call = await an_answer(lab, "one")
        began = asyncio.get_running_loop().time()
        assert await lab.service.stop("anna", turn.chat_id)
        assert asyncio.get_running_loop().time() - began < 3.1
        assert (await lab.over(turn)).state == "stopped"

    run(story, tmp_path, doorbell=FaultyDoorbell())


# -- many, and slow ones


def test_a_hundred_followers_and_a_slow_one_see_the_same(tmp_path: Path):
    size = 256 * 1024
    piece = "0123456789abcdef" * 64

    async def story(lab: ChatLab) -> None:
        turn = await lab.ask()
        call = await lab.model.asked()
        many = [asyncio.create_task(lab.stream(turn)) for _ in range(100)]
        slow = await lab.service.follow_turn("anna", turn, STREAM)
        slow_out: list[bytes] = []
        slow_out.append(await slow.next(5.0))
        for number in range(size // len(piece)):
            call.say(piece)
            await asyncio.sleep(0.03)
            if number % 64 == 0:
                slow_out.append(await slow.next(0.0))
        call.finish()
        answers = [await task for task in many]
        assert len(set(answers)) == 1
        assert tokens(read_frames(answers[0])) == piece * (size // len(piece))
        while not slow.ended:
            slow_out.append(await slow.next(5.0))
            assert len(slow_out[-1]) < 150_000
        lab.service.leave(slow)
        assert tokens(read_frames(b"".join(slow_out))) == piece * (size // len(piece))
        assert lab.service.statistics()["followers"] == 0

    run(story, tmp_path, settings=with_settings(lag_frames=32))


def test_a_reader_that_is_far_behind_gets_what_it_missed_in_few_pieces(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        turn = await lab.ask()
        call = await lab.model.asked()
        for number in range(600):
            call.say(f"{number} ")
            await asyncio.sleep(0.03)
        frames = await lab.follow(turn) if call.finish() is None else []
        text = "".join(f"{number} " for number in range(600))
        assert tokens(frames) == text
        assert len([f for f in frames if f["event"] == "token"]) < 350
        screen = Screen()
        screen.feed(await events_of(lab, turn.chat_id, ZERO, "done"))
        assert screen.text == text

    run(story, tmp_path)


def test_no_more_may_follow_than_there_is_room_for(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        chat = await lab.new_chat()
        followers = [await lab.service.follow_chat("anna", chat, None) for _ in range(3)]
        with pytest.raises(ApiError) as refused:
            await lab.service.follow_chat("anna", chat, None)
        assert refused.value.status == 429
        for follower in followers:
            assert follower is not None
            lab.service.leave(follower)
        assert lab.service.statistics()["followers"] == 0

    run(story, tmp_path, settings=with_settings(followers_per_chat=3))


def test_a_connection_is_asked_to_come_again_after_a_while(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        follower = await lab.service.follow_chat("anna", await lab.new_chat(), None)
        assert follower is not None
        said = await told(follower, "bye")
        assert follower.ended
        assert said.startswith(b"retry: 1000\n")
        assert asyncio.get_running_loop().time() == pytest.approx(600, abs=1)
        lab.service.leave(follower)

    run(story, tmp_path)

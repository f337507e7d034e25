"""One turn, from its submit to its end: the frames, the rows, and what another submit does to it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rivermouth.chat.moves import Busy
from rivermouth.chat.wire import STREAM_PIECES
from rivermouth.ir.errors import ApiError
from rivermouth.ir.events import (
    ArgsDelta,
    Finish,
    PartEnd,
    PartKind,
    PartStart,
    Reason,
    ReasoningDelta,
    Start,
    TextDelta,
)
from rivermouth.store.port import Status
from tests.chat.lab import ChatLab, LedProvider, events, final, run, tokens, with_settings

NEVER = 10_000


@pytest.mark.promise(93, 98, 100, 101, 104, 106, 110, 111, 112, 113, 170)
def test_an_answer_is_started_told_by_whom_said_and_done(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        turn = await lab.ask("What is\n a  river?")
        row = await lab.message(turn.assistant_message_id)
        assert (row.role, row.text) == ("assistant", "")
        following = asyncio.create_task(lab.follow(turn))
        call = await lab.model.asked()
        for piece in ("A ", "river", " runs."):
            call.say(piece)
            await asyncio.sleep(0.1)
        call.finish()
        frames = await following
        assert events(frames) == ["start", "provider", "token", "done"]
        assert frames[0] == {"event": "start", "message_id": row.id, "generation": 1, "#": "1-0"}
        assert frames[1] == {"event": "provider", "provider": "led", "#": "1-1"}
        assert [f["token"] for f in frames if f["event"] == "token"] == ["A ", "river", " runs."]
        assert frames[-1] == {"event": "done", "message_id": row.id, "provider": "led", "#": frames[-1]["#"]}
        ids = [tuple(map(int, frame["#"].split("-"))) for frame in frames]
        assert ids == sorted(set(ids))
        view = await lab.service.chat("anna", turn.chat_id)
        assert [(m.role, m.content, m.state) for m in view.messages] == [
            ("user", "What is\n a  river?", "completed"),
            ("assistant", "A river runs.", "completed"),
        ]
        assert view.chat.title == "What is a river?"
        assert view.cursor == frames[-1]["#"]
        assert final(lab.records) == [(Status.COMPLETED, None)]

    run(story, tmp_path)


def test_pieces_are_joined_within_25_ms_and_a_late_piece_waits_for_nothing(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        turn = await lab.ask()
        following = asyncio.create_task(lab.follow(turn))
        call = await lab.model.asked()
        await asyncio.sleep(1)
        began = asyncio.get_running_loop().time()
        call.say("a")
        await lab.until(lambda: lab.service.worker.owners[turn.id]._entries.last.seq == 2)
        assert asyncio.get_running_loop().time() - began < 0.012
        for _ in range(50):
            call.say("b")
            await asyncio.sleep(0.001)
        call.finish()
        pieces = [f["token"] for f in await following if f["event"] == "token"]
        assert "".join(pieces) == "a" + "b" * 50
        assert 3 <= len(pieces) <= 5

    run(story, tmp_path)


@pytest.mark.promise(81, 84, 129, 130, 131)
def test_a_newer_request_supersedes_the_one_that_runs(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        first = await lab.ask("one")
        following = asyncio.create_task(lab.follow(first))
        call = await lab.model.asked()
        call.say("half an ")
        await asyncio.sleep(0.5)
        second = await lab.ask("two")
        other = asyncio.create_task(lab.follow(second))
        frames = await following
        assert frames[-1] == {
            "event": "cancelled",
            "reason": "superseded by a newer request",
            "message_id": first.assistant_message_id,
            "#": frames[-1]["#"],
        }
        assert call.closed.is_set()
        assert await lab.text_of(first) == "half an "
        again = await lab.model.asked()
        assert again.asked_text() == [("user", "one"), ("assistant", "half an "), ("user", "two")]
        again.say("2")
        again.finish()
        assert events(await other) == ["start", "provider", "token", "done"]
        assert (second.assistant_message_id or 0) > (first.assistant_message_id or 0)
        rows = [await lab.turn(first), await lab.turn(second)]
        assert [(row.state, row.generation) for row in rows] == [("superseded", 1), ("completed", 2)]
        assert [(s, by) for s, by in final(lab.records)] == [
            (Status.CANCELLED, "supersede"),
            (Status.COMPLETED, None),
        ]

    run(story, tmp_path)


@pytest.mark.promise(102)
def test_a_turn_that_never_began_leaves_no_empty_answer(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        first = await lab.ask("one")
        call = await lab.model.asked()
        call.deaf = True  # the first turn does not end at once, so the second waits
        call.say("x")
        await asyncio.sleep(0.1)
        second = await lab.ask("two")
        waiting = asyncio.create_task(lab.follow(second))
        await asyncio.sleep(0)
        third = await lab.ask("three")
        frames = await waiting
        assert [f["event"] for f in frames] == ["cancelled"]
        assert frames[0]["message_id"] == second.assistant_message_id
        assert frames[0]["reason"] == "superseded by a newer request"
        call.closed.set()
        again = await lab.model.asked()
        again.finish() if again.say("3") is None else None
        await lab.over(third)
        view = await lab.service.chat("anna", third.chat_id)
        assert [(m.role, m.content) for m in view.messages] == [
            ("user", "one"),
            ("assistant", "x"),
            ("user", "two"),
            ("user", "three"),
            ("assistant", "3"),
        ]
        assert again.asked_text()[-1] == ("user", "two\n\nthree")
        assert len(lab.model.calls) == 2
        assert (await lab.turn(first)).state == "superseded"

    run(story, tmp_path)


@pytest.mark.promise(94, 103, 114, 123, 132)
def test_stop_ends_the_answer_keeps_its_text_and_says_that_something_ran(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        turn = await lab.ask()
        following = asyncio.create_task(lab.follow(turn))
        call = await lab.model.asked()
        call.say("so far")
        await asyncio.sleep(0.2)
        began = asyncio.get_running_loop().time()
        assert await lab.service.stop("anna", turn.chat_id, generation=1)
        assert asyncio.get_running_loop().time() - began < 0.25
        frames = await following
        assert frames[-1]["event"] == "cancelled"
        assert frames[-1]["message_id"] == turn.assistant_message_id
        assert call.closed.is_set()
        assert await lab.text_of(turn) == "so far"
        assert not await lab.service.stop("anna", turn.chat_id)
        assert not await lab.service.stop("anna", turn.chat_id, generation=1)

    run(story, tmp_path)


@pytest.mark.promise(173)
def test_a_late_stop_does_not_hit_the_newer_answer(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        chat = await lab.new_chat()
        assert not await lab.service.stop("anna", chat)
        first = await lab.ask()
        await lab.model.asked()
        second = await lab.ask("again")
        call = await lab.model.asked()
        assert not await lab.service.stop("anna", chat, generation=1)
        assert not await lab.service.stop("anna", chat, message_id=first.assistant_message_id)
        call.say("alive")
        call.finish()
        assert await lab.text_of(second) == "alive"

    run(story, tmp_path)


def test_a_stop_before_the_call_makes_none(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        turn = await lab.ask()
        assert await lab.service.stop("anna", turn.chat_id)
        frames = await lab.follow(turn)
        assert frames[-1]["event"] == "cancelled"
        assert (await lab.over(turn)).state == "stopped"
        assert lab.model.calls == []

    run(story, tmp_path)


@pytest.mark.promise(105)
def test_the_slot_is_free_before_the_end_is_told(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        turn = await lab.ask()
        call = await lab.model.asked()
        call.say("x")
        seen: list[int | None] = []
        append = lab.ports.log.append

        async def watching(chat, at, body, *, opening=False):  # type: ignore[no-untyped-def]
            if b"turn.end" in body:
                row = await lab.ports.store.read(lambda tx: tx.chat(turn.chat_id))
                seen.append(row.active_turn if row is not None else -1)
            return await append(chat, at, body, opening=opening)

        lab.ports.log.append = watching  # type: ignore[method-assign]
        call.finish()
        await lab.over(turn)
        await lab.until(lambda: bool(seen))
        assert seen == [None]

    run(story, tmp_path)


def test_a_second_submit_can_be_refused_or_wait_or_take_the_first_out_of_the_talk(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        first = await lab.ask("one")
        call = await lab.model.asked()
        with pytest.raises(Busy) as busy:
            await lab.ask("no", on_busy="reject")
        assert busy.value.turn.id == first.id
        waiting = await lab.ask("two", on_busy="enqueue")
        await asyncio.sleep(3)
        assert (await lab.turn(waiting)).state == "queued"
        call.say("1")
        call.finish()
        call = await lab.model.asked()
        assert call.asked_text() == [("user", "one"), ("assistant", "1"), ("user", "two")]
        call.say("2")
        await asyncio.sleep(0.1)
        last = await lab.ask("three", on_busy="rollback")
        call = await lab.model.asked()
        assert call.asked_text() == [("user", "one"), ("assistant", "1"), ("user", "three")]
        call.say("3")
        call.finish()
        await lab.over(last)
        view = await lab.service.chat("anna", last.chat_id)
        assert [(m.content, m.replaced) for m in view.messages] == [
            ("one", False),
            ("1", False),
            ("two", True),
            ("2", True),
            ("three", False),
            ("3", False),
        ]

    run(story, tmp_path)


def test_too_many_messages_do_not_wait(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        await lab.ask("one")
        for _ in range(2):
            await lab.ask("more", on_busy="enqueue")
        with pytest.raises(ApiError, match="too many messages") as refused:
            await lab.ask("more", on_busy="enqueue")
        assert refused.value.status == 429

    run(story, tmp_path, settings=with_settings(queued_per_chat=2))


def test_the_same_request_is_the_same_turn(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        one = await lab.submit("hello", request_id="key")
        two = await lab.submit("hello", request_id="key")
        assert (one.fresh, two.fresh) == (True, False)
        assert one.turn.id == two.turn.id
        call = await lab.model.asked()
        call.say("once")
        call.finish()
        frames = [await lab.follow(one.turn), await lab.follow(two.turn)]
        assert frames[0] == frames[1]
        three = await lab.submit("hello", request_id="key")
        assert await lab.follow(three.turn) == frames[0]
        assert len(lab.model.calls) == 1

    run(story, tmp_path)


@pytest.mark.parametrize("content", ["", " \n ", "x" * 101])
def test_a_message_that_is_empty_or_too_long_is_refused(tmp_path: Path, content: str):
    async def story(lab: ChatLab) -> None:
        with pytest.raises(ApiError) as refused:
            await lab.ask(content)
        assert (refused.value.status, refused.value.param) == (400, "content")
        assert (await lab.service.chat("anna", lab.chat_id)).messages == []

    run(story, tmp_path, settings=with_settings(max_content_chars=100))


def test_an_answer_is_asked_for_again_or_with_other_words(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        async def answered(text: str, words: str | None, **more: object) -> object:
            turn = await lab.ask(words, **more)
            call = await lab.model.asked()
            asked.append(call.asked_text())
            call.say(text)
            call.finish()
            return await lab.over(turn)

        asked: list[list[tuple[str, str]]] = []
        first = await answered("1", "one")
        second = await answered("2", "two")
        again = await answered("2b", None, redo=second.assistant_message_id)
        assert asked[-1] == [("user", "one"), ("assistant", "1"), ("user", "two")]
        assert again.parent_id == second.id
        once_more = await answered("2c", None, redo=second.user_message_id)
        assert asked[-1] == [("user", "one"), ("assistant", "1"), ("user", "two")]
        edited = await answered("1b", "uno", redo=first.user_message_id)
        assert asked[-1] == [("user", "uno")]
        view = await lab.service.chat("anna", edited.chat_id)
        assert [m.content for m in view.messages if not m.replaced] == ["uno", "1b"]
        assert len(view.messages) == 10
        assert (await lab.message(second.assistant_message_id)).text == "2"
        assert once_more.state == "completed"
        with pytest.raises(ApiError, match="no such message"):
            await lab.ask(None, redo=NEVER)

    run(story, tmp_path)


@pytest.mark.promise(171)
def test_a_system_prompt_and_the_chats_instructions_are_put_in_front(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        chat = (await lab.service.create("anna", "", "Answer in Portuguese.")).id
        await lab.ask("hello", chat_id=chat)
        call = await lab.model.asked()
        assert [text.text for text in call.request.system] == ["Be brief.", "Answer in Portuguese."]
        assert call.asked_text() == [("user", "hello")]

    run(story, tmp_path, settings=with_settings(system_prompt="Be brief."))


def test_thoughts_and_calls_are_kept_and_shown_to_who_wants_them(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        turn = await lab.ask()
        call = await lab.model.asked()
        call.events(
            Start(),
            PartStart(0, PartKind.REASONING),
            ReasoningDelta(0, "hm"),
            PartEnd(0),
            PartStart(1, PartKind.TOOL, 0, "call_1", "look"),
            ArgsDelta(1, '{"a":'),
            ArgsDelta(1, "1}"),
            PartEnd(1),
            PartStart(2, PartKind.TEXT),
            TextDelta(2, "seen"),
            PartEnd(2),
            Finish(Reason.STOP),
        )
        await lab.over(turn)
        plain = await lab.follow(turn)
        assert events(plain) == ["start", "provider", "token", "done"]
        frames = await lab.follow(turn, STREAM_PIECES)
        assert events(frames) == [
            "start",
            "provider",
            "reasoning",
            "tool_call",
            "token",
            "done",
        ]
        calls = [f for f in frames if f["event"] == "tool_call"]
        called = {"event": "tool_call", "call": "call_1", "part": 1, "name": "look", "arguments": '{"a":1}'}
        assert [{**f, "#": ""} for f in calls] == [{**called, "#": ""}]
        ids = [f["#"] for f in frames]
        assert len(ids) == len(set(ids))  # one frame of each entry
        view = await lab.service.chat("anna", turn.chat_id)
        assert [type(part).__name__ for part in view.messages[-1].parts] == ["Reasoning", "ToolCall", "Text"]
        assert tokens(frames) == "seen"

    run(story, tmp_path)


def test_what_is_somebody_elses_is_not_there(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        turn = await lab.ask()
        for attempt in (
            lab.ask("x", owner="bob", chat_id=turn.chat_id),
            lab.service.chat("bob", turn.chat_id),
            lab.service.stop("bob", turn.chat_id),
            lab.service.update("bob", turn.chat_id, "t", None),
            lab.service.delete("bob", turn.chat_id),
            lab.service.follow_turn("bob", turn, STREAM_PIECES),
            lab.service.follow_chat("bob", turn.chat_id, None),
        ):
            with pytest.raises(ApiError) as refused:
                await attempt
            assert (refused.value.status, refused.value.code) == (404, "chat_not_found")
        assert await lab.service.chats("bob", 10, None) == []

    run(story, tmp_path)


def test_deleting_a_chat_ends_its_answer_and_its_followers(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        turn = await lab.ask()
        following = asyncio.create_task(lab.follow(turn))
        call = await lab.model.asked()
        call.say("x")
        await asyncio.sleep(0.1)
        await lab.service.delete("anna", turn.chat_id)
        assert (await following)[-1]["event"] == "cancelled"
        await lab.until(call.closed.is_set)
        with pytest.raises(ApiError):
            await lab.service.chat("anna", turn.chat_id)
        await lab.until(lambda: not lab.service.worker.owners)

    run(story, tmp_path)


@pytest.mark.promise(124)
def test_an_answer_that_nobody_follows_is_finished_and_kept(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        turn = await lab.ask()
        following = asyncio.create_task(lab.follow(turn))
        call = await lab.model.asked()
        call.say("one ")
        await asyncio.sleep(0.1)
        following.cancel()
        await asyncio.sleep(5)
        call.say("two")
        call.finish()
        assert await lab.text_of(turn) == "one two"

    run(story, tmp_path)


def test_a_model_that_writes_faster_than_the_log_takes_is_made_to_wait(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        turn = await lab.ask()
        call = await lab.model.asked()
        for _ in range(400):
            call.say("x" * 1_000)
        call.finish()
        assert len(await lab.text_of(turn)) == 400_000
        assert tokens(await lab.follow(turn)) == "x" * 400_000

    run(story, tmp_path, settings=with_settings(buffer_chars=20_000))


def test_an_answer_without_an_end_is_cut(tmp_path: Path):
    def make() -> tuple[LedProvider, ...]:
        return (LedProvider("led"),)

    async def story(lab: ChatLab) -> None:
        turn = await lab.ask()
        call = await lab.model.asked()
        for _ in range(50):
            call.say("x" * 100)
        frames = await lab.follow(turn)
        assert frames[-1]["event"] == "done"
        assert frames[-1]["interrupted"] == {"type": "http"}
        assert "⚠️ The answer became too long" in tokens(frames)
        assert call.closed.is_set()

    run(story, tmp_path, settings=with_settings(turn_chars=2_000, coalesce_chars=100), make=make)

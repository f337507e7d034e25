"""The one slot of a chat: taken and given back in one transaction, and fenced by its generation."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from rivermouth.chat import moves
from rivermouth.chat.machine import LIVE, State
from rivermouth.chat.moves import End, Fenced
from rivermouth.chat.ports import slot_key
from rivermouth.chat.settings import ChatSettings
from rivermouth.engine.interrupt import By
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.log.port import FrameId
from rivermouth.store.chats.port import Turn, Tx
from tests.chat.lab import ChatLab, run

SETTINGS = ChatSettings()


async def rows(lab: ChatLab, chat_id: int) -> tuple[Any, list[Turn]]:
    return await lab.ports.store.read(lambda tx: (tx.chat(chat_id), list(tx.turns(chat_id))))


@pytest.mark.promise(82)
def test_a_slot_is_named_by_its_person_and_its_chat(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        keys: set[str] = set()
        append = lab.ports.log.append

        async def appending(key: str, at: FrameId, body: bytes, *, opening: bool = False) -> Any:
            keys.add(key)
            return await append(key, at, body, opening=opening)

        lab.ports.log.append = appending  # type: ignore[method-assign]
        lab.model.script = lambda call: (call.say("x"), call.finish())  # type: ignore[assignment,return-value]
        for owner in ("anna", "bob"):
            chat = await lab.new_chat(owner)
            await lab.over(await lab.ask("x", owner=owner, chat_id=chat))
        assert keys == {"uanna:c1", "ubob:c2"} == {slot_key("anna", 1), slot_key("bob", 2)}

    run(story, tmp_path)


@pytest.mark.promise(83, 84, 85)
def test_what_is_kept_for_each_chat_is_its_generation_its_active_turn_and_the_newest_answer(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        chat_id = await lab.new_chat()
        other = await lab.new_chat()
        lab.chat_id = chat_id
        kept = []
        for number in (1, 2):
            asked = await lab.ask(f"{number}", chat_id=chat_id)
            call = await lab.model.asked()
            chat, turns = await rows(lab, chat_id)
            turn = next(turn for turn in turns if turn.id == asked.id)
            owner = lab.service.worker.owners[asked.id]
            assert (chat.generation, chat.active_turn, turn.generation) == (number, asked.id, number)
            assert turn.assistant_message_id == asked.assistant_message_id
            assert (await lab.service.chat("anna", chat_id)).live == {
                "turn": asked.id,
                "state": "streaming",
                "message_id": asked.assistant_message_id,
                "user_message_id": asked.user_message_id,
                "generation": number,
            }
            assert owner._call is not None
            assert owner._call.interrupt.by is None
            kept.append((owner, call))
        assert kept[0][0]._call.interrupt.by is By.SUPERSEDE
        assert kept[0][1].closed.is_set()
        assert (await rows(lab, other))[0].generation == 0

    run(story, tmp_path)


@pytest.mark.promise(79, 81)
def test_of_many_messages_at_once_each_ends_the_one_before_and_no_moment_has_two(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        chat_id = await lab.new_chat()
        store_run, most = lab.ports.store.run, [0]

        async def running(work: Any) -> Any:
            done = await store_run(work)
            live = [turn for turn in (await rows(lab, chat_id))[1] if turn.state in LIVE]
            most[0] = max(most[0], len(live))
            return done

        lab.ports.store.run = running  # type: ignore[method-assign]

        async def ask(number: int) -> Turn:
            await asyncio.sleep(number % 5 * 0.01)
            return await lab.ask(f"{number}", chat_id=chat_id)

        asked = await asyncio.gather(*(ask(number) for number in range(20)))
        (await lab.model.asked()).say("x")
        newest = max(asked, key=lambda turn: turn.seqno)
        await lab.until(lambda: set(lab.service.worker.owners) == {newest.id})
        _, turns = await rows(lab, chat_id)
        assert {turn.state for turn in turns if turn.id != newest.id} == {"superseded"}
        assert most == [1]

    run(story, tmp_path)


@pytest.mark.promise(86, 87)
def test_a_stale_generation_neither_attaches_nor_writes_nor_finishes(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        lab.service.worker._accepting = False
        turn = await lab.ask()
        store = lab.ports.store
        stale = await store.run(lambda tx: moves.claim(tx, turn.chat_id, "boot-1", SETTINGS))
        assert stale is not None
        taken = await store.run(lambda tx: moves.take_over(tx, turn.id, "boot-2"))
        assert taken is not None
        assert (stale.generation, taken.generation) == (1, 2)
        end = End(state=State.COMPLETED, row={"parts": "[]", "text": "late"}, end=FrameId(1, 9))
        before = await lab.message(turn.assistant_message_id), await lab.turn(turn)

        def late(tx: Tx, what: str) -> object:
            match what:
                case "call":
                    return moves.call(tx, stale, "call-1")
                case "checkpoint":
                    return moves.checkpoint(tx, stale, turn.assistant_message_id or 0, {"text": "late"}, end.end, "p")
                case _:
                    return moves.finish(tx, stale, end)

        for what in ("call", "checkpoint", "finish"):
            with pytest.raises(Fenced):
                await store.run(lambda tx, what=what: late(tx, what))  # type: ignore[misc]
            assert (await lab.message(turn.assistant_message_id), await lab.turn(turn)) == before
        assert not await store.run(lambda tx: moves.finalise(tx, stale, end))
        assert (await lab.message(turn.assistant_message_id), await lab.turn(turn)) == before

    run(story, tmp_path)


def test_a_message_of_exactly_the_most_characters_is_taken_and_kept_whatever_follows(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        content = "🌊" * SETTINGS.max_content_chars
        lab.model.script = lambda call: call.fail(ApiError(Kind.UPSTREAM, "broken"))
        turn = await lab.ask(content)
        row = await lab.over(turn)
        assert row.state == "failed"
        view = await lab.service.chat("anna", turn.chat_id)
        assert [(m.role, m.content, m.state) for m in view.messages] == [
            ("user", content, "completed"),
            ("assistant", "", "failed"),
        ]

    assert SETTINGS.max_content_chars == 32_000
    run(story, tmp_path)

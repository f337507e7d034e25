"""A person leaves for good: the chat's part of it, told by a clock that jumps."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rivermouth.chat.machine import State
from rivermouth.ir.errors import ApiError
from rivermouth.store.accounts.sqlite import SqliteAccountStore
from rivermouth.store.database import open_database
from tests.chat.lab import ChatLab, run


async def delete(lab: ChatLab, owner: str, *, stopped: bool = True) -> None:
    """As the accounts do it, of a person whom only the chat knows."""
    store = SqliteAccountStore(open_database(lab.folder / "chat.db"), clock_ns=lab.ports.clock.wall_ns, inline=True)
    try:
        if stopped:
            await lab.service.quiet(owner)
        chats = await store.run(lambda tx: tx.delete_user(owner))
    finally:
        await store.close()
    await lab.service.forgotten(owner, chats)


def test_what_runs_and_what_waits_is_stopped_in_every_chat_of_theirs_alone(tmp_path: Path) -> None:
    async def story(lab: ChatLab) -> None:
        first = await lab.ask("one")
        (await lab.model.asked()).say("half")
        queued = await lab.ask("two", on_busy="enqueue")
        other = await lab.ask("three", chat_id=await lab.new_chat())
        (await lab.model.asked()).say("half")
        bobs = await lab.ask("four", chat_id=await lab.new_chat("bob"), owner="bob")
        his = await lab.model.asked()
        await lab.service.quiet("anna")
        states = [(await lab.turn(turn)).state for turn in (first, queued, other)]
        assert states == [State.STOPPED] * 3
        his.say("whole")
        his.finish()
        assert await lab.text_of(bobs) == "whole"
        await lab.service.quiet("anna")  # nothing runs

    run(story, tmp_path)


def test_a_silent_model_does_not_hold_a_deletion_up(tmp_path: Path) -> None:
    async def story(lab: ChatLab) -> None:
        turn = await lab.ask("hello")
        call = await lab.model.asked()
        call.deaf = True
        began_s = lab.ports.clock.now_s()
        await delete(lab, "anna")
        assert lab.ports.clock.now_s() - began_s <= lab.ports.settings.stop_s + 0.1
        assert await lab.ports.store.read(lambda tx: tx.turn(turn.id)) is None

    run(story, tmp_path)


def test_an_answer_that_began_after_the_stop_ends_and_writes_nothing(tmp_path: Path) -> None:
    """Between the stop and the deletion a request that was let in before can begin another turn."""

    async def story(lab: ChatLab) -> None:
        turn = await lab.ask("hello")
        following = asyncio.create_task(lab.follow(turn))
        call = await lab.model.asked()
        call.say("half of a ")
        await asyncio.sleep(2)
        await delete(lab, "anna", stopped=False)
        call.say("sentence")
        await call.closed.wait()
        await following
        await lab.until(lambda: not lab.service.worker.owners)
        assert await lab.ports.store.read(lambda tx: (tx.turn(turn.id), tx.message(turn.user_message_id))) == (
            None,
            None,
        )
        assert list(await lab.ports.store.read(lambda tx: tx.search("anna", ["half"], 10))) == []

    run(story, tmp_path)


def test_what_is_theirs_is_not_found_any_more_and_other_peoples_is(tmp_path: Path) -> None:
    async def story(lab: ChatLab) -> None:
        hers = await lab.new_chat()
        his = await lab.new_chat("bob")
        for owner, chat in (("anna", hers), ("bob", his)):
            turn = await lab.ask("of otters", chat_id=chat, owner=owner)
            call = await lab.model.asked()
            call.say("Otters swim.")
            call.finish()
            await lab.over(turn)
            await lab.service.prefer(owner, "led")
        await delete(lab, "anna")
        with pytest.raises(ApiError, match="no such chat"):
            await lab.service.chat("anna", hers)
        assert await lab.service.search("anna", "otters") == []
        assert (await lab.service.models("anna"))["selected"] == "auto"
        assert [found.id for found in await lab.service.search("bob", "otters swim")] == [his]
        assert (await lab.service.models("bob"))["selected"] == "led"
        assert len((await lab.service.chat("bob", his)).messages) == 2

    run(story, tmp_path)

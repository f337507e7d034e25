"""Writers that die, sleep or are shut out; logs that are lost; a server that stops: nothing said is lost, all ends."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rivermouth.chat.machine import LIVE
from rivermouth.chat.service import ChatService
from rivermouth.chat.worker import FORGET_WORKERS_S
from rivermouth.log.port import FrameId
from tests.chat.faulty import FaultyLog
from tests.chat.lab import ChatLab, chat_lab, events, make_ports, run, tokens, with_settings
from tests.engine.jumping import jump


async def begun(lab: ChatLab, *pieces: str):  # type: ignore[no-untyped-def]
    turn = await lab.ask()
    call = await lab.model.asked()
    for piece in pieces:
        call.say(piece)
        await asyncio.sleep(0.1)
    return turn, call


def die(lab: ChatLab) -> None:
    """The process is gone: its tasks never run again.  What it had in memory is left to nobody."""
    worker = lab.service.worker
    for task in (*worker._loops, *worker._tasks):
        task.cancel()


@pytest.mark.promise(104, 130)
def test_a_turn_whose_process_died_is_ended_by_the_next_start_with_what_was_said(tmp_path: Path):
    async def story() -> None:
        async with chat_lab(tmp_path) as lab:
            turn, _ = await begun(lab, "said ", "and kept")
            await asyncio.sleep(1.5)
            following = asyncio.create_task(lab.follow(turn))
            await asyncio.sleep(0.1)
            die(lab)
            async with ChatService(lab.ports, boot_id="boot-2", alone=True) as second:
                frames = await following
                assert events(frames) == ["start", "provider", "token", "done"]
                assert tokens(frames) == "said and kept"
                assert frames[-1]["interrupted"] == {"type": "unavailable"}
                lab.service = second
                assert (await lab.turn(turn)).state == "interrupted"
                assert await lab.text_of(turn) == "said and kept"
                after = await lab.ask("next")
                call = await lab.model.asked()
                call.say("yes")
                call.finish()
                assert await lab.text_of(after) == "yes"

    jump(story())


def test_processes_of_long_ago_are_forgotten_at_a_start(tmp_path: Path):
    async def story() -> None:
        async with chat_lab(tmp_path) as lab:
            die(lab)
            for start in ("boot-2", "boot-3"):
                async with ChatService(lab.ports, boot_id=start, alone=True):
                    assert set(await lab.ports.store.read(lambda tx: tx.beats())) >= {start}
            await asyncio.sleep(FORGET_WORKERS_S + 1)
            async with ChatService(lab.ports, boot_id="boot-4", alone=True):
                assert set(await lab.ports.store.read(lambda tx: tx.beats())) == {"boot-4"}

    jump(story())


def test_a_turn_that_had_said_nothing_ends_with_an_error(tmp_path: Path):
    async def story() -> None:
        async with chat_lab(tmp_path) as lab:
            turn, _ = await begun(lab)
            die(lab)
            async with ChatService(lab.ports, boot_id="boot-2", alone=True):
                frames = await lab.follow(turn)
                assert events(frames) == ["start", "error"]
                assert frames[-1]["error"]["type"] == "unavailable"

    jump(story())


def test_without_the_log_the_row_has_at_least_the_last_checkpoint(tmp_path: Path):
    async def story() -> None:
        async with chat_lab(tmp_path) as lab:
            turn, _ = await begun(lab, *"abcdefghijklmno")
            die(lab)
            await lab.ports.log.drop("uanna:c1")
            async with ChatService(lab.ports, boot_id="boot-2", alone=True):
                text = await lab.text_of(turn)
                assert "abcdefghijklmno".startswith(text)
                assert len(text) >= 5

    jump(story())


def test_a_dead_worker_is_noticed_by_another_after_its_lease(tmp_path: Path):
    async def story() -> None:
        async with chat_lab(tmp_path) as lab:
            turn, call = await begun(lab, "x")
            async with ChatService(lab.ports, boot_id="boot-2", alone=False) as other:
                for _ in range(3):
                    await asyncio.sleep(15)
                    call.say("x")
                assert (await lab.turn(turn)).state == "streaming"  # it beats, so nobody touches it
                die(lab)
                began = asyncio.get_running_loop().time()
                row = await lab.over(turn)
                assert 12 < asyncio.get_running_loop().time() - began < 21
                assert (row.state, row.worker) == ("interrupted", "boot-2")
                assert other.worker.owners == {}

    jump(story())


@pytest.mark.promise(86, 87)
def test_a_zombie_writes_neither_the_log_nor_the_row(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        turn, call = await begun(lab, "before ")
        owner = lab.service.worker.owners[turn.id]
        lab.service.worker.owners.clear()  # so that nobody tells it
        assert await lab.service.worker.recover(turn.id)
        page = await lab.ports.log.read("uanna:c1", FrameId(0, 0), 100)
        row = await lab.turn(turn)
        call.say("after")
        await lab.until(call.closed.is_set)
        assert owner.turn.generation == 1
        assert await lab.ports.log.read("uanna:c1", FrameId(0, 0), 100) == page
        assert await lab.turn(turn) == row
        assert (row.generation, row.state) == (2, "interrupted")
        assert await lab.text_of(turn) == "before "

    run(story, tmp_path)


def test_a_worker_that_cannot_beat_stops_by_itself_before_others_may_take_over(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        turn, call = await begun(lab, "x")
        worker = lab.service.worker

        async def failing() -> None:
            return None

        worker._beaten_s = asyncio.get_running_loop().time()
        worker._beat = failing  # type: ignore[method-assign]
        began = asyncio.get_running_loop().time()
        for task in worker._loops[:1]:
            task.cancel()
        worker._loops.append(asyncio.create_task(worker._repeat("beat", failing, 1.0, None)))
        await lab.until(call.closed.is_set)
        assert 9 < asyncio.get_running_loop().time() - began < 13
        assert (await lab.turn(turn)).state in {*LIVE, "interrupted"}

    run(story, tmp_path)


def test_a_stop_whose_owner_does_not_move_is_done_by_another_after_2_seconds(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        turn, call = await begun(lab, "text")
        owner = lab.service.worker.owners[turn.id]
        owner.stop = lambda reason: None  # type: ignore[method-assign]
        began = asyncio.get_running_loop().time()
        assert await lab.service.stop("anna", turn.chat_id)
        row = await lab.over(turn)
        assert asyncio.get_running_loop().time() - began < 2.5
        assert (row.state, row.generation) == ("stopped", 2)
        assert await lab.text_of(turn) == "text"
        frames = await lab.follow(turn)
        assert (events(frames)[-1], tokens(frames)) == ("cancelled", "text")
        await lab.until(call.closed.is_set)

    run(story, tmp_path)


def test_a_turn_past_its_hard_deadline_fails_with_what_it_had(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        turn, call = await begun(lab, "text")
        row = await lab.over(turn)
        assert row.state == "failed"
        assert 10e9 < (row.ended_ns or 0) - row.created_ns < 16e9
        assert await lab.text_of(turn) == "text"
        frames = await lab.follow(turn)
        assert frames[-1]["interrupted"] == {"type": "timeout"}
        await lab.until(call.closed.is_set)

    run(story, tmp_path, settings=with_settings(hard_extra_s=-110.0))


def test_a_log_that_is_lost_begins_anew_with_all_that_was_said(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        turn, call = await begun(lab, "one ", "two ")
        following = asyncio.create_task(lab.follow(turn))
        await asyncio.sleep(0.05)
        await lab.ports.log.drop("uanna:c1")
        late = asyncio.create_task(lab.follow(turn))
        call.say("three ")
        await asyncio.sleep(0.2)
        call.say("four")
        call.finish()
        for reader in (following, late):
            frames = await reader
            assert events(frames) == ["start", "provider", "token", "done"] or reader is late
            assert tokens(frames) == "one two three four"
        assert await lab.text_of(turn) == "one two three four"

    run(story, tmp_path)


def test_a_log_that_cannot_be_reached_stops_nobody(tmp_path: Path):
    log = FaultyLog()

    async def story(lab: ChatLab) -> None:
        turn, call = await begun(lab, "one ")
        following = asyncio.create_task(lab.follow(turn))
        await asyncio.sleep(0.1)
        log.out = True
        for _ in range(30):
            call.say("x")
            await asyncio.sleep(0.1)
        log.out = False
        await asyncio.sleep(1.5)
        call.say(" end")
        await asyncio.sleep(0.5)
        call.finish()
        assert tokens(await following) == "one " + "x" * 30 + " end"

    run(story, tmp_path, log=log)


def test_a_log_that_is_down_to_the_end_is_replaced_by_the_row(tmp_path: Path):
    log = FaultyLog()
    log.out = True

    async def story(lab: ChatLab) -> None:
        turn, call = await begun(lab, "all ", "of it")
        following = asyncio.create_task(lab.follow(turn))
        call.finish()
        frames = await following
        assert events(frames) == ["start", "provider", "token", "done"]
        assert tokens(frames) == "all of it"

    run(story, tmp_path, log=log)


def test_a_long_answers_log_is_compacted_and_still_says_all(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        turn, call = await begun(lab)
        early = asyncio.create_task(lab.follow(turn))
        for _ in range(100):
            call.say("0123456789" * 20)
            await asyncio.sleep(0.03)
        late = asyncio.create_task(lab.follow(turn))
        await asyncio.sleep(0.1)
        call.finish()
        assert tokens(await early) == tokens(await late) == "0123456789" * 2_000
        assert lab.ports.log.statistics().size_bytes < 60_000  # type: ignore[attr-defined]

    run(story, tmp_path, settings=with_settings(snapshot_bytes=10_000))


@pytest.mark.promise(104)
def test_a_server_that_stops_ends_its_turns_itself(tmp_path: Path):
    async def story() -> None:
        async with chat_lab(tmp_path) as lab:
            turn, call = await begun(lab, "so far")
            following = asyncio.create_task(lab.follow(turn))
            chat = await lab.service.follow_chat("anna", turn.chat_id, None)
            assert chat is not None
            await asyncio.sleep(0.1)
            lab.service.end_all()
            frames = await following
            assert (events(frames)[-1], frames[-1]["interrupted"]) == ("done", {"type": "unavailable"})
            assert call.closed.is_set()
            said = b""
            while not chat.ended:
                said += await chat.next(15.0)
            assert b'"event":"bye"' in said
            lab.service.leave(chat)
            assert (await lab.turn(turn)).state == "interrupted"

    jump(story())


def test_a_turn_that_waited_is_answered_by_the_next_start(tmp_path: Path):
    async def story() -> None:
        async with chat_lab(tmp_path) as lab:
            lab.service.worker._accepting = False
            turn = await lab.ask()
            die(lab)
            async with ChatService(lab.ports, boot_id="boot-2", alone=True):
                call = await lab.model.asked()
                call.say("late")
                call.finish()
                assert await lab.text_of(turn) == "late"

    jump(story())


def test_a_second_start_over_the_same_rows_has_new_writers_only(tmp_path: Path):
    """Generations grow over restarts too (R13)."""

    async def story() -> None:
        numbers = []
        for start in range(3):
            async with chat_lab(tmp_path, boot_id=f"boot-{start}") as lab:
                lab.chat_id = 1 if start else 0
                lab.model.script = lambda call: (call.say("x"), call.finish())  # type: ignore[assignment,return-value]
                turn = await lab.ask(request_id=f"r{start}")
                numbers.append((await lab.over(turn)).generation)
        assert numbers == [1, 2, 3]

    jump(story())


def test_ports_are_given_back(tmp_path: Path):
    async def story() -> None:
        ports = make_ports(tmp_path, {}, with_settings())
        async with ChatService(ports, boot_id="b", alone=True):
            pass
        assert ports.doorbell.statistics() == {}  # type: ignore[attr-defined]
        await ports.store.close()

    jump(story())

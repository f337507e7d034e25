"""What must go on whatever one row, one round of a loop or one slow reply does; and the bounds that hold meanwhile."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from rivermouth.chat.moves import Submission
from rivermouth.chat.service import ChatService
from rivermouth.chat.wire import STREAM
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.events import PartKind, PartStart, ReasoningDelta, Start
from rivermouth.ir.request import Image
from rivermouth.store.chats.port import ChatStore
from rivermouth.store.port import StoreError
from tests.chat.lab import ChatLab, LoopTime, chat_lab, events, run, with_settings
from tests.chat.test_recovery import begun, die
from tests.engine.jumping import jump

PIXEL = "iVBORw0KGgo="


class FaultyStore:
    """A store whose next reads fail in a way that nobody expects."""

    def __init__(self, inner: ChatStore) -> None:
        self._inner = inner
        self.faults = 0

    async def read(self, work: Any) -> Any:
        if self.faults:
            self.faults -= 1
            raise ValueError("what no adapter renames")
        return await self._inner.read(work)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def test_a_loop_that_meets_what_nobody_expected_goes_on(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        store: Any = lab.ports.store
        with capture_logs() as log:
            store.faults = 3
            await asyncio.sleep(60)
            assert store.faults == 0
        assert {line["event"] for line in log} >= {"chat.loop_failed"}
        turn = await lab.ask()
        call = await lab.model.asked()
        call.say("still here")
        call.finish()
        assert await lab.text_of(turn) == "still here"

    run(story, tmp_path, store=FaultyStore)


def test_a_row_that_nobody_can_read_keeps_no_server_from_starting(tmp_path: Path):
    async def story() -> None:
        async with chat_lab(tmp_path) as lab:
            broken, _ = await begun(lab, "lost")
            lab.chat_id = 0
            whole, _ = await begun(lab, "kept")
            die(lab)
            answer = broken.assistant_message_id or 0
            await lab.ports.store.run(lambda tx: tx.write_message(answer, parts="{no parts", text=""))
            async with ChatService(lab.ports, boot_id="boot-2", alone=True) as service:
                assert (await lab.over(broken)).state == "interrupted"
                assert await lab.text_of(whole) == "kept"
                assert service.statistics()["live"] == 0

    jump(story())


class LateStore:
    """A store whose reply to the first claim is late."""

    def __init__(self, inner: ChatStore) -> None:
        self._inner = inner
        self.late = asyncio.Event()

    async def run(self, work: Any) -> Any:
        reply = await self._inner.run(work)
        if isinstance(reply, tuple) and not self.late.is_set():
            self.late.set()
            await asyncio.sleep(1.0)
        return reply

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def test_a_claim_whose_reply_is_late_is_not_taken_for_a_turn_that_nobody_writes(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        store: Any = lab.ports.store
        turn = await lab.ask()
        await store.late.wait()
        await lab.service.worker.reap()
        call = await lab.model.asked()
        call.say("mine")
        call.finish()
        assert (await lab.over(turn)).state == "completed"

    run(story, tmp_path, store=LateStore)


def test_what_was_refused_is_in_no_history(tmp_path: Path):
    """A caller who may follow no more is told so before the message is taken."""

    async def story(lab: ChatLab) -> None:
        chat = await lab.new_chat()
        follower = await lab.service.follow_chat("anna", chat, None)
        wanted = Submission(owner="anna", chat_id=chat, request_id="r", content="hello")
        with pytest.raises(ApiError, match="too many follow"):
            await lab.service.ask(wanted, STREAM)
        assert (await lab.service.chat("anna", chat)).messages == []
        assert follower is not None
        lab.service.leave(follower)
        _, mine = await lab.service.ask(wanted, STREAM)
        lab.service.leave(mine)

    run(story, tmp_path, settings=with_settings(followers_per_owner=1))


def test_only_so_many_answers_of_one_person_run_at_once_however_they_are_asked_for(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        chats = [await lab.new_chat() for _ in range(20)]
        outcomes = await asyncio.gather(
            *(lab.submit(chat_id=chat, request_id=f"r{chat}") for chat in chats), return_exceptions=True
        )
        refused = [o for o in outcomes if isinstance(o, ApiError)]
        assert len(refused) == 17
        assert {(e.kind, e.code) for e in refused} == {(Kind.RATE_LIMITED, "too_many_turns")}
        taken = next(chat for chat, o in zip(chats, outcomes, strict=True) if not isinstance(o, BaseException))
        assert not (await lab.submit(chat_id=taken, request_id=f"r{taken}")).fresh
        assert (await lab.submit("instead", chat_id=taken)).fresh, "what supersedes one adds none"
        with pytest.raises(ApiError):
            await lab.submit(chat_id=taken, on_busy="enqueue")
        other = await lab.new_chat("berta")
        assert (await lab.submit(chat_id=other, owner="berta")).fresh

    run(story, tmp_path, settings=with_settings(live_per_owner=3))


def test_thoughts_count_for_the_bound_of_an_answer(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        turn = await lab.ask()
        call = await lab.model.asked()
        call.events(Start(), PartStart(0, PartKind.REASONING))
        for _ in range(100):
            call.events(ReasoningDelta(0, "hm " * 100))
            await asyncio.sleep(0.05)
        row = await lab.over(turn)
        assert row.state == "failed"
        kept = (await lab.message(row.assistant_message_id)).parts
        assert len(kept) < 10_000

    run(story, tmp_path, settings=with_settings(turn_chars=2000))


def test_an_edit_keeps_the_pictures_unless_it_brings_others(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        async def pictures(**more: Any) -> int:
            turn = await lab.ask(**more)
            call = await lab.model.asked()
            call.say("seen")
            call.finish()
            await lab.over(turn)
            last.append(turn.user_message_id)
            return sum(isinstance(p, Image) for m in call.request.messages for p in m.parts)

        last: list[int] = []
        picture = (Image(media_type="image/png", data=PIXEL),)
        assert await pictures(content="what is this?", attachments=picture) == 1
        assert await pictures(content="and what is that?", redo=last[-1]) == 1
        assert await pictures(content="", redo=last[-1], attachments=(*picture, *picture)) == 2
        assert await pictures(content="no picture", redo=last[-1], attachments=()) == 0

    run(story, tmp_path)


class LockedStore:
    """A store that for a while can write nothing: somebody else has it."""

    def __init__(self, inner: ChatStore) -> None:
        self._inner = inner
        self.locked = False

    async def run(self, work: Any) -> Any:
        if self.locked:
            raise StoreError("database is locked", passing=True)
        return await self._inner.run(work)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def test_a_store_that_is_away_for_a_moment_ends_no_answer(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        store: Any = lab.ports.store
        turn = await lab.ask()
        call = await lab.model.asked()
        for second in range(12):
            store.locked = 3 <= second < 9
            call.say(f"{second} ")
            await asyncio.sleep(1.0)
        call.finish()
        assert await lab.text_of(turn) == "".join(f"{second} " for second in range(12))
        assert (await lab.turn(turn)).state == "completed"

    run(story, tmp_path, store=LockedStore)


class LeapingTime(LoopTime):
    """A wall clock that somebody sets."""

    leap_ns = 0

    def wall_ns(self) -> int:
        return super().wall_ns() + self.leap_ns


def test_a_clock_that_somebody_sets_ends_no_answer_that_is_being_written(tmp_path: Path):
    clock = LeapingTime()

    async def story(lab: ChatLab) -> None:
        turn = await lab.ask()
        call = await lab.model.asked()
        for second in range(30):
            clock.leap_ns = 600_000_000_000 if second > 3 else 0
            call.say(f"{second} ")
            await asyncio.sleep(1.0)
        call.finish()
        assert (await lab.over(turn)).state == "completed"

    run(story, tmp_path, clock=clock)


def test_a_key_that_belongs_to_another_message_is_refused(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        await lab.submit("one", request_id="k")
        with pytest.raises(ApiError, match="belongs to another") as refused:
            await lab.submit("TWO", request_id="k")
        assert (refused.value.status, refused.value.code) == (422, "idempotency_key_reused")
        assert not (await lab.submit("one", request_id="k")).fresh

    run(story, tmp_path)


def test_a_stream_that_waits_in_the_queue_has_an_end_when_the_server_stops(tmp_path: Path):
    async def story(lab: ChatLab) -> None:
        await lab.ask("first")
        await lab.model.asked()
        second = await lab.ask("second", on_busy="enqueue")
        following = asyncio.ensure_future(lab.follow(second))
        await asyncio.sleep(1.0)
        lab.service.end_all()
        frames = await following
        assert events(frames) == ["error"]
        assert frames[0]["error"]["type"] == "unavailable"

    run(story, tmp_path)

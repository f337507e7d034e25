"""The real service, led by chance: whatever is done in whatever order, the invariants of a chat hold.

Service, store and log are the real ones; the clock jumps and the models say what the machine makes them say.  A process
that dies leaves its tasks behind, never to run again, and another start takes over the same rows.
"""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rivermouth.chat.feed import read_rows
from rivermouth.chat.follow_chat import ChatFollower
from rivermouth.chat.follow_turn import TurnFollower
from rivermouth.chat.machine import LIVE, TERMINAL, State
from rivermouth.chat.moves import Busy
from rivermouth.chat.service import ChatService
from rivermouth.chat.wire import STREAM
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.log.memory import MemoryLog
from rivermouth.log.port import ZERO, FrameId
from rivermouth.store.chats.port import Turn
from tests.chat.faulty import FaultyDoorbell, FaultyLog
from tests.chat.front import ENDS, Screen
from tests.chat.lab import ChatLab, LedCall, chat_lab, read_frames, with_settings
from tests.engine.jumping import JumpingLoop
from tests.thorough import THOROUGH

KEY = "uanna:c1"

pytestmark = [
    pytest.mark.promise(79, 80),
    pytest.mark.thorough(quick=True),
    pytest.mark.timeout(900 if THOROUGH else 120),
]


class Watcher:
    """A client, which may stop reading for a while, or be cut off and come back.  turn: None for one of the chat."""

    def __init__(self, turn: Turn | None, follower: TurnFollower | ChatFollower) -> None:
        self.turn = turn
        self.follower = follower
        self.screen = Screen()
        self.said = b""
        self.came_back = False
        self.quiet = 0

    @property
    def last(self) -> FrameId | None:
        return self.screen.cursor if self.screen.cursor.generation else None

    async def read(self) -> None:
        if not self.follower.ended:
            data = await self.follower.next(0.0)
            self.quiet = 0 if data else self.quiet + 1
            self.said += data
            self.screen.feed(data)

    def back(self, follower: TurnFollower | ChatFollower) -> None:
        """Connected anew, by the last whole frame."""
        self.follower.close()
        self.follower = follower
        self.screen = self.screen.copy()
        self.came_back = True


class Chats(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.runner = asyncio.Runner(loop_factory=JumpingLoop)
        self.stack = AsyncExitStack()
        self.boots = 1
        self.services: list[ChatService] = []
        self.watchers: list[Watcher] = []
        self.calls: list[LedCall] = []
        self.ended: dict[int, tuple[Any, Any]] = {}
        self.kept: dict[int, int] = {}
        self.died = self.lost = False
        self.lab: ChatLab = self.do(self._open())

    def do(self, work: Any) -> Any:
        return self.runner.run(work)

    async def _open(self) -> ChatLab:
        self.log, self.doorbell = FaultyLog(), FaultyDoorbell(deaf=False)
        made = chat_lab(
            Path(self.folder.name),
            settings=with_settings(snapshot_bytes=2_000),
            log=self.log,
            doorbell=self.doorbell,
        )
        lab = await self.stack.enter_async_context(made)
        await lab.new_chat()
        return lab

    # -- what people do

    @rule(policy=st.sampled_from(["interrupt", "reject", "enqueue", "rollback"]), follow=st.booleans())
    def submit(self, policy: str, follow: bool) -> None:
        async def submit() -> None:
            try:
                turn = await self.lab.ask(f"message {self.boots}", on_busy=policy)
            except (Busy, ApiError):
                return
            if follow:
                await self._follow(turn)

        self.do(submit())

    @rule(now=st.booleans())
    def stop(self, now: bool) -> None:
        async def stop() -> None:
            stopping = asyncio.create_task(self.lab.service.stop("anna", self.lab.chat_id))
            if now:
                await stopping

        self.do(stop())

    @precondition(lambda self: len(self.watchers) < 6)
    @rule()
    def follow(self) -> None:
        async def follow() -> None:
            turns = (await self._rows()).turns
            if turns:
                await self._follow(turns[-1])

        self.do(follow())

    async def _follow(self, turn: Turn) -> None:
        self.watchers.append(Watcher(turn, await self.lab.service.follow_turn("anna", turn, STREAM)))

    @precondition(lambda self: len(self.watchers) < 6)
    @rule()
    def follow_the_chat(self) -> None:
        async def follow() -> None:
            follower = await self.lab.service.follow_chat("anna", self.lab.chat_id, ZERO)
            assert follower is not None
            self.watchers.append(Watcher(None, follower))

        self.do(follow())

    @precondition(lambda self: self.watchers)
    @rule(data=st.data())
    def come_back(self, data: Any) -> None:
        """A client is cut off and connects again."""
        watcher: Watcher = data.draw(st.sampled_from(self.watchers))

        async def back() -> None:
            service = self.lab.service
            if watcher.turn is not None:
                watcher.back(await service.follow_turn("anna", watcher.turn, STREAM, watcher.last))
            else:
                follower = await service.follow_chat("anna", self.lab.chat_id, watcher.last or ZERO)
                assert follower is not None
                watcher.back(follower)

        self.do(back())

    @precondition(lambda self: self.watchers)
    @rule(data=st.data())
    def leave(self, data: Any) -> None:
        watcher = data.draw(st.sampled_from(self.watchers))
        self.watchers.remove(watcher)
        watcher.follower.close()

    # -- what models do

    def _running(self) -> list[LedCall]:
        return [call for call in self.lab.model.calls if not call.closed.is_set()]

    @precondition(lambda self: self._running())
    @rule(size=st.sampled_from([1, 40, 700]), pause_s=st.sampled_from([0.0, 0.03, 1.5]))
    def say(self, size: int, pause_s: float) -> None:
        async def say() -> None:
            self._running()[-1].say("w" * size)
            await asyncio.sleep(pause_s)

        self.do(say())

    @precondition(lambda self: self._running())
    @rule()
    def finish(self) -> None:
        async def finish() -> None:
            call = self._running()[-1]
            call.say("end")
            call.finish()
            await asyncio.sleep(0.01)

        self.do(finish())

    @precondition(lambda self: self._running())
    @rule()
    def fail(self) -> None:
        async def fail() -> None:
            self._running()[-1].fail(ApiError(Kind.NETWORK, "cut"))
            await asyncio.sleep(0.01)

        self.do(fail())

    # -- what fate does

    @rule(seconds=st.sampled_from([0.001, 0.5, 4.0, 40.0]))
    def wait(self, seconds: float) -> None:
        self.do(asyncio.sleep(seconds))

    @precondition(lambda self: self.boots < 4)
    @rule()
    def die(self) -> None:
        """The process is killed, and started again."""

        async def die() -> None:
            self.died = True
            worker = self.lab.service.worker
            gone = {*worker._loops, *worker._tasks}
            for owner in worker.owners.values():
                gone |= {owner.engine} if owner.engine is not None else set()
            for task in gone:
                task.cancel()
            await asyncio.gather(*gone, return_exceptions=True)
            for watcher in self.watchers:
                watcher.follower.close()
            self.watchers.clear()
            self.boots += 1
            service = ChatService(self.lab.ports, boot_id=f"boot-{self.boots}", alone=True)
            self.lab.service = await self.stack.enter_async_context(service)

        self.do(die())

    @rule()
    def freeze(self) -> None:
        """An owner sleeps so long that another takes its turn, and then goes on."""

        async def freeze() -> None:
            worker = self.lab.service.worker
            for turn_id in list(worker.owners):
                worker.owners.pop(turn_id)
                self.died = True
                await worker.recover(turn_id)

        self.do(freeze())

    @rule()
    def pause(self) -> None:
        """A writer sleeps in mid-write, maybe beyond its deadlines."""

        async def pause() -> None:
            row = (await self._rows()).chat
            self.log.pause(row.generation)

        self.do(pause())

    @rule()
    def resume(self) -> None:
        async def resume() -> None:
            self.log.resume()
            await asyncio.sleep(0.01)

        self.do(resume())

    @rule(deaf=st.booleans())
    def lose_rings(self, deaf: bool) -> None:
        self.doorbell.deaf = deaf

    @rule(out=st.booleans())
    def lose_the_way_to_the_log(self, out: bool) -> None:
        self.lost = self.lost or out
        self.log.out = out

    @rule()
    def lose_the_log(self) -> None:
        self.lost = True
        self.do(self.lab.ports.log.drop(KEY))

    @rule(seq=st.integers(0, 20))
    def trim(self, seq: int) -> None:
        async def trim() -> None:
            self.lost = True
            row = (await self._rows()).chat
            await MemoryLog.trim(self.log, KEY, FrameId(row.generation if row else 1, seq))

        self.do(trim())

    @precondition(lambda self: self.watchers)
    @rule(data=st.data())
    def read(self, data: Any) -> None:
        self.do(data.draw(st.sampled_from(self.watchers)).read())

    # -- what always holds

    async def _rows(self) -> Any:
        return await self.lab.ports.store.read(lambda tx: read_rows(tx, self.lab.chat_id))

    @invariant()
    def the_rows_are_sound(self) -> None:
        rows = self.do(self._rows())
        live = [turn for turn in rows.turns if turn.state in LIVE]
        assert len(live) <= 1
        assert rows.chat.active_turn == (live[0].id if live else None)
        generations = [turn.generation for turn in rows.turns if turn.generation]
        assert len(generations) == len(set(generations))
        assert max(generations, default=0) <= rows.chat.generation
        assert sum(turn.upstream_called for turn in rows.turns) >= len(self.lab.model.calls) - len(live)
        for turn in rows.turns:
            answer = rows.answer(turn)
            if turn.state in TERMINAL:
                seen = self.ended.setdefault(turn.id, (turn, answer))
                assert seen == (turn, answer), "a turn that had ended was changed"
            if answer is None:
                assert turn.state in (State.STOPPED, State.SUPERSEDED)
            else:
                assert len(answer.text) >= self.kept.get(answer.id, 0), "a row lost text"
                self.kept[answer.id] = len(answer.text)
            assert rows.messages[turn.user_message_id].role == "user"

    def teardown(self) -> None:
        try:
            self.do(self._settle())
        finally:
            self.do(self.stack.aclose())
            self.runner.close()
            self.folder.cleanup()

    async def _settle(self) -> None:
        """Left alone, everything ends, and every client shows what the row says."""
        self.log.resume()
        self.log.out = False
        for _ in range(400):
            for watcher in self.watchers:
                await watcher.read()
            rows = await self._rows()
            over = all(turn.state in TERMINAL for turn in rows.turns)
            if over and all(w.follower.ended or (w.turn is None and w.quiet >= 3) for w in self.watchers):
                break
            for call in self._running():
                call.finish() if call._parts else call.fail(ApiError(Kind.UPSTREAM, "no"))
            await asyncio.sleep(1.0)
        rows = await self._rows()
        assert all(turn.state in TERMINAL for turn in rows.turns)
        for watcher in self.watchers:
            await self._judge(watcher, rows)

    async def _judge(self, watcher: Watcher, rows: Any) -> None:
        turn = next((t for t in rows.turns if watcher.turn is not None and t.id == watcher.turn.id), None)
        if turn is None:  # of the chat: it shows the newest answer
            turn = max((t for t in rows.turns if rows.answer(t)), key=lambda t: t.generation, default=None)
        elif not watcher.came_back:
            frames = read_frames(watcher.said)
            ends = [f["event"] for f in frames if f["event"] in ENDS]
            assert len(ends) == 1
            assert frames[-1]["event"] == ends[0]
            assert [f["event"] for f in frames].count("start") <= 1
            ids = [FrameId.parse(frame["#"]) for frame in frames if "#" in frame]
            assert ids == sorted(set(ids))  # type: ignore[type-var]
        answer = rows.answer(turn) if turn is not None else None
        if answer is not None and not (self.died and self.lost):
            assert watcher.screen.text == answer.text


TestChats = Chats.TestCase
TestChats.settings = settings(
    max_examples=400 if THOROUGH else 15, stateful_step_count=40 if THOROUGH else 25, derandomize=not THOROUGH
)

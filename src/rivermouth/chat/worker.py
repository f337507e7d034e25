"""One process's part in writing turns: it claims what waits, beats while it lives, and ends what others left.

    claims    whenever rung, and each `look_s`: the first waiting turn of every chat that has no active one
    beats     each `beat_s`: one statement, whatever the number of turns; its answer names the turns that are to
              stop, so a stop arrives though every doorbell is dead
    reaps     each few seconds, by chance: turns whose worker has not beaten, or whose deadline has passed

Without a beat for `fence_s`, by a clock that does not jump, it stops writing by itself, long before anybody may think
it dead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from types import TracebackType
from typing import Any, Final, Self

import structlog

from rivermouth.chat import moves
from rivermouth.chat.machine import LIVE, State
from rivermouth.chat.owner import Owner
from rivermouth.chat.ports import CLAIMS, Ports, worker_channel
from rivermouth.chat.reaper import Recovery
from rivermouth.chat.settings import NS
from rivermouth.doorbell.port import Bell
from rivermouth.store.chats.port import Chat, Turn, Tx
from rivermouth.store.port import StoreError

log = structlog.get_logger()

CLOSING_S: Final = 5.0
MOST_OWNERS: Final = 1_024
FORGET_WORKERS_S: Final = 86_400
"""Without a beat for this long, a process is gone; its row is only one of many of earlier starts."""


class Worker:
    """`async with Worker(boot_id, ports, alone=...)`.

    alone: no other process can be alive on this store, so every turn that is live when this one starts is an orphan.
    """

    def __init__(self, boot_id: str, ports: Ports, *, alone: bool) -> None:
        self.boot_id = boot_id
        self.owners: dict[int, Owner] = {}
        self._ports = ports
        self._alone = alone
        self._tasks: set[asyncio.Task[Any]] = set()
        self._loops: list[asyncio.Task[None]] = []
        self._beaten_s = 0.0
        self._recovering: set[int] = set()
        self._claiming: set[int] = set()  # chats of which a turn may be ours already, and its owner not here yet
        self._accepting = True

    async def __aenter__(self) -> Self:
        await self._beat()
        long_ago_ns = self._ports.clock.wall_ns() - FORGET_WORKERS_S * NS
        await self._ports.store.run(lambda tx: tx.forget_workers(long_ago_ns))
        if self._alone:
            orphans = await self._ports.store.read(lambda tx: tx.foreign(LIVE, self.boot_id))
            await self._recover_each([turn.id for turn in orphans])
        self._loops = [
            asyncio.create_task(self._repeat("beat", self._beat, self._ports.settings.beat_s, self.boot_id)),
            asyncio.create_task(self._repeat("claim", self._claim, self._ports.settings.look_s, None)),
            asyncio.create_task(self._reap_for_ever()),
        ]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._accepting = False
        self.shut_down()
        running = {*self._tasks, *self._engines()}
        if running:
            await asyncio.wait(running, timeout=CLOSING_S)
        left = {*self._loops, *self._tasks}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def shut_down(self) -> None:
        """Claim nothing more, and end what runs with what there is."""
        self._accepting = False
        for owner in list(self.owners.values()):
            owner.shut_down()

    async def attend(self, turns: tuple[Turn, ...]) -> None:
        """Turns that were just asked to stop: tell their owners, and see to it that they end in time."""
        for turn in turns:
            owner = self.owners.get(turn.id)
            if owner is None and turn.worker is not None:
                self._ports.doorbell.ring(worker_channel(turn.worker))
        if turns:
            self._ports.doorbell.ring(worker_channel(self.boot_id))
            self._spawn(self._see_to([turn.id for turn in turns]))

    async def recover(self, turn_id: int) -> bool:
        """End a turn in its writer's place.  True when this did it."""
        if turn_id in self._recovering:
            return False
        self._recovering.add(turn_id)
        owner = self.owners.get(turn_id)
        try:
            return await Recovery(turn_id, self.boot_id, self._ports).run()
        finally:
            self._recovering.discard(turn_id)
            if owner is not None:
                owner.fence()

    async def _recover_each(self, turn_ids: Iterable[int]) -> None:
        """One that cannot be ended does not keep the others from it; the next time it is tried again."""
        for turn_id in turn_ids:
            try:
                await self.recover(turn_id)
            except Exception:  # the reaper's seam: whatever stands in that row, the others are somebody's answers
                log.exception("turn.not_recovered", turn=turn_id)

    # -- the loops

    async def _repeat(
        self, name: str, work: Callable[[], Coroutine[Any, Any, None]], every_s: float, boot_id: str | None
    ) -> None:
        channel = CLAIMS if boot_id is None else worker_channel(boot_id)
        bell: Bell = self._ports.doorbell.listen(channel)
        try:
            while True:
                bell.clear()
                try:
                    await work()
                except StoreError as error:
                    log.warning("chat.store_failed", work=name, reason=str(error))
                except Exception:  # a loop that ended would end every chat's answers, without a word
                    log.exception("chat.loop_failed", work=name)
                self._fence_if_late()
                await bell.wait(every_s)
        finally:
            bell.close()

    async def _beat(self) -> None:
        def beat(tx: Tx) -> list[Turn]:
            tx.beat(self.boot_id)
            return list(tx.turns_of(self.boot_id, {State.STOPPING}))

        stopping = await self._ports.store.run(beat)
        self._beaten_s = self._ports.clock.now_s()
        for turn in stopping:
            owner = self.owners.get(turn.id)
            if owner is not None and turn.reason is not None:
                owner.stop(State(turn.reason))

    def _fence_if_late(self) -> None:
        if self._ports.clock.now_s() - self._beaten_s > self._ports.settings.fence_s:
            for owner in list(self.owners.values()):
                owner.fence()

    async def _claim(self) -> None:
        if not self._accepting:
            return
        for head in await self._ports.store.read(lambda tx: tx.heads(State.QUEUED)):
            if len(self.owners) >= MOST_OWNERS or not self._accepting:
                return
            await self._claim_of(head.chat_id)

    async def _claim_of(self, chat_id: int) -> None:
        def claim(tx: Tx) -> tuple[Turn, Chat] | None:
            turn = moves.claim(tx, chat_id, self.boot_id, self._ports.settings)
            chat = tx.chat(chat_id) if turn is not None else None
            return (turn, chat) if turn is not None and chat is not None else None

        self._claiming.add(chat_id)
        try:
            claimed = await self._ports.store.run(claim)
            if claimed is not None:
                turn, chat = claimed
                owner = self.owners[turn.id] = Owner(turn, chat, self._ports)
                self._spawn(self._own(owner))
        finally:
            self._claiming.discard(chat_id)

    async def _own(self, owner: Owner) -> None:
        """Whatever ends it without its end leaves a turn of ours that nobody writes: `reap` finds it."""
        try:
            await owner.run()
        except StoreError as error:
            log.error("turn.unwritten", turn=owner.turn.id, reason=str(error))
        finally:
            self.owners.pop(owner.turn.id, None)
        if owner.engine is not None:
            await asyncio.wait({owner.engine})

    async def _see_to(self, turn_ids: list[int]) -> None:
        """After the time that an owner has to stop, its turns are taken over."""
        await self._ports.clock.sleep(self._ports.settings.stop_s + 0.01)
        for turn_id in turn_ids:
            turn = await self._ports.store.read(lambda tx, turn_id=turn_id: tx.turn(turn_id))  # type: ignore[misc]
            if turn is not None and turn.state == State.STOPPING:
                await self.recover(turn_id)

    async def _reap_for_ever(self) -> None:
        settings, clock = self._ports.settings, self._ports.clock
        while True:
            await clock.sleep(clock.between(settings.reap_least_s, settings.reap_most_s))
            try:
                await self.reap()
            except StoreError as error:
                log.warning("chat.store_failed", work="reap", reason=str(error))
            except Exception:  # the reaper's seam: it is what ends what others could not
                log.exception("chat.loop_failed", work="reap")
            self._fence_if_late()

    async def reap(self) -> None:
        """Take over every turn whose writer is dead or late, and those of ours that nobody writes."""
        dead_s = self._ports.settings.dead_s

        def find(tx: Tx) -> tuple[list[Turn], list[Turn]]:
            now_ns = tx.now_ns()
            orphans = tx.orphans(LIVE, beat_before_ns=now_ns - int(dead_s * NS), now_ns=now_ns)
            return list(orphans), list(tx.turns_of(self.boot_id, LIVE))

        orphans, ours = await self._ports.store.read(find)
        orphans = [turn for turn in orphans if not self._well(turn)]
        dropped = [turn for turn in ours if turn.id not in self.owners and turn.chat_id not in self._claiming]
        await self._recover_each(dict.fromkeys(turn.id for turn in (*orphans, *dropped)))

    def _well(self, turn: Turn) -> bool:
        """It is ours, is being written, and not for too long: by a clock that nobody sets, unlike the store's."""
        owner = self.owners.get(turn.id)
        settings = self._ports.settings
        return owner is not None and self._ports.clock.now_s() - owner.begun_s < settings.hard_deadline_s

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("turn.crashed", exc_info=task.exception())

    def _engines(self) -> set[asyncio.Task[None]]:
        return {owner.engine for owner in self.owners.values() if owner.engine is not None}

"""A log and a doorbell that fail as a network's would, when the test says so."""

from __future__ import annotations

import asyncio

from rivermouth.doorbell.local import LocalDoorbell
from rivermouth.log.memory import MemoryLog
from rivermouth.log.port import FrameId, Landed, LogError, Page


class FaultyLog(MemoryLog):
    """out: it cannot be reached.  `pause`: whoever writes for that generation is held until `resume`."""

    def __init__(self) -> None:
        super().__init__(now_s=lambda: 0.0)
        self.out = False
        self._held: dict[int, asyncio.Event] = {}

    def pause(self, generation: int) -> None:
        self._held.setdefault(generation, asyncio.Event())

    def resume(self) -> None:
        held, self._held = self._held, {}
        for gate in held.values():
            gate.set()

    async def append(self, chat: str, at: FrameId, body: bytes, *, opening: bool = False) -> Landed:
        gate = self._held.get(at.generation)
        if gate is not None:
            await gate.wait()
        if self.out:
            raise LogError("no route")
        return await super().append(chat, at, body, opening=opening)

    async def read(self, chat: str, after: FrameId, limit: int) -> Page:
        if self.out:
            raise LogError("no route")
        return await super().read(chat, after, limit)

    async def trim(self, chat: str, before: FrameId) -> None:
        if self.out:
            raise LogError("no route")
        await super().trim(chat, before)


class FaultyDoorbell(LocalDoorbell):
    """deaf: every ring is lost."""

    def __init__(self, *, deaf: bool = True) -> None:
        super().__init__()
        self.deaf = deaf

    def ring(self, channel: str) -> None:
        if not self.deaf:
            super().ring(channel)

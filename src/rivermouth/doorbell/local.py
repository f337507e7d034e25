"""The doorbell of one process: nothing is ever lost."""

from __future__ import annotations

import asyncio


class LocalBell:
    """The port `Bell`."""

    __slots__ = ("_bells", "_channel", "_rung")

    def __init__(self, bells: dict[str, set[LocalBell]], channel: str) -> None:
        self._bells = bells
        self._channel = channel
        self._rung = asyncio.Event()
        bells.setdefault(channel, set()).add(self)

    def clear(self) -> None:
        self._rung.clear()

    async def wait(self, limit_s: float) -> bool:
        if self._rung.is_set():
            return True
        try:
            async with asyncio.timeout(limit_s):
                await self._rung.wait()
        except TimeoutError:
            return False
        return True

    def close(self) -> None:
        here = self._bells.get(self._channel)
        if here is not None:
            here.discard(self)
            if not here:
                del self._bells[self._channel]
        self._rung.set()

    def strike(self) -> None:
        """Somebody rings."""
        self._rung.set()


class LocalDoorbell:
    """The port `Doorbell`."""

    def __init__(self) -> None:
        self._bells: dict[str, set[LocalBell]] = {}

    def ring(self, channel: str) -> None:
        for bell in self._bells.get(channel, ()):
            bell.strike()

    def listen(self, channel: str) -> LocalBell:
        return LocalBell(self._bells, channel)

    async def close(self) -> None:
        for bell in [bell for here in self._bells.values() for bell in here]:
            bell.close()

    def statistics(self) -> dict[str, int]:
        """Listeners by channel."""
        return {channel: len(bells) for channel, bells in self._bells.items()}

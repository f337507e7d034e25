"""Time and chance, as the chat takes them: one port, so that a test can bring its own."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Protocol


class Clock(Protocol):
    """`now_s` never jumps and means nothing by itself; `wall_ns` is Unix nanoseconds."""

    def now_s(self) -> float: ...

    def wall_ns(self) -> int: ...

    async def sleep(self, seconds: float) -> None: ...

    def between(self, least: float, most: float) -> float:
        """A number from there, by chance: so that what begins together does not stay together."""
        ...


class LoopClock:
    """The running loop's clock, and the machine's."""

    def now_s(self) -> float:
        return asyncio.get_running_loop().time()

    def wall_ns(self) -> int:
        return time.time_ns()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def between(self, least: float, most: float) -> float:
        return random.uniform(least, most)  # noqa: S311 - it spreads, it hides nothing

"""A server and its upstream together, as most tests here want them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from tests.engine.lab import DEADLINE_S, Lab, lab
from tests.fakes import Asked, FakeUpstream, Script


class Place(NamedTuple):
    """`server` calls `upstream`, which the test leads."""

    server: Lab
    upstream: FakeUpstream

    async def asked(self) -> Asked:
        """The next request that the server makes."""
        async with asyncio.timeout(DEADLINE_S):
            return await self.upstream.asked()

    def clear(self) -> None:
        """Hangs up on requests that a failed test has left: the next test must not meet them."""
        waiting = self.upstream._queue
        while not waiting.empty():
            waiting.get_nowait().cut()


async def gone(asked: Asked) -> None:
    """Returns when the server has closed that connection."""
    async with asyncio.timeout(DEADLINE_S):
        await asked.gone()


@asynccontextmanager
async def placed(folder: Path, config: Callable[[str], str], script: Script | None = None) -> AsyncIterator[Place]:
    """Both of them; `config` is made from the upstream's address."""
    async with FakeUpstream(script) as upstream:
        with lab(folder, config(upstream.url)) as server:
            yield Place(server, upstream)

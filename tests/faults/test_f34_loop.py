"""F34: whatever blocks, blocks a thread of its own; the loop goes on for everybody else."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

import pytest

from rivermouth.store.datadir import DataDir
from rivermouth.store.port import Status
from tests.engine import bots
from tests.engine.client import asking, calling
from tests.engine.lab import DEADLINE_S, Lab, lab, until
from tests.engine.place import placed
from tests.engine.words import ALL, END, OPENAI, PLAIN, ROLE, begin, provider, says, talk

pytestmark = [pytest.mark.anyio, pytest.mark.fault("F34")]

HELD: Final = 8
"""Generators that hold their threads at the same time."""
CALLS: Final = 200
AT_ONCE: Final = 20
LAG_S: Final = 1.0
"""What the loop may be late at most; a loop that waited for one of the generators would be late for as long as it is
held.  Measured on a machine that does nothing else it is a few milliseconds: the bound is for one that is busy."""


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    bots.fresh()
    yield
    bots.HELD.set()


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Lab]:
    with lab(tmp_path, PLAIN + '[providers.stuck]\npython = "tests.engine.bots:stuck"\n') as made:
        yield made
        bots.HELD.set()


async def whole(server: Lab, number: int) -> str:
    speaks = ALL[number % 3]
    async with asking(server.port, speaks.path, talk("scripted")) as answer:
        assert speaks.finished(await answer.rest())
        return answer.call_id


def tell_the_time(to: asyncio.AbstractEventLoop, answered: asyncio.Future[float]) -> None:
    to.call_soon_threadsafe(answered.set_result, time.monotonic())


async def worst_lag_s(server: Lab, until_done: asyncio.Future[object]) -> float:
    """How late the server's loop was at worst, asked again and again until that is done."""
    here = asyncio.get_running_loop()
    worst = 0.0
    while not until_done.done():
        asked = time.monotonic()
        answered: asyncio.Future[float] = here.create_future()
        server.inside.loop.call_soon_threadsafe(tell_the_time, here, answered)
        worst = max(worst, await answered - asked)
        await asyncio.sleep(0)
    return worst


async def test_generators_that_do_not_come_back_hold_up_nobody(server: Lab) -> None:
    """Two hundred other calls are answered and recorded meanwhile, and the loop is never late."""

    async def others() -> set[str]:
        ids: set[str] = set()
        for first in range(0, CALLS, AT_ONCE):
            ids |= set(await asyncio.gather(*(whole(server, n) for n in range(first, first + AT_ONCE))))
        return ids

    async with asyncio.timeout(DEADLINE_S + 10):
        stuck = [calling(server.port, OPENAI.path, talk("stuck/m")) for _ in range(HELD)]
        clients = [await held.__aenter__() for held in stuck]
        answers = [await client.answer() for client in clients]
        for answer in answers:
            await answer.until(b"well")
        await until(bots.HERE.is_set, "they hold their threads")
        working = asyncio.ensure_future(others())
        worst = await worst_lag_s(server, working)  # type: ignore[arg-type]
        ids = await working
        assert server.inflight() == HELD, "they are held still"
        bots.HELD.set()
        for answer in answers:
            assert OPENAI.text(await answer.rest()) == "welldone"
        for held in stuck:
            await held.__aexit__(None, None, None)
    assert len(ids) == CALLS
    await until(lambda: len([r for r in server.records() if r.status is Status.COMPLETED]) == CALLS + HELD, "records")
    assert worst < LAG_S


async def test_a_store_that_cannot_write_holds_up_only_who_needs_it(tmp_path: Path) -> None:
    """Somebody else has the database locked: what runs goes on, a new call waits for its row, and gets it."""

    def config(url: str) -> str:
        return PLAIN + provider("up", url)

    async with placed(tmp_path, config) as place, calling(place.server.port, OPENAI.path, talk("up/m")) as client:
        running = await place.asked()
        await begin(running, ROLE, says("one"))
        begun = await client.answer()
        await begun.until(b"one")
        lock = sqlite3.connect(DataDir(tmp_path / "data").database, isolation_level=None)
        try:
            lock.execute("begin immediate")
            async with calling(place.server.port, OPENAI.path, talk("up/m")) as late:
                waiting = await place.asked()
                await begin(waiting, ROLE, says("two"))
                for word in range(20):
                    await running.send(says(f" {word}"))
                    await begun.until(f" {word}".encode())
                    async with asking(place.server.port, "/health", method="GET") as health:
                        assert (await health.json())["inflight"] == 2
                assert len(place.server.records()) == 1, "the second has no row yet, and so no answer"
                lock.execute("rollback")
                await waiting.end(END)
                assert OPENAI.text(await (await late.answer()).rest()) == "two"
        finally:
            lock.close()
        await running.end(END)
        assert OPENAI.finished(await begun.rest())

"""What every doorbell does.  The suite knows the port alone; `ADAPTERS` says over what it runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from rivermouth.doorbell.local import LocalDoorbell
from rivermouth.doorbell.port import Doorbell

pytestmark = pytest.mark.anyio

ADAPTERS: dict[str, Callable[[], Doorbell]] = {"local": LocalDoorbell}
SOON_S = 5.0
AT_ONCE_S = 0.0


@pytest.fixture(params=ADAPTERS.values(), ids=ADAPTERS.keys())
async def doorbell(request: pytest.FixtureRequest) -> AsyncIterator[Doorbell]:
    made: Doorbell = request.param()
    yield made
    await made.close()


async def test_a_ring_wakes_everybody_on_its_channel_and_nobody_else(doorbell: Doorbell):
    here = [doorbell.listen("a"), doorbell.listen("a")]
    there = doorbell.listen("b")
    waiting = [asyncio.ensure_future(bell.wait(SOON_S)) for bell in here]
    await asyncio.sleep(0)
    doorbell.ring("a")
    assert await asyncio.gather(*waiting) == [True, True]
    assert not await there.wait(AT_ONCE_S)


async def test_a_ring_between_looking_and_waiting_is_not_missed(doorbell: Doorbell):
    bell = doorbell.listen("a")
    bell.clear()
    doorbell.ring("a")
    doorbell.ring("a")
    assert await bell.wait(SOON_S)
    bell.clear()
    assert not await bell.wait(AT_ONCE_S)


async def test_who_has_closed_is_not_rung_and_does_not_wait(doorbell: Doorbell):
    bell = doorbell.listen("a")
    waiting = asyncio.ensure_future(bell.wait(SOON_S))
    await asyncio.sleep(0)
    bell.close()
    bell.close()
    await waiting
    doorbell.ring("a")
    doorbell.ring("nobody")


async def test_closing_lets_everybody_go(doorbell: Doorbell):
    waiting = [asyncio.ensure_future(doorbell.listen(name).wait(SOON_S)) for name in "ab"]
    await asyncio.sleep(0)
    await doorbell.close()
    await asyncio.gather(*waiting)


async def test_a_wait_can_be_cancelled(doorbell: Doorbell):
    bell = doorbell.listen("a")
    waiting = asyncio.ensure_future(bell.wait(SOON_S))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    bell.clear()
    doorbell.ring("a")
    assert await bell.wait(SOON_S)


async def test_one_listener_can_be_woken_alone(doorbell: Doorbell):
    bell, other = doorbell.listen("a"), doorbell.listen("a")
    bell.strike()
    assert await bell.wait(AT_ONCE_S)
    assert not await other.wait(AT_ONCE_S)

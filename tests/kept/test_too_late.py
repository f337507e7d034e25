"""Who cancels or leaves while the whole answer is being stored is too late: the record says what the answer says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest

from rivermouth.engine.interrupt import By
from rivermouth.store.kept.port import KeptAnswer
from rivermouth.store.port import CallRecord, Status
from tests.engine.client import connected
from tests.engine.lab import until
from tests.engine.place import Place, placed
from tests.engine.words import END, PLAIN, begin, document, provider, refusal, says
from tests.fakes import JSON
from tests.kept.asking import PATH, ask, begun, fresh, got, over, read, told, wanted

pytestmark = [pytest.mark.anyio, pytest.mark.fault("F16", "F30")]

STORING: Final[list[asyncio.Event]] = []
"""What each answer waits for that is about to be stored, in the server's loop."""


def config(url: str) -> str:
    return PLAIN + provider("up", url)


@pytest.fixture(scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    async with placed(tmp_path_factory.mktemp("late"), config) as place:
        yield place


@pytest.fixture
async def place(shared: Place, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Its store writes no end of an answer before the test says so (`write`)."""
    place = await fresh(shared)
    store: Any = place.server.inside.services.kept._store
    STORING.clear()

    def waits(name: str) -> None:
        write = getattr(store, name)

        async def slow(kept: KeptAnswer, call: CallRecord | None = None) -> bool:
            if kept.ended_ns is not None:
                STORING.append(asyncio.Event())
                await asyncio.shield(STORING[-1].wait())
            return bool(await write(kept, call))

        monkeypatch.setattr(store, name, slow)

    waits("put")
    waits("finish")
    return place


async def storing(place: Place) -> asyncio.Event:
    await until(lambda: bool(STORING), "the answer is being stored")
    return STORING[0]


def write(place: Place, event: asyncio.Event) -> None:
    place.server.inside.loop.call_soon_threadsafe(event.set)


async def test_a_cancel_of_one_in_the_background(place: Place) -> None:
    response, asked = await begun(place)
    await begin(asked, says("one"))
    await asked.end(END)
    event = await storing(place)
    (call,) = place.server.on_loop(lambda: list(place.server.inside.services.inflight()))
    cancelling = asyncio.ensure_future(ask(place.server, "POST", f"/{response['id']}/cancel"))
    await until(lambda: call.interrupt.by is By.REQUEST, "it was cancelled")
    write(place, event)
    status, answered = await cancelling
    assert (status, answered["status"]) == (200, "completed")
    assert await over(place.server) == [Status.COMPLETED]
    assert await got(place.server, response["id"]) == answered
    last = told(await read(place.server, response["id"]))[-1]
    assert (last["type"], last["response"]) == ("response.completed", answered)


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves(place: Place, stream: bool) -> None:
    async with connected(place.server.port) as client:
        await client.send("POST", PATH, wanted(stream=stream))
        asked = await place.asked()
        if stream:
            await begin(asked, says("one"))
            await asked.end(END)
        else:
            await asked.answer(200, JSON, document("one"))
        event = await storing(place)
        (call,) = place.server.on_loop(lambda: list(place.server.inside.services.inflight()))
        client.leave()
        await until(lambda: call.interrupt.by is By.CLIENT, "it has left")
    write(place, event)
    assert await over(place.server) == [Status.COMPLETED]
    assert (await got(place.server, f"resp_{call.id}"))["status"] == "completed"


async def test_a_cancel_of_one_that_has_failed(place: Place) -> None:
    """Nothing is whole there: what was first is the end."""
    response, asked = await begun(place)
    await asked.answer(500, JSON, refusal("it burst"))
    event = await storing(place)
    cancelling = asyncio.ensure_future(ask(place.server, "POST", f"/{response['id']}/cancel"))
    write(place, event)
    status, answered = await cancelling
    assert (status, answered["status"]) == (200, "failed")
    assert await over(place.server) == [Status.FAILED]

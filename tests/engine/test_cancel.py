"""A client that leaves, in every phase of its call: the upstream's socket closes, one record says so, nothing stays."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Final

import pytest

from rivermouth.store.port import CallRecord, Outcome, Status
from tests.engine import bots
from tests.engine.client import Client, connected
from tests.engine.lab import lab, until
from tests.engine.place import Place, placed
from tests.engine.test_clocks import deaf
from tests.engine.words import ALL, DONE, OPENAI, PLAIN, ROLE, Speaks, begin, model, provider, refusal, says, talk
from tests.fakes import JSON, SSE, Asked

pytestmark = pytest.mark.anyio

CLOSED_S: Final = 1.0
"""A cancel reaches the upstream's socket within this time."""


@pytest.fixture(scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    def config(url: str) -> str:
        return PLAIN + provider("up", url) + provider("next", url) + model("pair", "up", "next")

    async with placed(tmp_path_factory.mktemp("cancel"), config) as made:
        yield made


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    bots.fresh()
    yield
    bots.HELD.set()


async def closed(asked: Asked) -> None:
    """The server has closed the upstream's socket, in time."""
    async with asyncio.timeout(CLOSED_S):
        await asked.gone()


async def cancelled(place: Place, *, since: int) -> CallRecord:
    """The one record of the call that was left; nothing runs any more."""
    await place.server.idle()
    record = await place.server.last()
    assert len(place.server.records()) == since + 1
    assert (record.status, record.cancelled_by, record.kind) == (Status.CANCELLED, "client", None)
    return record


@asynccontextmanager
async def left_in(place: Place, speaks: Speaks, wanted: str, *, stream: bool = True) -> AsyncIterator[Client]:
    """A call that the test leads to a phase; at the end its client leaves."""
    async with connected(place.server.port, receive_bytes=8192) as client:
        await client.send("POST", speaks.path, talk(wanted, stream=stream))
        yield client
        client.leave()


Leads = Callable[[Asked, Client], Awaitable[None]]


async def unanswered(asked: Asked, client: Client) -> None:
    """The upstream has the request and has not answered."""


async def no_content_yet(asked: Asked, client: Client) -> None:
    await begin(asked, ROLE)


async def in_the_middle(asked: Asked, client: Client) -> None:
    await begin(asked, ROLE, says("Hel"))
    await (await client.answer()).until(b"Hel")


async def behind_a_slow_reader(asked: Asked, client: Client) -> None:
    """The client takes nothing more; all buffers between are full."""
    await begin(asked, ROLE, says("Hel"))
    await (await client.answer()).until(b"Hel")
    stuffed = asyncio.ensure_future(stuff(asked))
    seen = -1
    while seen != (seen := len(asked.unsent())):  # type: ignore[attr-defined]
        await asyncio.sleep(0)
    stuffed.cancel()


async def stuff(asked: Asked) -> None:
    while True:
        await asked.send(says("x" * 60_000))


PHASES: Final[dict[str, tuple[Leads, int]]] = {
    "before the upstream answered": (unanswered, 0),
    "before the first content": (no_content_yet, 0),
    "in the middle": (in_the_middle, 3),
}


@pytest.mark.fault("F31", "F32", "F16", "F30")
@pytest.mark.promise(33, 72, 73, 75)
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("speaks", ALL, ids=lambda s: s.name)
async def test_a_client_that_leaves_stops_the_upstream(place: Place, speaks: Speaks, phase: str) -> None:
    leads, chars = PHASES[phase]
    since = len(place.server.records())
    async with left_in(place, speaks, "up/m") as client:
        asked = await place.asked()
        await leads(asked, client)
    await closed(asked)
    record = await cancelled(place, since=since)
    assert [(a.outcome, a.text_chars) for a in record.attempts] == [(Outcome.CANCELLED, chars)]
    assert (record.text_chars, record.estimated) == (chars, chars > 0)

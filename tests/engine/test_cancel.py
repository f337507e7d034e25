"""A client that leaves, in every phase of its call: the upstream's socket closes, one record says so, nothing stays."""

from __future__ import annotations

import asyncio
import contextlib
import socket
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
from tests.engine.words import ALL, OPENAI, PLAIN, ROLE, Speaks, begin, model, provider, refusal, says, talk
from tests.fakes import JSON, Asked

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
    await until(lambda: len(place.server.records()) == since + 1, "the call has a record, and only one")
    record = await place.server.last()
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


async def stuff(asked: Asked) -> None:
    """Always more, until the server goes."""
    with contextlib.suppress(ConnectionError):
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


@pytest.mark.fault("F31")
@pytest.mark.skipif(not hasattr(socket, "TCP_INFO"), reason="the system does not say")
@pytest.mark.parametrize("more", [1, 20])
async def test_one_that_has_asked_for_more_meanwhile(place: Place, more: int) -> None:
    """What is pipelined is not read before its turn, and the end of the connection stands behind it."""
    since = len(place.server.records())
    async with left_in(place, OPENAI, "up/m") as client:
        asked = await place.asked()
        await client.raw(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n" * more)
        await until(place.server.unread, "the server does not read on")
    await closed(asked)
    await cancelled(place, since=since)


@pytest.mark.fault("F31", "F35")
@pytest.mark.parametrize("speaks", ALL, ids=lambda s: s.name)
async def test_behind_a_slow_reader_too(place: Place, speaks: Speaks) -> None:
    """Every buffer is full: the server waits for the client and sees it go all the same."""
    since = len(place.server.records())
    async with left_in(place, speaks, "up/m") as client:
        asked = await place.asked()
        await begin(asked, ROLE, says("Hel"))
        await (await client.answer()).until(b"Hel")
        stuffing = asyncio.ensure_future(stuff(asked))
        await until(place.server.blocked, "the server waits for the client")
    await closed(asked)
    await stuffing
    record = await cancelled(place, since=since)
    assert record.text_chars > 60_000


@pytest.mark.fault("F31")
@pytest.mark.parametrize("speaks", ALL, ids=lambda s: s.name)
@pytest.mark.parametrize("answering", ["not at all", "a document in parts", "a stream"])
async def test_a_client_that_does_not_stream(place: Place, speaks: Speaks, answering: str) -> None:
    since = len(place.server.records())
    async with left_in(place, speaks, "up/m", stream=False):
        asked = await place.asked()
        if answering == "a document in parts":
            await asked.head(200, JSON)
            await asked.send(b'{"choices":')
        if answering == "a stream":
            await begin(asked, ROLE, says("Hel"))
            await until(lambda: place.server.produced() == 3, "the server has read it")
    await closed(asked)
    record = await cancelled(place, since=since)
    assert record.text_chars == (3 if answering == "a stream" else 0)


@pytest.mark.fault("F31")
async def test_embeddings(place: Place) -> None:
    since = len(place.server.records())
    async with connected(place.server.port) as client:
        await client.send("POST", "/v1/embeddings", {"model": "up/m", "input": "hi"})
        asked = await place.asked()
        client.leave()
    await closed(asked)
    assert (await cancelled(place, since=since)).operation == "embed"


@pytest.mark.fault("F31")
async def test_the_candidate_that_runs_is_the_one_that_is_closed(place: Place) -> None:
    since = len(place.server.records())
    async with left_in(place, OPENAI, "pair"):
        await (await place.asked()).answer(503, JSON, refusal("busy"))
        asked = await place.asked()
    await closed(asked)
    record = await cancelled(place, since=since)
    assert [(a.provider, a.outcome) for a in record.attempts] == [("up", Outcome.FAILED), ("next", Outcome.CANCELLED)]


@pytest.mark.fault("F31")
async def test_in_the_wait_before_another_try(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The upstream asked for five seconds; the client does not wait for them, and nobody asks again."""

    def config(url: str) -> str:
        return "[resilience]\nretries = 2\ncooldown = false\n" + provider("up", url)

    async with placed(tmp_path_factory.mktemp("wait"), config) as place:
        async with left_in(place, OPENAI, "up/m"):
            await (await place.asked()).answer(503, JSON, refusal("busy"), retry_after="5")
            await until(lambda: place.server.attempts() == 1, "the first try has failed")
        record = await cancelled(place, since=0)
        assert [a.outcome for a in record.attempts] == [Outcome.FAILED]
        assert record.ended_ns is not None
        assert record.ended_ns < 5e9
        assert len(place.upstream.requests) == 1


@pytest.mark.fault("F31")
async def test_while_it_connects(tmp_path_factory: pytest.TempPathFactory) -> None:
    with deaf() as address:
        config = PLAIN + provider("deaf", f"http://{address}")
        with lab(tmp_path_factory.mktemp("connect"), config) as server:
            async with connected(server.port) as client:
                await client.send("POST", OPENAI.path, talk("deaf/m"))
                await until(lambda: server.inflight() == 1, "the call runs")
                client.leave()
            await server.idle()
            record = await server.last()
            assert (record.status, record.cancelled_by) == (Status.CANCELLED, "client")
            assert [a.outcome for a in record.attempts] == [Outcome.CANCELLED]


async def test_while_its_model_is_looked_up(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A bare name makes the server ask its providers for their models, and this one does not answer."""

    def config(url: str) -> str:
        return PLAIN + provider("up", url)

    async with placed(tmp_path_factory.mktemp("list"), config) as place:
        async with left_in(place, OPENAI, "somebody"):
            asked = await place.asked()
            assert asked.path == "/up/v1/models"
        record = await cancelled(place, since=0)
        assert (record.attempts, record.decisions) == ((), ())
        asked.cut()


async def test_while_its_request_is_still_on_the_way(place: Place) -> None:
    """It was no call yet: there is no record, and nothing stays behind."""
    since = len(place.server.records())
    tasks = place.server.tasks()
    async with connected(place.server.port) as client:
        head = f"POST {OPENAI.path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 500\r\n\r\n"
        await client.raw(head.encode() + b'{"model":')
        await until(lambda: place.server.tasks() > tasks, "the request has begun")
        client.leave()
    await until(lambda: place.server.tasks() == tasks, "nothing is left of it")
    assert place.server.inflight() == 0
    assert len(place.server.records()) == since


@pytest.mark.fault("F31", "F33")
async def test_a_generator_of_ones_own_is_closed(tmp_path_factory: pytest.TempPathFactory) -> None:
    config = PLAIN + '[providers.endless]\npython = "tests.engine.bots:endless"\n'
    with lab(tmp_path_factory.mktemp("bots"), config) as server:
        async with connected(server.port, receive_bytes=8192) as client:
            await client.send("POST", OPENAI.path, talk("endless/m"))
            await (await client.answer()).until(b"word")
            client.leave()
        await until(bots.CLOSED.is_set, "the generator was closed")
        await server.idle()
        record = await server.last()
        assert (record.status, record.cancelled_by) == (Status.CANCELLED, "client")


ABORTED: Final = 200
AT_ONCE: Final = 20


@pytest.mark.fault("F31", "F32", "F35", "F30")
async def test_after_two_hundred_aborted_calls_nothing_is_left(place: Place) -> None:
    """In every phase, twenty at a time: no task, no connection, no open row, and a record for each."""
    server = place.server
    await server.idle()
    await until(lambda: server.connections() == 0, "no client is connected")
    since, tasks = len(server.records()), server.tasks()

    async def abort(number: int) -> None:
        async with left_in(place, ALL[number % 3], "up/m", stream=number % 4 != 3):
            asked = await place.asked()
            if number % 4 != 3:
                await begin(asked, *([ROLE, says("Hel")][: number % 3]))
        await closed(asked)

    for first in range(0, ABORTED, AT_ONCE):
        await asyncio.gather(*(abort(number) for number in range(first, first + AT_ONCE)))
    await server.idle()
    await until(lambda: server.connections() == 0, "no client is connected")
    await until(lambda: server.tasks() == tasks, f"the tasks are {tasks} again")
    await until(lambda: not [r for r in server.records() if r.status is Status.OPEN], "every row has its end")
    ended = server.records()[: len(server.records()) - since]
    assert len(ended) == ABORTED
    assert {(r.status, r.cancelled_by) for r in ended} == {(Status.CANCELLED, "client")}

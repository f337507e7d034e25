"""A stream that is cut anywhere and resumed is the stream that was not cut, byte for byte, in every dialect."""

from __future__ import annotations

import os
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from typing import Final

import pytest

from rivermouth.dialects import discover
from rivermouth.dialects.dialect import Operation
from rivermouth.store.port import Status
from tests.engine.client import Answer, asking, calling
from tests.engine.lab import Lab, lab
from tests.engine.place import Place, placed
from tests.engine.words import END, ROLE, begin, provider, says
from tests.goldens.ways import body_of, match_of
from tests.resume.asgi import visit
from tests.resume.ways import EVERY, served_by

pytestmark = pytest.mark.anyio

THOROUGH: Final = bool(os.environ.get("RIVERMOUTH_THOROUGH"))
ASKED: Final = {"x-rivermouth-resumable": "1", "content-type": "application/json"}
FAR: Final = 4096
CUTS: Final = 40 if THOROUGH else 3
OTHERWISE: Final = frozenset({"date", "transfer-encoding"})
"""Headers that belong to the connection."""

ways = pytest.mark.parametrize("name", EVERY)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with lab(tmp_path_factory.mktemp("resume"), served_by("scripted/scripted")) as server:
        yield server


@pytest.fixture(scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    folder = tmp_path_factory.mktemp("resume-up")
    async with placed(folder, lambda url: served_by("up/m") + provider("up", url)) as place:
        yield place


def test_every_route_that_streams_has_a_way() -> None:
    routes = {
        (name, route.path)
        for name, dialect in discover().items()
        for route in dialect.routes
        if route.streams and route.operation is Operation.GENERATE
    }
    assert {(way.dialect, match_of(way).route.path) for way in EVERY.values()} == routes


@ways
async def test_what_follows_any_byte_is_the_rest(server: Lab, name: str) -> None:
    """The whole of an answer that has ended, and of one that goes on, from each of its bytes."""
    way = EVERY[name]
    asked = visit(server, "POST", way.path, body_of(way), ASKED)
    whole = await server.run(asked)
    assert (whole.ended, whole.status) == (True, 200), whole.body
    address = whole.headers["x-rivermouth-resume"]

    async def each() -> None:
        for after in range(min(len(whole.body), FAR) + 1):
            rest = await visit(server, "GET", f"{address}?after={after}")
            assert rest.ended
            assert whole.body[:after] + rest.body == whole.body, after
            assert rest.headers == whole.headers

    await server.run(each())
    assert (await server.record(whole.headers["x-request-id"])).status is Status.COMPLETED


@pytest.mark.skipif(not THOROUGH, reason="a call for each byte: make fault asks them")
@pytest.mark.timeout(600)
@ways
async def test_a_call_for_each_byte_at_which_its_client_leaves(server: Lab, name: str) -> None:
    way = EVERY[name]

    async def each() -> None:
        for after in range(1, FAR + 1):
            cut = await visit(server, "POST", way.path, body_of(way), ASKED, leave_at=after)
            part = cut.body[:after]
            rest = await visit(server, "GET", f"{cut.headers['x-rivermouth-resume']}?after={len(part)}")
            whole = await visit(server, "GET", cut.headers["x-rivermouth-resume"])
            assert part + rest.body == whole.body
            if len(part) < after:  # no two answers need be of the same length
                return

    await server.run(each())
    assert all(record.status is not Status.FAILED for record in server.records())


@ways
async def test_a_wire_that_is_cut_while_the_answer_is_made(place: Place, name: str) -> None:
    """Over sockets: the client that was cut, and comes back while more is being written, has what another one has that
    never left; and there is one record.
    """
    way, server = EVERY[name], place.server
    chance, before = random.Random(name), len(server.records())
    for _ in range(CUTS):
        async with AsyncExitStack() as staying:
            async with calling(server.port, way.path, body_of(way), ASKED) as client:
                upstream = await place.asked()
                await begin(upstream, ROLE, says("one"))
                cut = await client.answer()
                address = cut.headers["x-rivermouth-resume"]
                steady = await staying.enter_async_context(asking(server.port, address, method="GET"))
                while not cut.body:
                    await cut.more()
            part = cut.body[: chance.randint(0, len(cut.body))]
            await upstream.send(says(" two"))
            async with asking(server.port, f"{address}?after={len(part)}", method="GET") as again:
                await upstream.send(says(" three"))
                await upstream.end(END)
                whole = await steady.rest()
                assert part + await again.rest() == whole
                assert _told(again) == _told(cut) == _told(steady)
            assert len(whole) > len(cut.body)
        assert (await server.record(cut.call_id)).status is Status.COMPLETED
    assert len(server.records()) == before + CUTS


def _told(answer: Answer) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if name not in OTHERWISE}

"""What a client may send: how much, for how long, and how deep."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Final

import pytest

from rivermouth.http import protocol, wiring
from rivermouth.store.port import Status
from tests.engine.client import Client, asking, connected
from tests.engine.lab import Lab, lab, until
from tests.engine.place import Place, gone, placed
from tests.engine.words import ALL, OPENAI, PLAIN, ROLE, Speaks, begin, provider, says, talk

pytestmark = pytest.mark.anyio

LIMIT_BYTES: Final = 8192
SLOW_S: Final = 0.3


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with lab(tmp_path_factory.mktemp("limits"), f"{PLAIN}[http]\nbody_limit_bytes = {LIMIT_BYTES}\n") as made:
        yield made


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Gives heads and bodies a moment only."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(protocol, "HEAD_S", SLOW_S)
        patch.setattr(protocol, "STALL_S", SLOW_S)
        patch.setattr(wiring, "BODY_LIMIT_S", SLOW_S)
        with lab(tmp_path_factory.mktemp("hasty"), PLAIN) as made:
            yield made


@pytest.fixture(scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    def config(url: str) -> str:
        return PLAIN + provider("up", url)

    async with placed(tmp_path_factory.mktemp("place"), config) as made:
        yield made


def request_of(size: int) -> bytes:
    """A good request whose body has exactly this size."""
    empty = b'{"model":"scripted","max_tokens":9,"messages":[{"role":"user","content":"%b"}]}'
    return empty % (b"x" * (size - len(empty % b"")))


async def serves(client: Client) -> None:
    """The connection is good for another request."""
    answer = await client.ask("POST", OPENAI.path, talk("scripted"))
    assert OPENAI.finished(await answer.rest())


async def chunked(client: Client, *pieces: bytes, end: bool = True) -> None:
    head = f"POST {OPENAI.path} HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
    body = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    await client.raw(head.encode() + body + (b"0\r\n\r\n" if end else b""))


DOCUMENTS: Final = 200
"""So many of the platform's descriptions are more than the buffers of a system hold."""


@pytest.mark.fault("F35")
class TestReaders:
    async def test_one_that_takes_nothing_is_hung_up_on(self, hasty: Lab) -> None:
        async with connected(hasty.port, receive_bytes=8192) as client:
            await client.raw(b"GET /platform/openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n" * DOCUMENTS)
            await until(hasty.blocked, "it does not take what is there for it")
            await until(lambda: hasty.connections() == 0, "it was hung up on")


@pytest.mark.fault("F35")
class TestBodies:
    async def test_one_of_the_limits_size_passes(self, server: Lab) -> None:
        async with connected(server.port) as client:
            assert (await (await client.ask("POST", OPENAI.path, request_of(LIMIT_BYTES))).json())["choices"]
            await chunked(client, *([request_of(LIMIT_BYTES)[i : i + 1000] for i in range(0, LIMIT_BYTES, 1000)]))
            assert (await (await client.answer()).json())["choices"]

    @pytest.mark.parametrize("speaks", ALL, ids=lambda s: s.name)
    async def test_one_that_is_larger_is_refused_in_the_dialects_words(self, server: Lab, speaks: Speaks) -> None:
        async with connected(server.port) as client:
            answer = await client.ask("POST", speaks.path, request_of(LIMIT_BYTES + 1))
            assert answer.status == 413
            assert speaks.refused(await answer.json()) == f"the request body is larger than {LIMIT_BYTES} bytes"
            await serves(client)

    async def test_the_announcement_is_enough(self, server: Lab) -> None:
        async with connected(server.port) as client:
            await client.raw(
                f"POST {OPENAI.path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99999\r\n\r\n".encode()
            )
            assert (await client.answer()).status == 413

    async def test_one_without_a_length_is_refused_as_soon_as_it_is_too_large(self, server: Lab) -> None:
        async with connected(server.port) as client:
            await chunked(client, *[b"x" * 1000] * 9, end=False)
            answer = await client.answer()
            assert answer.status == 413
            await answer.rest()
            await client.raw(b"0\r\n\r\n")
            await serves(client)

    async def test_one_that_dribbles_gets_a_408_and_is_hung_up_on(self, hasty: Lab) -> None:
        async with connected(hasty.port) as client:
            await chunked(client, b"{", end=False)
            answer = await client.answer()
            assert (answer.status, answer.headers["connection"]) == (408, "close")
            assert "did not arrive within" in OPENAI.refused(await answer.json())
            assert await client.closed() == b""

    @pytest.mark.parametrize("speaks", ALL, ids=lambda s: s.name)
    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"{",
            b"null",
            b"[]",
            b'"text"',
            b"\xff\xfe",
            b'{"model":"\xff"}',
            b'{"model":1}',
            b'{"messages":' + b"[" * 4000,
            b'{"model":"scripted","messages":' + b"[" * 3000 + b"]" * 3000 + b"}",
            b'{"a":' * 1000 + b"1" + b"}" * 1000,
        ],
        ids=range(11),
    )
    async def test_what_is_no_request_is_the_clients_fault(self, server: Lab, speaks: Speaks, body: bytes) -> None:
        async with connected(server.port) as client:
            answer = await client.ask("POST", speaks.path, body)
            assert answer.status == 400
            assert speaks.refused(await answer.json())
            await serves(client)


@pytest.mark.fault("F35")
class TestHeads:
    async def test_a_large_one_passes(self, server: Lab) -> None:
        more = {f"x-{n}": "y" * 1000 for n in range(40)}
        async with asking(server.port, "/health", None, more, method="GET") as answer:
            assert answer.status == 200

    @pytest.mark.parametrize(
        "piece", [b"x-a: y\r\n", b"y" * 1000], ids=["headers without end", "one header without end"]
    )
    async def test_one_without_end_is_refused(self, server: Lab, piece: bytes) -> None:
        async with connected(server.port) as client:
            await client.raw(b"GET / HTTP/1.1\r\nhost: localhost\r\nx: ")
            times = 2 * protocol.HEAD_CAP_BYTES // len(piece)
            try:
                for _ in range(0, times, 10):
                    await client.raw(piece * 10)
            except ConnectionError:
                pass  # hung up on before the end
            assert (await client.closed())[:13] in (b"HTTP/1.1 431 ", b"")
        await until(lambda: server.connections() == 0, "the connection is closed")

    async def test_one_that_dribbles_gets_a_408(self, hasty: Lab) -> None:
        async with connected(hasty.port) as client:
            await client.raw(b"GET / HTT")
            assert (await client.closed()).startswith(b"HTTP/1.1 408 ")

    async def test_so_does_the_second_on_a_connection(self, hasty: Lab) -> None:
        async with connected(hasty.port) as client:
            await serves(client)
            await client.raw(b"GET / HTT")
            assert (await client.closed()).startswith(b"HTTP/1.1 408 ")

    async def test_who_says_nothing_is_hung_up_on_without_a_word(self, hasty: Lab) -> None:
        async with connected(hasty.port) as client:
            assert await client.closed() == b""


class TestWhileAnAnswerRuns:
    """What else the client sends then must neither harm the answer nor hide that the client has left."""

    async def test_a_request_waits_for_its_turn(self, place: Place) -> None:
        async with connected(place.server.port) as client:
            await client.send("POST", OPENAI.path, talk("up/m"))
            asked = await place.asked()
            await begin(asked, ROLE, says("one"))
            answer = await client.answer()
            await answer.until(b"one")
            await client.send("GET", "/health")
            await asked.send(says("two"))
            await answer.until(b"two")
            await asked.end(b"data: [DONE]\n\n")
            body = await answer.rest()
            assert b"HTTP/1.1" not in body
            assert (await client.answer()).status == 200

    @pytest.mark.fault("F31")
    @pytest.mark.parametrize("waiting", [1, 3])
    async def test_a_client_that_left_while_another_request_waited_is_noticed(self, place: Place, waiting: int) -> None:
        async with connected(place.server.port) as client:
            await client.send("POST", OPENAI.path, talk("up/m"))
            asked = await place.asked()
            await begin(asked, ROLE, says("one"))
            answer = await client.answer()
            await answer.until(b"one")
            for _ in range(waiting):
                await client.send("GET", "/health")
            client.leave()
        saying = asyncio.ensure_future(keep_saying(asked))
        await gone(asked)
        await saying
        record = await place.server.record(answer.call_id)
        assert (record.status, record.cancelled_by) == (Status.CANCELLED, "client")
        await place.server.idle()

    @pytest.mark.fault("F14", "F31")
    async def test_rubbish_ends_the_connection_and_not_with_a_second_status(self, place: Place) -> None:
        async with connected(place.server.port) as client:
            await client.send("POST", OPENAI.path, talk("up/m"))
            asked = await place.asked()
            await begin(asked, ROLE, says("one"))
            answer = await client.answer()
            await answer.until(b"one")
            await client.raw(b"rubbish\r\n\r\n")
            rest = await client.closed()
            assert b"HTTP/1.1" not in rest
            await gone(asked)
        record = await place.server.record(answer.call_id)
        assert (record.status, record.cancelled_by) == (Status.CANCELLED, "client")


async def keep_saying(asked: object) -> None:
    """Always another word, until the server goes: it learns of its client by writing to it."""
    try:
        while not asked.is_gone:  # type: ignore[attr-defined]
            await asked.send(says("word "))  # type: ignore[attr-defined]
            await asyncio.sleep(0.001)
    except ConnectionError:
        return

"""The four clocks on real sockets: each from the surface's table and from a provider's own, and what each says."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

import pytest

from rivermouth.dialects.anthropic.tables import TRY_AGAIN
from rivermouth.engine import engine
from rivermouth.ir.errors import Kind
from rivermouth.store.port import Outcome, Status
from tests.engine.client import Cut, asking, calling, connected
from tests.engine.lab import LOOPBACK, lab, until
from tests.engine.place import Place, gone, placed
from tests.engine.words import (
    ALL,
    END,
    OPENAI,
    PLAIN,
    ROLE,
    Speaks,
    begin,
    document,
    model,
    provider,
    says,
    talk,
)
from tests.fakes import JSON, Asked

pytestmark = pytest.mark.anyio

SHORT_S: Final = 0.2
PIECE: Final = says("x" * 4000)


@pytest.fixture(scope="module")
async def narrow(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    """Providers with one short clock each; the surface's are long."""

    def config(url: str) -> str:
        clocks = ("first_token_s", "idle_s", "total_s")
        named = "".join(provider(clock.removesuffix("_s"), url, **{clock: SHORT_S}) for clock in clocks)
        return PLAIN + named + provider("up", url) + model("last_total", "up", "total")

    async with placed(tmp_path_factory.mktemp("narrow"), config) as made:
        yield made


class Stalls(NamedTuple):
    """How an upstream lets one clock run out, and what the client is told then."""

    begins: Callable[[Asked], Awaitable[None]]
    says: str
    in_stream: bool


async def silent(asked: Asked) -> None:
    """No answer at all."""


async def one_word(asked: Asked) -> None:
    await begin(asked, ROLE, says("well"))


async def on_and_on(asked: Asked) -> None:
    """Always another word, at a pace that the client can follow, until the server goes."""
    await begin(asked, ROLE)
    try:
        while not asked.is_gone:
            await asked.send(says("word "))
            await asyncio.sleep(SHORT_S / 20)
    except ConnectionError:
        return


CLOCKS: Final = {
    "first_token": Stalls(silent, f"no first token within {SHORT_S} s", in_stream=False),
    "idle": Stalls(one_word, f"no token for {SHORT_S} s", in_stream=True),
    "total": Stalls(on_and_on, f"the call took longer than {SHORT_S} s", in_stream=True),
}


async def runs_out(place: Place, wanted: str, clock: str, speaks: Speaks) -> None:
    stalls = CLOCKS[clock]
    async with calling(place.server.port, speaks.path, talk(wanted)) as client:
        asked = await place.asked()
        await stalls.begins(asked)
        answer = await client.answer()
        body = await answer.rest()
        await gone(asked)
    if stalls.in_stream:
        assert answer.status == 200
        assert speaks.failed(body).removesuffix(f"; {TRY_AGAIN}") == stalls.says
        assert not speaks.finished(body)
    else:
        assert answer.status == 504
        assert speaks.refused(await answer.json()) == stalls.says
    record = await place.server.record(answer.call_id)
    assert (record.status, record.kind, record.message) == (Status.FAILED, Kind.TIMEOUT, stalls.says)
    assert [(a.outcome, a.kind) for a in record.attempts] == [(Outcome.FAILED, Kind.TIMEOUT)]


@pytest.mark.fault("F16", "F31")
@pytest.mark.parametrize("clock", CLOCKS)
@pytest.mark.parametrize("speaks", ALL, ids=lambda s: s.name)
async def test_a_providers_own_clock(narrow: Place, speaks: Speaks, clock: str) -> None:
    await runs_out(narrow, f"{clock}/m", clock, speaks)


@pytest.mark.parametrize("clock", CLOCKS)
async def test_the_surfaces_clock(tmp_path_factory: pytest.TempPathFactory, clock: str) -> None:
    """The provider's own is longer: the smaller holds (R7)."""

    def config(url: str) -> str:
        return f"{PLAIN}[timeouts]\n{clock}_s = {SHORT_S}\n" + provider("up", url, **{f"{clock}_s": 9.0})

    async with placed(tmp_path_factory.mktemp(clock), config) as place:
        await runs_out(place, "up/m", clock, OPENAI)


@pytest.mark.parametrize("speaks", ALL, ids=lambda s: s.name)
async def test_for_a_client_that_does_not_stream_the_total_clock_alone_runs(narrow: Place, speaks: Speaks) -> None:
    """Its answer comes in one piece: nothing before it tells a slow model from a stuck one."""
    async with calling(narrow.server.port, speaks.path, talk("first_token/m", stream=False)) as slow:
        waiting = await narrow.asked()
        async with calling(narrow.server.port, speaks.path, talk("total/m", stream=False)) as client:
            asked = await narrow.asked()
            answer = await client.answer()
            assert answer.status == 504
            assert speaks.refused(await answer.json()) == CLOCKS["total"].says
            await gone(asked)
        await waiting.answer(200, JSON, document("at last"))
        assert speaks.whole(await (await slow.answer()).json()) == "at last"


async def test_the_clock_is_named_where_the_dialect_has_a_place_for_it(narrow: Place) -> None:
    async with calling(narrow.server.port, OPENAI.path, talk("first_token/m")) as client:
        await narrow.asked()
        assert (await (await client.answer()).json())["error"]["code"] == "first_token_timeout"


async def test_the_total_clock_goes_on_over_a_second_candidate(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The first candidate's stall is not forgotten: the second has what is left, not the whole again."""

    def config(url: str) -> str:
        total = f"[timeouts]\ntotal_s = {3 * SHORT_S}\n"
        return PLAIN + total + provider("a", url, first_token_s=2 * SHORT_S) + provider("b", url) + model("m", "a", "b")

    async with placed(tmp_path_factory.mktemp("total"), config) as place:
        async with calling(place.server.port, OPENAI.path, talk("m")) as client:
            await place.asked()
            second = await place.asked()
            answer = await client.answer()
            assert answer.status == 504
            await gone(second)
        record = await place.server.record(answer.call_id)
        assert [a.message for a in record.attempts] == [
            f"no first token within {2 * SHORT_S:g} s",
            f"the call took longer than {3 * SHORT_S:g} s",
        ]
        assert record.ended_ns is not None
        assert record.ended_ns / 1e9 < 5 * SHORT_S + 1


async def test_the_total_clock_of_a_later_candidate_is_its_own(narrow: Place) -> None:
    async with calling(narrow.server.port, OPENAI.path, talk("last_total")) as client:
        await (await narrow.asked()).answer(503, None, b"")
        asked = await narrow.asked()
        assert asked.path.startswith("/total/")
        await begin(asked, ROLE)
        answer = await client.answer()
        assert OPENAI.refused(await answer.json()) == CLOCKS["total"].says


@contextmanager
def deaf() -> Iterator[str]:
    """An address where nobody takes a connection: its backlog is full, and the system lets the next one wait."""
    with socket.socket() as listener:
        listener.bind((LOOPBACK, 0))
        listener.listen(0)
        waiting = [socket.socket() for _ in range(4)]
        try:
            for sock in waiting:
                sock.setblocking(False)
                sock.connect_ex(listener.getsockname())
            yield f"{LOOPBACK}:{listener.getsockname()[1]}"
        finally:
            for sock in waiting:
                sock.close()


@contextmanager
def mute() -> Iterator[str]:
    """An address where connections are taken and nothing is ever said: a TLS handshake does not end."""
    with socket.create_server((LOOPBACK, 0)) as listener:
        yield f"{LOOPBACK}:{listener.getsockname()[1]}"


@pytest.mark.fault("F17")
async def test_the_connect_clock(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Once the surface's, once a provider's own; and, where another candidate is, that one answers."""
    with deaf() as tcp, mute() as tls:
        config = PLAIN + f"[timeouts]\nconnect_s = {SHORT_S}\n"
        config += provider("deaf", f"http://{tcp}", connect_s=9) + provider("mute", f"https://{tls}", connect_s=0.1)
        config += '[models.rescued]\nendpoints = ["deaf/m", "mute/m", "scripted/scripted"]\n'
        with lab(tmp_path_factory.mktemp("connect"), config) as server:
            for wanted, limit in (("deaf/m", "0.2"), ("mute/m", "0.1")):
                async with asking(server.port, OPENAI.path, talk(wanted)) as answer:
                    assert answer.status == 504
                    message = OPENAI.refused(await answer.json())
                assert message == f"no connection to the upstream within {limit} s"
                record = await server.record(answer.call_id)
                assert (record.status, record.kind) == (Status.FAILED, Kind.TIMEOUT)
            async with asking(server.port, OPENAI.path, talk("rescued")) as answer:
                assert OPENAI.finished(await answer.rest())
            record = await server.record(answer.call_id)
            assert [(a.provider, a.kind) for a in record.attempts] == [
                ("deaf", Kind.TIMEOUT),
                ("mute", Kind.TIMEOUT),
                ("scripted", None),
            ]


@pytest.mark.fault("F35")
async def test_a_slow_reader_is_not_an_idle_upstream(narrow: Place) -> None:
    """The client stops reading for longer than the idle clock; then it reads on, and nothing is lost."""
    pieces = 4000
    async with connected(narrow.server.port, receive_bytes=8192) as client:
        await client.send("POST", OPENAI.path, talk("idle/m"))
        asked = await narrow.asked()
        sent = asyncio.ensure_future(flood(asked, pieces))
        answer = await client.answer()
        await answer.until(b"xxx")
        for _ in range(3):  # each of these takes the idle clock's time
            async with calling(narrow.server.port, OPENAI.path, talk("idle/m")) as other:
                await begin(await narrow.asked(), ROLE, says("well"))
                await (await other.answer()).rest()
        assert not sent.done(), "the upstream was paused"
        body = await answer.rest()
        await sent
    assert OPENAI.finished(body)
    assert len(OPENAI.text(body)) == 4000 * pieces


@pytest.mark.fault("F35", "F16")
async def test_a_client_that_takes_nothing_is_hung_up_on_at_last(
    narrow: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The total clock runs while it does not read; it has a moment for the last words, and no longer."""
    monkeypatch.setattr(engine, "TELL_S", SHORT_S)
    async with connected(narrow.server.port, receive_bytes=8192) as client:
        await client.send("POST", OPENAI.path, talk("total/m"))
        asked = await narrow.asked()
        flooding = asyncio.ensure_future(flood(asked, 1_000_000))
        answer = await client.answer()
        with pytest.raises(ConnectionError):
            await flooding
        record = await narrow.server.record(answer.call_id)
        assert (record.status, record.kind) == (Status.FAILED, Kind.TIMEOUT)
        await until(lambda: narrow.server.connections() == 0, "the connection is closed")
        with pytest.raises(Cut):
            await answer.rest()


async def flood(asked: Asked, pieces: int) -> None:
    """As much as the server takes, as fast as it takes it."""
    await begin(asked, ROLE)
    for _ in range(pieces):
        await asked.send(PIECE)
    await asked.end(END)

"""Stopping: new calls are refused, running ones may end, what remains is told; and every one of them has its record."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from rivermouth import __version__
from rivermouth.engine import engine
from rivermouth.store.datadir import DataDir
from rivermouth.store.port import CallRecord, Outcome, Status
from rivermouth.store.sqlite import SqliteCallStore
from tests.engine.client import asking, calling, connected
from tests.engine.lab import Lab, until
from tests.engine.place import Place, gone, placed
from tests.engine.test_cancel import stuff
from tests.engine.words import ALL, END, OPENAI, PLAIN, ROLE, Speaks, begin, provider, says, talk

pytestmark = pytest.mark.anyio

SHORT: Final = 0.3
TOLD: Final = "the server is shutting down"


def lasting(url: str) -> str:
    """A drain that lasts until all calls have ended."""
    return PLAIN + "[timeouts]\ndrain_s = 30\n" + provider("up", url)


def short(url: str) -> str:
    return PLAIN + f"[timeouts]\ndrain_s = {SHORT}\n" + provider("up", url)


def none(url: str) -> str:
    return PLAIN + "[timeouts]\ndrain_s = 0\n" + provider("up", url)


def records(folder: Path) -> list[CallRecord]:
    """What is in the store when its server has gone."""
    store = SqliteCallStore.reader(DataDir(folder / "data").database)
    try:
        return list(store.list(1000))
    finally:
        store.dispose()


async def draining(server: Lab) -> None:
    server.stop()
    await until(lambda: server.draining(), "the drain has begun")


async def running(place: Place, client_text: str = "one") -> None:
    """Waits for the upstream's side of a call and says one word."""
    await begin(await place.asked(), ROLE, says(client_text))


async def test_what_runs_may_end(tmp_path: Path) -> None:
    async with placed(tmp_path, lasting) as place, calling(place.server.port, OPENAI.path, talk("up/m")) as client:
        asked = await place.asked()
        await begin(asked, ROLE, says("one"))
        answer = await client.answer()
        await answer.until(b"one")
        await draining(place.server)
        async with asking(place.server.port, "/health", method="GET") as health:
            assert health.status == 503
            assert await health.json() == {"status": "draining", "inflight": 1, "version": __version__}
        await asked.send(says(" two"))
        await asked.end(END)
        body = await answer.rest()
        assert OPENAI.text(body) == "one two"
        assert OPENAI.finished(body)
        assert await client.closed() == b""
    assert [r.status for r in records(tmp_path)] == [Status.COMPLETED]


@pytest.mark.fault("F15")
async def test_a_new_call_is_refused_in_its_own_words(tmp_path: Path) -> None:
    expected = {"openai_chat": 503, "anthropic": 529, "ollama": 503}
    async with placed(tmp_path, lasting) as place, calling(place.server.port, OPENAI.path, talk("up/m")) as client:
        await running(place)
        answer = await client.answer()
        async with connected(place.server.port) as other:
            await other.ask("GET", "/health")
            await draining(place.server)
            for speaks in ALL:
                for stream in (True, False):
                    async with asking(place.server.port, speaks.path, talk("up/m", stream=stream)) as refused:
                        assert refused.status == expected[speaks.name]
                        assert (refused.headers["retry-after"], refused.headers["connection"]) == ("5", "close")
                        assert speaks.refused(await refused.json()) == TOLD
        async with asking(place.server.port, "/v1/embeddings", {"model": "up/m", "input": "x"}) as refused:
            assert refused.status == 503
        async with asking(place.server.port, "/api/version", method="GET") as version:
            assert version.status == 200
        place.server.stop()
        assert OPENAI.failed(await answer.rest()) == TOLD
    assert len(records(tmp_path)) == 1


async def test_a_request_whose_body_was_on_the_way_is_refused_too(tmp_path: Path) -> None:
    async with placed(tmp_path, lasting) as place, calling(place.server.port, OPENAI.path, talk("up/m")) as client:
        await running(place)
        await client.answer()
        async with connected(place.server.port) as other:
            tasks = place.server.tasks()
            await other.raw(f"POST {OPENAI.path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n".encode())
            await until(lambda: place.server.tasks() > tasks, "the request has begun")
            await draining(place.server)
            await other.raw(b"{}")
            assert (await other.answer()).status == 503


@pytest.mark.fault("F14", "F15", "F16")
@pytest.mark.parametrize("config", [short, none], ids=["after its time", "without any"])
@pytest.mark.parametrize("speaks", ALL, ids=lambda s: s.name)
async def test_what_does_not_end_is_told(tmp_path: Path, speaks: Speaks, config: Callable[[str], str]) -> None:
    """In its stream where it has begun, by its status where it has not; a document that is still being made too."""
    async with placed(tmp_path, config) as place:
        port, path = place.server.port, speaks.path
        async with connected(port) as begun, connected(port) as held, connected(port) as whole:
            await begun.send("POST", path, talk("up/m"))
            await begin(first := await place.asked(), ROLE, says("one"))
            answer = await begun.answer()
            await answer.until(b"one")
            await held.send("POST", path, talk("up/m"))
            await begin(second := await place.asked(), ROLE)
            await whole.send("POST", path, talk("up/m", stream=False))
            third = await place.asked()
            place.server.stop()
            body = await answer.rest()
            assert (speaks.text(body), speaks.failed(body), speaks.finished(body)) == ("one", TOLD, False)
            for client in (held, whole):
                refused = await client.answer()
                assert refused.status in (503, 529)
                assert refused.headers["retry-after"] == "5"
                assert speaks.refused(await refused.json()) == TOLD
            for asked in (first, second, third):
                await gone(asked)
    found = records(tmp_path)
    assert len(found) == 3
    assert {(r.status, r.cancelled_by) for r in found} == {(Status.CANCELLED, "shutdown")}
    assert {a.outcome for r in found for a in r.attempts} == {Outcome.CANCELLED}
    assert sorted(r.text_chars for r in found) == [0, 0, 3]


@pytest.mark.fault("F16", "F30")
async def test_nothing_is_lost_when_a_client_does_not_listen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has its time for the last words, and is hung up on then."""
    monkeypatch.setattr(engine, "TELL_S", 0.2)
    async with placed(tmp_path, none) as place, connected(place.server.port, receive_bytes=8192) as client:
        await client.send("POST", OPENAI.path, talk("up/m"))
        asked = await place.asked()
        await begin(asked, ROLE)
        stuffing = asyncio.ensure_future(stuff(asked))
        await until(place.server.blocked, "the server waits for the client")
        place.server.stop()
        await gone(asked)
        await stuffing
        await until(lambda: place.server.over, "the server has gone")
        await client.closed()
    [record] = records(tmp_path)
    assert (record.status, record.cancelled_by) == (Status.CANCELLED, "shutdown")
    assert record.text_chars > 0


CALLS: Final = 200


@pytest.mark.fault("F30")
async def test_the_records_of_a_crowd_are_all_written_before_the_end(tmp_path: Path) -> None:
    """Calls that end in the last moment wait in the writer's queue; stopping waits for the writer."""
    async with placed(tmp_path, none) as place:

        async def call() -> str:
            async with asking(place.server.port, OPENAI.path, talk("scripted", stream=False)) as answer:
                await answer.rest()
                return answer.call_id

        ids = await asyncio.gather(*(call() for _ in range(CALLS)))
        place.server.stop()
        await until(lambda: place.server.over, "the server has gone")
    found = {r.id: r.status for r in records(tmp_path)}
    assert found == dict.fromkeys(ids, Status.COMPLETED)

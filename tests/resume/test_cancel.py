"""A call that runs is stopped by whoever may: its client is told, its upstream is closed, its record says by what."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest

from rivermouth.store.port import Status
from tests.engine.client import Answer, asking, calling
from tests.engine.lab import until
from tests.engine.place import Place, gone, placed
from tests.engine.words import ALL, END, OPENAI, PLAIN, ROLE, Speaks, begin, provider, says, talk
from tests.fakes import Asked
from tests.http.test_reload import asked_of

pytestmark = pytest.mark.anyio

KEYS: Final = """
server.keys = ["key-of-everybody-here"]
[keys.ann]
key = "key-of-ann-number-one"
[keys.bob]
key = "key-of-bob-number-two"
[keys.abe]
key = "key-of-abe-who-audits"
role = "auditor"
[keys.eve]
key = "key-of-eve-the-admin"
role = "admin"
"""
TOLD: Final = "the call was cancelled by request"


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


EVERYBODY, ANN, BOB, ABE, EVE = map(
    bearer,
    (
        "key-of-everybody-here",
        "key-of-ann-number-one",
        "key-of-bob-number-two",
        "key-of-abe-who-audits",
        "key-of-eve-the-admin",
    ),
)


@pytest.fixture(scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    async with placed(tmp_path_factory.mktemp("cancel"), lambda url: KEYS + PLAIN + provider("up", url)) as place:
        yield place


@asynccontextmanager
async def streaming(
    place: Place, speaks: Speaks = OPENAI, key: dict[str, str] = ANN, **more: str
) -> AsyncIterator[tuple[Answer, Asked]]:
    async with calling(place.server.port, speaks.path, talk("up/m"), {**key, **more}) as client:
        asked = await place.asked()
        await begin(asked, ROLE, says("one"))
        answer = await client.answer()
        await answer.until(b"one")
        yield answer, asked


async def cancel(place: Place, call_id: str, key: dict[str, str]) -> tuple[int, Any]:
    path = f"/platform/v1/calls/{call_id}/cancel"
    async with asking(place.server.port, path, None, key) as answer:
        return answer.status, json.loads(await answer.rest())


@pytest.mark.parametrize("resumable", ["0", "1"], ids=["plain", "resumable"])
@pytest.mark.parametrize("speaks", ALL, ids=lambda s: s.name)
async def test_a_stream_ends_in_its_own_words(place: Place, speaks: Speaks, resumable: str) -> None:
    wish = {"x-rivermouth-resumable": resumable}
    async with streaming(place, speaks, **wish) as (answer, asked):
        assert await cancel(place, answer.call_id, ANN) == (202, {"id": answer.call_id, "status": "cancelling"})
        body = await answer.rest()
        await gone(asked)
    assert speaks.failed(body) == TOLD
    assert not speaks.finished(body)
    record = await place.server.record(answer.call_id)
    assert (record.status, record.cancelled_by, record.text_chars) == (Status.CANCELLED, "request", len("one"))
    status, document = await cancel(place, answer.call_id, ANN)
    assert (status, document["error"]["code"]) == (409, "call_ended")


@pytest.mark.parametrize("speaks", ALL, ids=lambda s: s.name)
async def test_before_the_first_byte_it_is_an_http_error(place: Place, speaks: Speaks) -> None:
    async with calling(place.server.port, speaks.path, talk("up/m"), ANN) as client:
        asked = await place.asked()
        (call,) = place.server.on_loop(lambda: [c.id for c in place.server.inside.services.inflight()])
        assert (await cancel(place, call, EVE))[0] == 202
        answer = await client.answer()
        assert speaks.refused(await answer.json()) == TOLD
        assert 400 <= answer.status < 500
        await gone(asked)
    assert (await place.server.record(call)).cancelled_by == "request"


async def test_a_call_that_nobody_reads_is_stopped_too(place: Place) -> None:
    wish = {"x-rivermouth-resumable": "1"}
    async with streaming(place, **wish) as (answer, asked):
        pass
    assert (await cancel(place, answer.call_id, ANN))[0] == 202
    await gone(asked)
    await place.server.record(answer.call_id)
    async with asking(place.server.port, answer.headers["x-rivermouth-resume"], None, ANN, method="GET") as again:
        assert OPENAI.failed(await again.rest()) == TOLD


async def test_who_may(place: Place) -> None:
    """Those who made it, and admins; whoever else is told that there is no such call, and it goes on."""
    async with streaming(place) as (answer, asked):
        for key in (BOB, ABE, EVERYBODY):
            status, document = await cancel(place, answer.call_id, key)
            assert (status, document["error"]["code"]) == (404, "call_not_found")
        assert (await cancel(place, answer.call_id, {}))[0] == 401
        assert place.server.inflight() == 1
        assert (await cancel(place, answer.call_id, EVE))[0] == 202
        assert (await cancel(place, answer.call_id, ANN))[0] in (202, 409), "once more does no harm"
        await gone(asked)
    async with streaming(place, key=EVERYBODY) as (answer, asked):
        assert (await cancel(place, answer.call_id, ANN))[0] == 404
        assert (await cancel(place, answer.call_id, EVERYBODY))[0] == 202
        await gone(asked)


async def test_what_has_ended_is_nobody_elses_business_either(place: Place) -> None:
    async with streaming(place) as (answer, asked):
        await asked.end(END)
        await answer.rest()
    await place.server.record(answer.call_id)
    assert (await cancel(place, answer.call_id, BOB))[0] == 404
    for key in (ANN, EVE):
        assert (await cancel(place, answer.call_id, key))[0] == 409
    assert (await cancel(place, "0" * 32, EVE))[0] == 404
    assert (await place.server.record(answer.call_id)).status is Status.COMPLETED


async def test_a_chat_is_told_too(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Its turn ends with what was said, and may go on with the next."""
    chat = PLAIN + '[chat.models]\nup = "m"\n'
    async with placed(tmp_path_factory.mktemp("chat"), lambda url: chat + provider("up", url)) as place:
        server = place.server
        async with asking(server.port, "/api/chats", {}) as answer:
            path = f"/api/chats/{(await answer.json())['chatId']}/stream"
        async with asking(server.port, path, {"content": "x", "model": "up"}) as stream:
            await asked_of(place.upstream, "one")
            await stream.until(b"one")
            (call,) = server.on_loop(lambda: [c.id for c in server.inside.services.inflight()])
            assert (await cancel(place, call, {}))[0] == 202
            body = await stream.rest()
            assert b'"interrupted":{"type":"unavailable"}' in body
        assert (await server.record(call)).cancelled_by == "request"
        async with asking(server.port, path, {"content": "y", "model": "up"}) as stream:
            await (await asked_of(place.upstream, "two")).end(END)
            assert b'"event":"done"' in await stream.rest()
        await until(lambda: server.inflight() == 0, "nothing runs")

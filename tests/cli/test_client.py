"""The terminal's own client: every bad end of a conversation is an `ApiError`, and leaving is seen by the server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import closing
from typing import Any

import pytest

from rivermouth.cli.client import Client
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.events import Event, Finish, Reason, TextDelta
from rivermouth.ir.request import Message, Request, Role, Text
from rivermouth.secrets import Secret
from rivermouth.wire import json
from tests.fakes import JSON, SSE, Asked, FakeUpstream

pytestmark = pytest.mark.anyio

REQUEST = Request(model="m", messages=(Message(Role.USER, (Text("Hi"),)),), stream=True)
DONE = b"data: [DONE]\n\n"


def chunk(finish: str | None = None, **delta: str) -> bytes:
    """One frame of an OpenAI stream."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: " + json.encode({"id": "c", "object": "chat.completion.chunk", "choices": [choice]}) + b"\n\n"


async def gathered(client: Client) -> list[Event]:
    return await asyncio.to_thread(lambda: list(client.stream(REQUEST)))


async def asked_and(upstream: FakeUpstream, answer: Callable[[Asked], Coroutine[Any, Any, None]], key: str = "") -> Any:
    """The request, after `answer` has dealt with it, and how the client took it."""
    client = asyncio.ensure_future(gathered(Client(upstream.url, Secret(key) if key else None)))
    asked = await upstream.asked()
    await answer(asked)
    return asked, await asyncio.gather(client, return_exceptions=True)


async def test_an_answer_is_read_to_its_end() -> None:
    async def answer(asked: Asked) -> None:
        await asked.head(200, SSE)
        await asked.send(b": ping\n\n" + chunk(role="assistant") + chunk(content="Hel"))
        await asked.end(chunk(content="lo") + chunk("stop") + DONE)

    async with FakeUpstream() as upstream:
        asked, [events] = await asked_and(upstream, answer, key="the-key")
    assert (asked.method, asked.path) == ("POST", "/v1/chat/completions")
    assert asked.headers["authorization"] == "Bearer the-key"
    body = json.decode(asked.body)
    assert (body["model"], body["stream"]) == ("m", True)
    assert body["messages"] == [{"role": "user", "content": "Hi"}]
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == "Hello"
    assert events[-1] == Finish(Reason.STOP)


@pytest.mark.fault("F10")
async def test_a_stream_that_was_cut_is_no_clean_end() -> None:
    async def answer(asked: Asked) -> None:
        await asked.head(200, SSE)
        await asked.end(chunk(role="assistant") + chunk(content="Hel"))

    async with FakeUpstream() as upstream:
        _, [error] = await asked_and(upstream, answer)
    assert isinstance(error, ApiError)
    assert error.kind is Kind.TRUNCATED


async def test_a_connection_that_breaks_in_the_answer_is_a_network_error() -> None:
    async def answer(asked: Asked) -> None:
        await asked.head(200, SSE)
        await asked.send(chunk(content="Hel"))
        asked.reset()

    async with FakeUpstream() as upstream:
        _, [error] = await asked_and(upstream, answer)
    assert isinstance(error, ApiError)
    assert error.kind is Kind.NETWORK
    assert error.message.startswith(f"{upstream.url} does not answer: ")


async def test_an_error_in_the_stream_is_raised_with_its_words() -> None:
    async def answer(asked: Asked) -> None:
        await asked.head(200, SSE)
        await asked.end(b'data: {"error":{"message":"too much","type":"rate_limit_error","code":null}}\n\n')

    async with FakeUpstream() as upstream:
        _, [error] = await asked_and(upstream, answer)
    assert isinstance(error, ApiError)
    assert (error.kind, error.message) == (Kind.RATE_LIMITED, "too much")


async def test_a_refusal_is_raised_with_its_words() -> None:
    async def answer(asked: Asked) -> None:
        await asked.answer(401, JSON, b'{"error":{"message":"no valid API key was given","code":"invalid_api_key"}}')

    async with FakeUpstream() as upstream:
        _, [error] = await asked_and(upstream, answer)
    assert isinstance(error, ApiError)
    assert (error.kind, error.message) == (Kind.AUTHENTICATION, "no valid API key was given")


@pytest.mark.fault("F31")
async def test_leaving_closes_the_socket() -> None:
    first = asyncio.Event()
    loop = asyncio.get_running_loop()

    def reads_one(client: Client) -> None:
        with closing(client.stream(REQUEST)) as events:
            while not isinstance(next(events), TextDelta):
                continue
        loop.call_soon_threadsafe(first.set)

    async with FakeUpstream() as upstream:
        reading = asyncio.ensure_future(asyncio.to_thread(reads_one, Client(upstream.url)))
        asked = await upstream.asked()
        await asked.head(200, SSE)
        await asked.send(chunk(content="Hel"))
        await first.wait()
        await asked.gone()
        await reading


async def test_nobody_there_is_a_network_error() -> None:
    client = Client("http://127.0.0.1:1")
    with pytest.raises(ApiError) as caught:
        await asyncio.to_thread(client.get, "/api/ps")
    assert caught.value.kind is Kind.NETWORK
    assert client.health() is None


async def test_another_server_is_no_rivermouth() -> None:
    async def page(asked: Asked) -> None:
        await asked.answer(200, "text/html", b"<html>")

    async with FakeUpstream(page) as upstream:
        client = Client(upstream.url)
        assert await asyncio.to_thread(client.health) is None
        with pytest.raises(ApiError) as caught:
            await asyncio.to_thread(client.get, "/api/ps")
    assert caught.value.kind is Kind.UPSTREAM


@pytest.mark.parametrize("url", ["127.0.0.1:8080", "ftp://127.0.0.1", "http://", "http://127.0.0.1:port"])
def test_what_is_no_address_is_a_sentence(url: str) -> None:
    with pytest.raises(ApiError) as caught:
        Client(url)
    assert caught.value.kind is Kind.INVALID_REQUEST


async def test_a_server_below_a_path_is_asked_there() -> None:
    async def answer(asked: Asked) -> None:
        await asked.answer(200, JSON, b'{"models":[]}')

    async with FakeUpstream(answer) as upstream:
        assert await asyncio.to_thread(Client(upstream.url + "/ai/").get, "/api/ps") == {"models": []}
    assert upstream.requests[0].path == "/ai/api/ps"

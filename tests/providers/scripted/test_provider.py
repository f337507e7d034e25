"""The scripted models behind the provider port: piece by piece, at the pace of a given sleep."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.events import ArgsDelta, Error, Event, Finish, ReasoningDelta, TextDelta
from rivermouth.ir.request import EmbedRequest, Message, Request, Role, Sampling, Text
from rivermouth.providers.provider import Provider, Upstream
from rivermouth.providers.scripted import PERSONAS, ScriptedProvider, script
from rivermouth.providers.scripted.words import count_tokens

pytestmark = pytest.mark.anyio

REQUEST = Request(model="scripted", messages=(Message(Role.USER, (Text("Hello"),)),))


class FakeSleep:
    """Notes how long was asked for, and waits for nothing."""

    def __init__(self) -> None:
        self.asked_s: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.asked_s.append(seconds)


async def opened(model: str, request: Request = REQUEST, **fields: Any) -> Upstream:
    provider: Provider = ScriptedProvider(**fields)
    await provider.prepare(request, model)
    return await provider.open(request, model, same_dialect=False, warn=lambda name: None)


@pytest.mark.promise(174)
@pytest.mark.parametrize("model", [m for m, persona in PERSONAS.items() if not persona.embeds])
async def test_each_read_brings_one_token(model: str) -> None:
    upstream = await opened(model, sleep=FakeSleep())
    events: list[Event] = []
    while not (events and isinstance(events[-1], Finish | Error)):
        batch = await upstream.read()
        assert batch.events
        assert sum(isinstance(e, TextDelta | ReasoningDelta | ArgsDelta) for e in batch.events) <= 1
        events += batch.events
    assert events == script(REQUEST, model)
    assert (await upstream.read()).events == []
    await upstream.close()


async def test_slow_waits_fifty_milliseconds_before_each_token() -> None:
    sleep = FakeSleep()
    upstream = await opened("scripted-slow", sleep=sleep)
    while not any(isinstance(e, Finish) for e in (await upstream.read()).events):
        pass
    assert sleep.asked_s == [0.05] * 601


@pytest.mark.fault("F34")
async def test_the_others_let_the_loop_run_between_tokens() -> None:
    sleep = FakeSleep()
    upstream = await opened("scripted", sleep=sleep)
    await upstream.read()
    assert sleep.asked_s == [0.0]


async def test_a_read_that_is_cancelled_loses_nothing() -> None:
    upstream = await opened("scripted")
    reading = asyncio.create_task(upstream.read())
    await asyncio.sleep(0)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    first = (await upstream.read()).events
    assert first == script(REQUEST, "scripted")[: len(first)]


@pytest.mark.fault("F31")
async def test_nothing_comes_after_close() -> None:
    upstream = await opened("scripted")
    await upstream.read()
    await upstream.close()
    await upstream.close()
    assert (await upstream.read()).events == []


async def test_what_changes_nothing_is_named_and_a_seed_is_not() -> None:
    request = Request(model="x", messages=REQUEST.messages, sampling=Sampling(temperature=0.5, seed=3, top_k=4))
    told: list[str] = []
    await ScriptedProvider().open(request, "scripted", same_dialect=False, warn=told.append)
    assert told == ["temperature", "top_k"]


@pytest.mark.promise(76)
async def test_embed_gives_a_vector_for_each_input() -> None:
    provider = ScriptedProvider()
    request = EmbedRequest(model="scripted-embed", input=("a b", "c", "a b"))
    await provider.prepare(request, "scripted-embed")
    reply = await provider.embed(request, "scripted-embed", warn=print)
    assert [len(v) for v in reply.vectors] == [384] * 3
    assert reply.vectors[0] == reply.vectors[2] != reply.vectors[1]
    assert reply.input_tokens == sum(map(count_tokens, request.input))


@pytest.mark.parametrize("model", ["scripted", "scripted-think", "absent"])
async def test_the_others_have_no_embeddings(model: str) -> None:
    request = EmbedRequest(model=model, input=("a",))
    for attempt in (ScriptedProvider().prepare(request, model), ScriptedProvider().embed(request, model, warn=print)):
        with pytest.raises(ApiError) as caught:
            await attempt
        assert caught.value.kind is Kind.NOT_FOUND


async def test_the_models() -> None:
    provider = ScriptedProvider()
    listed = {m.id: m.capabilities for m in await provider.models()}
    assert list(listed) == list(PERSONAS)
    assert [name for name, able in listed.items() if "embedding" in able] == ["scripted-embed"]
    assert (provider.name, provider.dialect) == ("scripted", None)
    await provider.close()

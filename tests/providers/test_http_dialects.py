"""The transport with every real dialect: streams and documents, asked and unasked, relayed and translated."""

from __future__ import annotations

import asyncio
from itertools import product

import pytest

from rivermouth.dialects import discover
from rivermouth.dialects.dialect import Dialect
from rivermouth.ir.events import Event, Finish, PartEnd, PartKind, PartStart, Reason, Start, TextDelta, Usage
from rivermouth.ir.fold import fold
from rivermouth.ir.grammar import Grammar
from rivermouth.ir.request import Message, Request, Role, Text
from rivermouth.providers.http import HttpProvider, HttpTarget
from rivermouth.providers.provider import Batch
from tests.dialects.conformance import DIALECTS, answer, decoded, encoded
from tests.fakes import JSON, Asked, FakeUpstream

pytestmark = pytest.mark.anyio

SAID: list[Event] = [
    Start("u", "m", 7),
    PartStart(0, PartKind.TEXT),
    TextDelta(0, "hé"),
    TextDelta(0, "llo"),
    PartEnd(0),
    Usage(3, 2),
    Finish(Reason.STOP),
]


def ignore(field: str) -> None:
    """A `warn` for tests that look at something else."""


async def batches(dialect: Dialect, asked_stream: bool, answers_stream: bool, same: bool, media: str) -> list[Batch]:
    """What a provider of this dialect makes of an answer in one form to a call in another."""
    body = encoded(dialect, SAID) if answers_stream else dialect.encode_reply(fold(SAID), answer(dialect))

    async def script(asked: Asked) -> None:
        await asked.head(200, media)
        for i in range(0, len(body), 50):
            await asked.send(body[i : i + 50])
        await asked.end()

    request = Request(model="m", messages=(Message(Role.USER, (Text("hi"),)),), stream=asked_stream)
    async with FakeUpstream(script) as fake:
        provider = HttpProvider(HttpTarget(name="lab", dialect=dialect, base_url=fake.url, api_key="k-123456"))
        upstream = await provider.open(request, "m", same_dialect=same, warn=ignore)
        grammar, found = Grammar(), []
        while not grammar.done:
            batch = await upstream.read()
            grammar.feed_all(batch.events)
            found.append(batch)
        await upstream.close()
        await provider.close()
    return found


@pytest.mark.fault("F7")
@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize(("asked_stream", "answers_stream", "same"), list(product([True, False], repeat=3)))
async def test_what_the_upstream_says_is_understood_in_either_form(
    name: str, asked_stream: bool, answers_stream: bool, same: bool
) -> None:
    dialect = discover()[name]
    media = dialect.surfaces[0].stream_type if answers_stream else JSON
    found = await batches(dialect, asked_stream, answers_stream, same, media)
    reply = fold([event for batch in found for event in batch.events])
    assert reply.choices[0].text == "héllo"
    assert reply.usage is not None
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (3, 2)
    if same and asked_stream and dialect.relay is not None:
        relay = dialect.relay(answer(dialect))
        out = b""
        for batch in found:
            assert batch.frames is not None
            done = 0
            for frame, count in batch.frames:
                out += relay.feed(frame, batch.events[done : done + count])
                done += count
        assert fold(decoded(dialect, out)).choices[0].text == "héllo"
    elif same and not asked_stream and not answers_stream:
        assert found[-1].body == dialect.encode_reply(fold(SAID), answer(dialect))
    elif same and not asked_stream and media == JSON and dialect.relay_reply is not None:
        assert found[-1].body is not None  # one media type for both (R1, R21): the dialect tells them apart
        passed = dialect.relay_reply(found[-1].body, answer(dialect))
        assert len(passed.splitlines()) == 1
        assert dialect.parse_reply(passed).choices[0].text == "héllo"
    else:
        assert all(batch.frames is None and batch.body is None for batch in found)


@pytest.mark.fault("F7")
@pytest.mark.parametrize("name", DIALECTS)
async def test_a_stream_under_any_name_that_its_surfaces_use_is_a_stream(name: str) -> None:
    dialect = discover()[name]
    for surface in dialect.surfaces:
        found = await batches(dialect, True, True, False, surface.stream_type)
        assert fold([event for batch in found for event in batch.events]).choices[0].text == "héllo"
    await asyncio.sleep(0)

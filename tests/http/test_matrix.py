"""Every dialect over every dialect through two whole servers: sockets, routes, engine, transport, records.

    client -> front -> (an upstream of each dialect) -> back, which runs the scripted models
    client -> back                                        what it is compared with

A client here is the dialect's own other half: what `build_request` writes is sent, what `decoder` reads is heard.  The
vendors' SDKs have matrices of their own in `tests/sdk`.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import msgspec
import pytest

from rivermouth.dialects import discover
from rivermouth.dialects.dialect import Operation, Outgoing
from rivermouth.ir.errors import ApiError
from rivermouth.ir.events import Error, Event, Finish, PartKind, TextDelta
from rivermouth.ir.fold import unfold
from rivermouth.ir.request import (
    EmbedRequest,
    Format,
    Image,
    Message,
    Request,
    ResponseFormat,
    Role,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
)
from rivermouth.store.port import Status
from tests.dialects.conformance import DIALECTS, Carries, Decoded, carries, counted_alike, only_error, said
from tests.dialects.test_matrix import both
from tests.engine.client import Client, connected
from tests.engine.lab import Lab, lab
from tests.goldens.cases import PIXEL, SCHEMA
from tests.thorough import THOROUGH

pytestmark = pytest.mark.anyio

BASES: Final[dict[str, str]] = {
    "openai_chat": "/v1",
    "openai_completions": "/v1",
    "openai_responses": "/v1",
    "anthropic": "/v1",
    "ollama": "/api",
    "gemini": "/gemini/v1beta",
    "cohere_v1": "/cohere/v1",
    "cohere_v2": "/cohere/v2",
    "tgi": "/tgi",
    "bedrock_converse": "/bedrock",
    "bedrock_invoke": "/bedrock",
}
"""What stands before the paths that a dialect builds: the end of a provider's base_url."""

SAYS: Final = {"anthropic": {"anthropic-version": "2023-06-01"}}
"""Headers by which a server knows whose client it is."""

clients = pytest.mark.parametrize("client", DIALECTS)
ways = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
WEATHER: Final = Tool("weather", "Today's", SCHEMA)
ROOM: Final = 4000


def asking(text: str, *parts: Any, **more: Any) -> Request:
    message = Message(Role.USER, (Text(text), *parts))
    return Request(**{"model": "", "messages": (message,), "max_tokens": ROOM, "include_usage": True, **more})


ASKS: Final[dict[str, Request]] = {
    "text": asking("Hi \u2028 cafe\u0301 😀"),
    "system": asking("Hi", system=(Text("Be brief."),)),
    "tool": asking("Hi", tools=(WEATHER,)),
    "parallel tools": asking("Try both tools.", tools=(WEATHER,)),
    "tool results": msgspec.structs.replace(
        asking("Try both tools.", tools=(WEATHER,)),
        messages=(
            Message(Role.USER, (Text("Try both tools."),)),
            Message(
                Role.ASSISTANT,
                (ToolCall("call_1", "weather", '{"city":"a"}'), ToolCall("call_2", "weather", '{"city":"b"}')),
            ),
            Message(Role.TOOL, (ToolResult("call_1", (Text("rain"),)), ToolResult("call_2", (Text("sun"),)))),
        ),
    ),
    "reasoning": asking("Hi", thinking=Thinking(effort="low")),
    "image": asking("Look", Image("image/png", PIXEL)),
    "json schema": asking("Hi", response_format=ResponseFormat(Format.JSON_SCHEMA, SCHEMA, "place")),
    "stop": asking("Hi", stop=("scripted",)),
    "length": asking("Hi", max_tokens=3),
}  # fmt: skip


class Heard(NamedTuple):
    status: int
    events: list[Event]
    headers: dict[str, str]


@pytest.fixture(scope="module")
def back(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with lab(tmp_path_factory.mktemp("back"), "[resilience]\nretries = 0\ncooldown = false\n") as server:
        yield server


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory, back: Lab) -> Iterator[Lab]:
    config = "[resilience]\nretries = 0\ncooldown = false\n"
    for name, base in BASES.items():
        config += f'[providers.{name}]\ndialect = "{name}"\nbase_url = "{back.url}{base}"\n'
    with lab(tmp_path_factory.mktemp("front"), config, scripted=False) as server:
        yield server


async def post(client: Client, dialect: str, outgoing: Outgoing) -> tuple[int, dict[str, str], bytes]:
    headers = {"content-type": "application/json", **outgoing.headers, **SAYS.get(dialect, {})}
    answer = await client.ask("POST", BASES[dialect] + outgoing.path, outgoing.body, headers)
    return answer.status, answer.headers, await answer.rest()


async def ask(client: Client, name: str, request: Request, model: str) -> Heard:
    """What a client of the dialect hears; a request that its own protocol cannot say raises `ApiError`."""
    dialect = discover()[name]
    request = msgspec.structs.replace(request, model=model)
    status, headers, body = await post(client, name, dialect.build_request(request, model))
    if status != 200:
        return Heard(status, [Error(dialect.parse_error(status, headers, body))], headers)
    if not request.stream:
        assert headers["content-type"].startswith("application/json")
        return Heard(status, unfold(dialect.parse_reply(body)), headers)
    reader = Decoded(dialect, request)
    return Heard(status, [*reader.feed(body), *reader.eof()], headers)


def less(client: str, upstream: str) -> Carries:
    return both(carries(upstream), carries(client))


@clients
@ways
@pytest.mark.parametrize("case", ASKS)
@pytest.mark.thorough(quick=True)
@pytest.mark.promise(137)
@pytest.mark.fault("F7", "F19", "F23", "F24", "F25", "F27")
async def test_the_answer_is_the_same(front: Lab, back: Lab, client: str, case: str, stream: bool) -> None:
    request = msgspec.structs.replace(ASKS[case], stream=stream)
    try:
        discover()[client].build_request(request, "m")
    except ApiError:
        assert (client, case) in CANNOT_ASK
        return
    async with connected(back.port) as direct, connected(front.port) as through:
        want = await ask(direct, client, request, "scripted")
        assert want.status == 200
        for upstream in chosen(client, case, stream):
            seen = await ask(through, client, request, f"{upstream}/scripted")
            if (upstream, case) in CANNOT_ASK:
                assert seen.status in (400, 422), upstream
                continue
            can = less(client, upstream)
            assert seen.status == 200, upstream
            ignored = set(filter(None, seen.headers.get("x-rivermouth-ignored", "").split(", ")))
            assert ignored <= discover()[upstream].losses | {"stream_options", "max_tokens"}, upstream
            if (upstream, case) in ASKS_OTHERWISE:
                assert isinstance(seen.events[-1], Finish), upstream
                continue
            assert _meant(said(seen.events, can)) == _meant(said(want.events, can)), upstream
            if not ignored:
                assert counted_alike(seen.events, want.events, can), upstream


CANNOT_ASK: Final = {
    ("cohere_v1", "image"),
    *(("openai_completions", case) for case in ("tool", "parallel tools", "tool results", "image", "json schema")),
}
"""Wishes without which the answer would be wrong, and for which a protocol has no place."""
ASKS_OTHERWISE: Final = {("openai_responses", "stop"), ("openai_completions", "system")}
"""Wishes that the scripted model is told in other words, or not at all, and so answers in others."""


def upstreams_of(client: str) -> list[str]:
    """Those that a client can choose by its model: a text without a talk goes to where TGI's protocol names none."""
    return [name for name in DIALECTS if (client, name) != ("openai_completions", "tgi")]


EVERY: Final = 3


def chosen(client: str, case: str, stream: bool) -> list[str]:
    """Every upstream for the plainest case; for each other one in three, by turns.

    The matrix of the codecs has every case over every pair, and `make fault` asks for all of it here too.
    """
    if THOROUGH or case == "text":
        return upstreams_of(client)
    turn = DIALECTS.index(client) + [*ASKS].index(case) + stream
    return [name for i, name in enumerate(upstreams_of(client)) if (i + turn) % EVERY == 0]


def test_in_the_quick_run_every_pair_and_every_case_of_each_upstream_are_asked_for() -> None:
    asked = [(c, case, u) for c in DIALECTS for case in ASKS for way in (True, False) for u in chosen(c, case, way)]
    assert {(c, u) for c, _, u in asked} == {(c, u) for c in DIALECTS for u in upstreams_of(c)}
    assert {(case, u) for _, case, u in asked} == {(case, u) for case in ASKS for u in DIALECTS}


def _meant(choices: list[Any]) -> list[Any]:
    """The ids of calls are made anew on the way where a protocol has none."""
    for choice in choices:
        choice.parts = [(p[0], *p[2:]) if p[0] is PartKind.TOOL else p for p in choice.parts]
    return choices


@clients
@pytest.mark.promise(4, 5, 18, 19)
@pytest.mark.fault("F10", "F11", "F14", "F16")
async def test_a_failure_in_the_answer_is_one_bad_end(front: Lab, client: str) -> None:
    async with connected(front.port) as through:
        for upstream in upstreams_of(client):
            seen = await ask(through, client, asking("Hi", stream=True), f"{upstream}/scripted-error")
            assert seen.status == 200, upstream
            assert "fails after 5 tokens" in only_error(seen.events).error.message, upstream
            assert "".join(e.text for e in seen.events if isinstance(e, TextDelta)) == 'You said: "Hi". This is'
            record = await front.record(seen.headers["x-request-id"])
            assert (record.status, record.dialect, record.provider) == (Status.FAILED, client, upstream)
            whole = await ask(through, client, asking("Hi"), f"{upstream}/scripted-error")
            assert whole.status in (424, 502), upstream


@clients
@ways
@pytest.mark.fault("F12", "F15")
async def test_a_failure_before_the_answer_keeps_its_kind(front: Lab, client: str, stream: bool) -> None:
    request = asking("Hi", stream=stream)
    async with connected(front.port) as through:
        for upstream in upstreams_of(client):
            nobody = await ask(through, client, request, f"{upstream}/nobody")
            assert nobody.status == 404, upstream
            assert "nobody" in only_error(nobody.events).error.message, upstream
            empty = await ask(through, client, request, f"{upstream}/scripted-empty")
            assert empty.status in (424, 502), upstream


EMBEDS: Final = [n for n, d in discover().items() if d.parse_embed is not None and d.build_embed is not None]


@pytest.mark.parametrize("client", EMBEDS)
async def test_vectors_are_the_same(front: Lab, back: Lab, client: str) -> None:
    dialect = discover()[client]
    assert dialect.build_embed is not None
    assert dialect.parse_embed_reply is not None
    vectors = []
    async with connected(back.port) as direct, connected(front.port) as through:
        for to, name in [(direct, "scripted-embed"), *((through, f"{u}/scripted-embed") for u in EMBEDS)]:
            status, _, body = await post(
                to, client, dialect.build_embed(EmbedRequest(model=name, input=("river",)), name)
            )
            assert status == 200, (name, body)
            (vector,) = dialect.parse_embed_reply(body).vectors
            vectors.append(pytest.approx(vector, abs=1e-6))
    assert all(vectors[0].expected == each for each in vectors[1:])


LISTS: Final = [n for n, d in discover().items() if d.parse_models is not None and d.encode_models is not None]


@pytest.mark.parametrize("client", LISTS)
async def test_models_of_every_upstream_are_listed(front: Lab, client: str) -> None:
    dialect = discover()[client]
    assert dialect.parse_models is not None
    async with connected(front.port) as through:
        answer = await through.ask("GET", BASES[client] + dialect.models_path, None, SAYS.get(client))
        listed = {model.id for model in dialect.parse_models(await answer.rest())}
    assert {f"{upstream}/scripted" for upstream in LISTS} <= listed


COUNTS: Final = [n for n, d in discover().items() if any(r.operation is Operation.COUNT_TOKENS for r in d.routes)]


@pytest.mark.parametrize("client", COUNTS)
async def test_tokens_are_counted_whoever_is_asked_in_the_end(front: Lab, back: Lab, client: str) -> None:
    dialect = discover()[client]
    (route,) = (r for r in dialect.routes if r.operation is Operation.COUNT_TOKENS)
    answers = set()
    async with connected(back.port) as direct, connected(front.port) as through:
        for to, model in [(direct, "scripted"), *((through, f"{upstream}/scripted") for upstream in DIALECTS)]:
            body = dialect.build_request(asking("How many are these?"), model).body
            if client == "bedrock_invoke":
                body = json.dumps({"input": {"invokeModel": {"body": b64encode(body).decode()}}}).encode()
            prefix = next(s.prefix for s in dialect.surfaces if s.prefix.startswith(BASES[client]))
            path = prefix + route.path.replace("{model}", quote(model, safe=""))
            answer = await to.ask("POST", path, body, SAYS.get(client))
            assert answer.status == 200, (model, answer.body)
            answers.add(await answer.rest())
    assert len(answers) == 1


def test_every_dialect_has_its_base() -> None:
    assert set(BASES) == set(DIALECTS)

"""What the vendor's own SDK makes of our bytes, and what we make of its requests.

No socket is opened, but for one transport of the SDK's: with aiohttp it reads lines by code of its own.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import httpx2
import pytest
from google import genai
from google.genai import errors, types
from hypothesis import HealthCheck, given, settings

from rivermouth.dialects.gemini import DIALECT
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.events import (
    ArgsDelta,
    Error,
    Event,
    Finish,
    PartEnd,
    PartKind,
    PartStart,
    Reason,
    ReasoningDelta,
    Signature,
    Start,
    TextDelta,
    Usage,
)
from rivermouth.ir.fold import fold
from rivermouth.ir.reply import EmbedReply, ModelInfo
from rivermouth.ir.request import (
    Choose,
    Image,
    Message,
    Reasoning,
    Request,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolChoice,
    ToolResult,
)
from tests.dialects.gemini.case import SSE, answer, encode, get_route, route
from tests.strategies import event_streams

pytestmark = pytest.mark.anyio

NASTY = 'a\u2028b\x85c "\\ 🗼'
EVENTS: list[Event] = [
    Start(),
    PartStart(0, PartKind.REASONING),
    ReasoningDelta(0, "hm"),
    Signature(0, "anthropic:EqQB+/=="),
    PartEnd(0),
    PartStart(1, PartKind.TEXT),
    TextDelta(1, "Hi "),
    TextDelta(1, NASTY),
    PartEnd(1),
    PartStart(2, PartKind.TOOL, 0, "c1", "weather"),
    ArgsDelta(2, '{"city": "\u2028"}'),
    PartEnd(2),
    Usage(12, 7, 4, 0, 3),
    Finish(Reason.TOOL_CALLS),
]
TEXT: list[Event] = [
    Start(),
    PartStart(0, PartKind.TEXT),
    TextDelta(0, "So "),
    TextDelta(0, "it is."),
    PartEnd(0),
    Usage(3, 2),
    Finish(Reason.STOP),
]

Handler = Callable[[httpx2.Request], httpx2.Response]


class Case:
    """A client whose requests are kept and answered with these bodies, one after the other, the last for ever."""

    def __init__(self, *bodies: bytes, status: int = 200, kind: str = SSE.stream_type, **options: Any) -> None:
        self.sent: list[httpx2.Request] = []
        self._bodies, self._status, self._kind = list(bodies), status, kind
        transport = httpx2.MockTransport(self._answer)
        self.client = genai.Client(
            api_key="k-1",
            http_options=types.HttpOptions(
                base_url="http://127.0.0.1:1/gemini",
                httpx_client=httpx2.Client(transport=transport),
                httpx_async_client=httpx2.AsyncClient(transport=transport),
                **options,
            ),
        )

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        self.sent.append(request)
        body = self._bodies.pop(0) if len(self._bodies) > 1 else self._bodies[0]
        return httpx2.Response(self._status, content=body, headers={"content-type": self._kind})

    def parsed(self, number: int = -1) -> Request:
        """What a request means, by the route and the model of its path."""
        request = self.sent[number]
        path = request.url.raw_path.decode().partition("?")[0]
        model, _, method = path.partition("/models/")[2].rpartition(":")
        return DIALECT.parse_request(request.content, route(method), model)


def document(events: list[Event]) -> bytes:
    return DIALECT.encode_reply(fold(events), answer())


def joined(chunks: list[Any], *, thought: bool) -> str:
    parts = [p for c in chunks for p in c.candidates[0].content.parts]
    return "".join(p.text or "" for p in parts if bool(p.thought) is thought)


@pytest.mark.promise(157, 158, 159)
@pytest.mark.fault("F5")
def test_a_stream() -> None:
    case = Case(encode(EVENTS))
    chunks = list(case.client.models.generate_content_stream(model="lab/gpt-x", contents="Hi"))
    assert (joined(chunks, thought=False), joined(chunks, thought=True)) == ("Hi " + NASTY, "hm")
    (call,) = [c for chunk in chunks for c in chunk.function_calls or []]
    assert (call.id, call.name, call.args) == ("c1", "weather", {"city": "\u2028"})
    assert [c.candidates[0].finish_reason for c in chunks] == [None] * 5 + [types.FinishReason.STOP]  # type: ignore[index]
    last = chunks[-1]
    assert (last.model_version, last.response_id) == ("gpt-x", "01J")
    usage = last.usage_metadata
    assert usage is not None
    assert (usage.prompt_token_count, usage.candidates_token_count, usage.thoughts_token_count) == (12, 4, 3)
    assert (usage.cached_content_token_count, usage.total_token_count) == (4, 19)
    (sent,) = case.sent
    assert str(sent.url) == "http://127.0.0.1:1/gemini/v1/models/lab/gpt-x:streamGenerateContent?alt=sse"
    assert [sent.headers.get(k.header) for k in DIALECT.keys if k.header] == ["k-1", None]


@pytest.mark.promise(158)
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(event_streams(noise=True))
def test_the_sdk_gathers_what_the_events_say(events: list[Event]) -> None:
    want = fold(events).choices[0]
    chunks = list(Case(encode(events)).client.models.generate_content_stream(model="m", contents="Hi"))
    assert joined(chunks, thought=False) == want.text
    assert joined(chunks, thought=True) == "".join(p.text for p in want.parts if isinstance(p, Reasoning))
    calls = [c for chunk in chunks for c in chunk.function_calls or []]
    assert sorted((c.id, c.name, json.dumps(c.args)) for c in calls) == sorted(
        (p.id, p.name, json.dumps(json.loads(p.arguments))) for p in want.parts if isinstance(p, ToolCall)
    )


def test_a_whole_reply() -> None:
    case = Case(document(EVENTS), kind="application/json")
    reply = case.client.models.generate_content(model="m", contents="Hi")
    assert "".join(p.text or "" for p in reply.parts or [] if not p.thought) == "Hi " + NASTY
    assert [c.args for c in reply.function_calls or []] == [{"city": "\u2028"}]
    assert case.sent[0].url.path == "/gemini/v1/models/m:generateContent"
    assert not case.parsed().stream


@pytest.mark.parametrize("version", ["v1beta", "v1alpha", ""])
def test_every_version_has_a_surface(version: str) -> None:
    prefix = f"/gemini/{version}".rstrip("/")
    case = Case(document(TEXT), kind="application/json", api_version=version)
    assert case.client.models.generate_content(model="m", contents="Hi").text == "So it is."
    assert case.sent[0].url.path == f"{prefix}/models/m:generateContent"
    assert prefix in {s.prefix for s in DIALECT.surfaces}


@pytest.mark.fault("F21", "F25")
def test_a_chat_keeps_its_turns_and_sends_back_what_it_was_given() -> None:
    case = Case(encode(EVENTS), encode(TEXT))
    chat = case.client.chats.create(model="m", config=types.GenerateContentConfig(system_instruction="Be brief."))
    list(chat.send_message_stream("Hi"))
    assert len(chat.get_history(curated=True)) == len(chat.get_history())
    result = types.Part(function_response=types.FunctionResponse(id="c1", name="weather", response={"output": "rain"}))
    list(chat.send_message_stream([result, types.Part(text="So?")]))
    request = case.parsed()
    assert request.system == (Text("Be brief."),)
    assert request.messages == (
        Message(Role.USER, (Text("Hi"),)),
        Message(
            Role.ASSISTANT,
            (
                Reasoning("hm", "anthropic:EqQB+/=="),
                Text("Hi " + NASTY),
                ToolCall("c1", "weather", r'{"city":"\u2028"}'),
            ),
        ),
        Message(Role.TOOL, (ToolResult("c1", (Text("rain"),), name="weather"),)),
        Message(Role.USER, (Text("So?"),)),
    )
    assert len(chat.get_history(curated=True)) == len(chat.get_history())


def test_functions_that_the_sdk_calls_by_itself() -> None:
    def weather(city: str) -> str:
        """Today's weather."""
        return f"rain in {len(city)}"

    case = Case(document(EVENTS), document(TEXT), kind="application/json")
    config = types.GenerateContentConfig(tools=[weather])
    assert case.client.models.generate_content(model="m", contents="Hi", config=config).text == "So it is."
    first, second = case.parsed(0), case.parsed(1)
    (tool,) = first.tools
    assert (tool.name, tool.description) == ("weather", "Today's weather.")
    assert tool.parameters["properties"] == {"city": {"type": "string"}}
    assert second.messages[-1] == Message(Role.TOOL, (ToolResult("c1", (Text("rain in 1"),), name="weather"),))


def test_a_full_configuration_is_read() -> None:
    case = Case(document(TEXT), kind="application/json")
    function = types.FunctionDeclaration(name="f", parameters_json_schema={"type": "object", "properties": {"a": {}}})
    case.client.models.generate_content(
        model="m",
        contents=["What is this?", types.Part.from_bytes(data=b"\xfb\xff\xfe", mime_type="image/png")],
        config=types.GenerateContentConfig(
            temperature=0.5,
            top_k=3,
            candidate_count=1,
            max_output_tokens=9,
            stop_sequences=["X"],
            response_mime_type="application/json",
            response_schema=types.Schema(
                type=types.Type.OBJECT, properties={"a": types.Schema(type=types.Type.STRING)}
            ),
            thinking_config=types.ThinkingConfig(thinking_level=types.ThinkingLevel.HIGH, include_thoughts=True),
            tools=[types.Tool(function_declarations=[function]), types.Tool(google_search=types.GoogleSearch())],
            tool_config=types.ToolConfig(
                function_calling_config=types.FunctionCallingConfig(
                    mode=types.FunctionCallingConfigMode.ANY, allowed_function_names=["f"]
                )
            ),
            automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
        ),
    )
    request = case.parsed()
    assert request.messages[0].parts == (Text("What is this?"), Image("image/png", "+//+"))
    assert (request.max_tokens, request.stop, request.sampling.top_k) == (9, ("X",), 3)
    assert request.response_format is not None
    assert request.response_format.schema == {"type": "object", "properties": {"a": {"type": "string"}}}
    assert request.thinking == Thinking(effort="high")
    assert request.tool_choice == ToolChoice(Choose.NAMED, "f")
    assert request.unmodelled == ("tools.googleSearch",)


@pytest.mark.fault("F14")
def test_an_error_in_the_stream_is_raised_with_its_code_and_status() -> None:
    case = Case(encode([*TEXT[:3], Error(ApiError(Kind.OVERLOADED, "busy"))]))
    stream = case.client.models.generate_content_stream(model="m", contents="Hi")
    assert next(stream).text == "So "
    with pytest.raises(errors.ServerError) as caught:
        next(stream)
    assert (caught.value.code, caught.value.status, caught.value.message) == (503, "UNAVAILABLE", "busy")


ERRORS = [
    (Kind.INVALID_REQUEST, errors.ClientError, 400, "INVALID_ARGUMENT"),
    (Kind.AUTHENTICATION, errors.ClientError, 401, "UNAUTHENTICATED"),
    (Kind.NOT_FOUND, errors.ClientError, 404, "NOT_FOUND"),
    (Kind.RATE_LIMITED, errors.ClientError, 429, "RESOURCE_EXHAUSTED"),
    (Kind.TRUNCATED, errors.ServerError, 502, "DATA_LOSS"),
    (Kind.OVERLOADED, errors.ServerError, 503, "UNAVAILABLE"),
]


@pytest.mark.fault("F15")
@pytest.mark.parametrize(("kind", "raises", "code", "status"), ERRORS)
@pytest.mark.parametrize("stream", [True, False])
def test_errors_before_the_stream_are_the_sdks_own(
    kind: Kind, raises: type[errors.APIError], code: int, status: str, stream: bool
) -> None:
    failure = DIALECT.encode_error(ApiError(kind, "what happened"), "01J")
    case = Case(failure.body, status=failure.status, kind="application/json")
    models = case.client.models
    ask = (lambda **asked: list(models.generate_content_stream(**asked))) if stream else models.generate_content
    with pytest.raises(raises) as caught:
        ask(model="m", contents="Hi")
    assert (caught.value.code, caught.value.status, caught.value.message) == (code, status, "what happened")


def test_counts_embeddings_and_models() -> None:
    assert DIALECT.encode_count is not None
    counting = Case(DIALECT.encode_count(7), kind="application/json")
    assert counting.client.models.count_tokens(model="m", contents="Hi").total_tokens == 7
    assert counting.parsed().messages == (Message(Role.USER, (Text("Hi"),)),)

    assert DIALECT.parse_embed is not None
    assert DIALECT.encode_embed is not None
    case = Case(b'{"embeddings":[{"values":[0.5]},{"values":[1.5]}]}', kind="application/json")
    config = types.EmbedContentConfig(output_dimensionality=1)
    case.client.models.embed_content(model="m", contents=["a", "b"], config=config)
    asked = DIALECT.parse_embed(case.sent[0].content, route("batchEmbedContents"), "m")
    assert (asked.input, asked.dimensions) == (("a", "b"), 1)
    body = DIALECT.encode_embed(EmbedReply(model="m", vectors=((0.5,), (1.5,))), asked, answer())
    reply = Case(body, kind="application/json").client.models.embed_content(model="m", contents=["a", "b"])
    assert [e.values for e in reply.embeddings or []] == [[0.5], [1.5]]

    listed = [ModelInfo(id="lab/x", owner="lab", context_tokens=99)]
    assert DIALECT.encode_models is not None
    assert DIALECT.encode_model is not None
    listing = Case(DIALECT.encode_models(listed, get_route("/models")), kind="application/json")
    (found,) = listing.client.models.list()
    assert (found.name, found.display_name, found.input_token_limit) == ("models/lab/x", "lab/x", 99)
    one = Case(DIALECT.encode_model(listed[0], get_route("/models/{model}")), kind="application/json")
    assert one.client.models.get(model="lab/x").name == "models/lab/x"
    assert one.sent[0].url.path == "/gemini/v1/models/lab/x"


async def test_the_asynchronous_client() -> None:
    case = Case(encode(EVENTS))
    chunks = [c async for c in await case.client.aio.models.generate_content_stream(model="m", contents="Hi")]
    assert joined(chunks, thought=False) == "Hi " + NASTY
    chat = Case(encode(TEXT)).client.aio.chats.create(model="m")
    pieces = [c.text async for c in await chat.send_message_stream("Hi")]
    assert "".join(p or "" for p in pieces) == "So it is."
    failing = Case(encode([*TEXT[:3], Error(ApiError(Kind.RATE_LIMITED, "slow"))]))
    with pytest.raises(errors.ClientError) as caught:
        [c async for c in await failing.client.aio.models.generate_content_stream(model="m", contents="Hi")]
    assert (caught.value.code, caught.value.status) == (429, "RESOURCE_EXHAUSTED")


@asynccontextmanager
async def served(status: int, kind: str, pieces: list[bytes]) -> AsyncIterator[genai.Client]:
    """The SDK over aiohttp, against a server that answers any request so, each piece by itself."""

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(next(h for h in head.lower().split(b"\r\n") if h.startswith(b"content-length:")).split(b":")[1])
        await reader.readexactly(length)
        opening = f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n"
        writer.write(opening.encode())
        for piece in [p for p in pieces if p]:
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(respond, "127.0.0.1", 0)
    base = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/gemini"
    async with server, aiohttp.ClientSession() as session:
        yield genai.Client(api_key="k", http_options=types.HttpOptions(base_url=base, aiohttp_client=session))


@pytest.mark.promise(174)
@pytest.mark.fault("F2", "F5")
async def test_the_asynchronous_client_over_aiohttp() -> None:
    encoder = DIALECT.encoder(answer())
    async with served(200, SSE.stream_type, [encoder.feed([e]) for e in EVENTS]) as client:
        chunks = [c async for c in await client.aio.models.generate_content_stream(model="m", contents="Hi")]
    assert joined(chunks, thought=False) == "Hi " + NASTY
    failure = DIALECT.encode_error(ApiError(Kind.NOT_FOUND, "no such model"), "01J")
    async with served(failure.status, "application/json", [failure.body]) as client:
        with pytest.raises(errors.ClientError) as caught:
            await client.aio.models.generate_content(model="m", contents="Hi")
    assert (caught.value.code, caught.value.status, caught.value.message) == (404, "NOT_FOUND", "no such model")


@pytest.mark.parametrize("cut", [1, 3])
async def test_a_client_that_stops_early_has_what_came(cut: int) -> None:
    stream = await Case(encode(TEXT)).client.aio.models.generate_content_stream(model="m", contents="Hi")
    seen = []
    async for chunk in stream:
        seen.append(chunk.text)
        if len(seen) == cut:
            break
    assert seen == ["So ", "it is.", ""][:cut]

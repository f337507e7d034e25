"""The Google SDK (google-genai) against a running server."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import groupby
from typing import Any, Final, Literal

import aiohttp
import anyio
import httpx2
import pydantic
import pytest
from anyio import to_thread
from google import genai
from google.genai import errors, types
from google.genai.client import AsyncClient

from rivermouth.store.port import Status
from tests.sdk.conftest import BODY_LIMIT_BYTES, KEY, served
from tests.sdk.leader import Leader
from tests.sdk.said import ARGUMENTS, CITY, PIXEL, SEPARATORS, SIGNED, echo, thought
from tests.sdk.served import Served
from tests.sdk.wire import Wire
from tests.tiny_gguf import TEXT

ROOM: Final = 2000
WEATHER: Final = types.FunctionDeclaration(name="weather", description="Today's", parameters_json_schema=CITY)
TIME: Final = types.FunctionDeclaration(name="time")
TOOLS: Final[Any] = [types.Tool(function_declarations=[WEATHER, TIME])]
ONLY_WEATHER: Final[Any] = [types.Tool(function_declarations=[WEATHER])]
BOTH: Final = "Try both tools."
THINK: Final = types.ThinkingConfig(include_thoughts=True)
HELLO: Final[Any] = {"contents": [{"parts": [{"text": "Hi"}]}]}
PLACES: Final = ["/gemini/v1beta", "/gemini/v1", "/gemini/v1alpha", "/gemini", "/v1beta", "/v1alpha"]


def client(url: str, version: str = "v1beta", key: str = "any", **options: Any) -> genai.Client:
    return genai.Client(
        api_key=key, http_options=types.HttpOptions(base_url=url, api_version=version, timeout=60_000, **options)
    )


@pytest.fixture(scope="module")
def sdk(back: Served) -> Iterator[genai.Client]:
    with client(f"{back.url}/gemini") as made:
        yield made


def config(**fields: Any) -> types.GenerateContentConfig:
    return types.GenerateContentConfig(**{"max_output_tokens": ROOM, **fields})


class Heard:
    """What the client saw of an answer: all parts in order, neighbours of a kind joined, and the last frame."""

    def __init__(self, frames: list[types.GenerateContentResponse]) -> None:
        self.last = frames[-1]
        self.parts: list[types.Part] = []
        self.thoughts = self.text = ""
        self.signatures: list[bytes] = []
        for frame in frames:
            for candidate in frame.candidates or []:
                for part in (candidate.content.parts if candidate.content is not None else None) or []:
                    self._hear(part)

    def _hear(self, part: types.Part) -> None:
        self.parts.append(part)
        if part.thought_signature:
            self.signatures.append(part.thought_signature)
        if part.thought:
            self.thoughts += part.text or ""
        else:
            self.text += part.text or ""

    @property
    def calls(self) -> list[types.FunctionCall]:
        return [p.function_call for p in self.parts if p.function_call is not None]

    @property
    def reason(self) -> str:
        (candidate,) = self.last.candidates or []
        assert candidate.finish_reason is not None
        return candidate.finish_reason.value

    @property
    def usage(self) -> Any:
        return self.last.usage_metadata


def whole(sdk: genai.Client, contents: Any = "Hi", model: str = "scripted", **fields: Any) -> Heard:
    return Heard([sdk.models.generate_content(model=model, contents=contents, config=config(**fields))])


def streamed(sdk: genai.Client, contents: Any = "Hi", model: str = "scripted", **fields: Any) -> Heard:
    return Heard(list(sdk.models.generate_content_stream(model=model, contents=contents, config=config(**fields))))


both_ways = pytest.mark.parametrize("ask", [whole, streamed])


def refused(work: Callable[[], Any]) -> errors.APIError:
    """The error that the SDK raises; its code and its word are those of the body."""
    with pytest.raises(errors.APIError) as raised:
        work()
    error = raised.value
    assert type(error.code) is int
    assert type(error.details["error"]["code"]) is int
    assert error.status == error.details["error"]["status"]
    assert error.status is not None
    assert error.status.isupper()
    return error


class TestText:
    @pytest.mark.promise(157, 158)
    @both_ways
    def test_text(self, sdk: genai.Client, ask: Any) -> None:
        heard = ask(sdk)
        assert (heard.text, heard.thoughts, heard.reason) == (echo("Hi"), "", "STOP")
        assert heard.last.model_version == "scripted"
        assert heard.last.response_id
        usage = heard.usage
        assert usage.prompt_token_count == 1
        assert usage.candidates_token_count > 10
        assert usage.total_token_count == usage.prompt_token_count + usage.candidates_token_count

    @pytest.mark.promise(157, 158, 159)
    def test_the_frames(self, sdk: genai.Client) -> None:
        frames = list(
            sdk.models.generate_content_stream(model="scripted", contents="Hi", config=config(max_output_tokens=2))
        )
        said = [(f.text, f.candidates[0].finish_reason, f.candidates[0].index) for f in frames if f.candidates]
        assert [s[1] for s in said] == [None, None, types.FinishReason.MAX_TOKENS]
        assert {s[2] for s in said} == {0}
        assert "".join(s[0] or "" for s in said) == "You said:"
        assert len({f.response_id for f in frames}) == 1

    @pytest.mark.parametrize("place", PLACES)
    def test_every_place(self, back: Served, place: str) -> None:
        prefix, _, version = place.rpartition("/")
        if place == "/gemini":
            prefix, version = place, ""
        with client(back.url + prefix, version) as sdk:
            assert streamed(sdk).text == whole(sdk).text == echo("Hi")
            assert "scripted" in {m.display_name for m in sdk.models.list()}

    def test_the_version_that_the_sdk_takes_by_itself(self, back: Served) -> None:
        options = types.HttpOptions(base_url=f"{back.url}/gemini")
        with genai.Client(api_key="any", http_options=options) as sdk:
            assert streamed(sdk).text == whole(sdk).text == echo("Hi")

    @both_ways
    def test_limits(self, sdk: genai.Client, ask: Any) -> None:
        cut = ask(sdk, max_output_tokens=3)
        assert (cut.reason, cut.usage.candidates_token_count) == ("MAX_TOKENS", 3)
        stopped = ask(sdk, stop_sequences=["nothing", "scripted"])
        assert (stopped.reason, stopped.text) == ("STOP", echo("Hi").partition("scripted")[0])

    @both_ways
    def test_instructions(self, sdk: genai.Client, ask: Any) -> None:
        told = ask(sdk, system_instruction="Be brief.")
        assert told.usage.prompt_token_count > ask(sdk).usage.prompt_token_count

    @pytest.mark.fault("F5")
    @both_ways
    def test_separators_of_lines_are_text(self, sdk: genai.Client, ask: Any) -> None:
        assert ask(sdk, SEPARATORS, model="parrot/any").text == SEPARATORS

    @both_ways
    def test_images_arrive(self, sdk: genai.Client, ask: Any) -> None:
        image = types.Part.from_bytes(data=base64.b64decode(PIXEL), mime_type="image/png")
        assert ask(sdk, [image, "Look"]).text == f'You said: "Look". I was given 1 image. {SIGNED}'

    @both_ways
    def test_several_candidates_are_refused_where_they_cannot_be(self, sdk: genai.Client, ask: Any) -> None:
        assert "candidateCount" in str(refused(lambda: ask(sdk, candidate_count=0)).message)

    def test_a_chat_keeps_its_turns(self, sdk: genai.Client) -> None:
        chat = sdk.chats.create(model="scripted", config=config(thinking_config=THINK))
        first = Heard([chat.send_message("Hi")])
        second = Heard(list(chat.send_message_stream("Again")))
        assert (first.text, second.text) == (echo("Hi"), echo("Again"))
        assert [role for role, _ in groupby(c.role for c in chat.get_history())] == ["user", "model"] * 2
        assert second.usage.prompt_token_count > first.usage.prompt_token_count + first.usage.candidates_token_count


class TestTools:
    @both_ways
    def test_a_call(self, sdk: genai.Client, ask: Any) -> None:
        heard = ask(sdk, tools=TOOLS)
        (call,) = heard.calls
        assert (call.name, call.args, heard.text, heard.reason) == ("weather", ARGUMENTS, "", "STOP")
        assert call.id

    @both_ways
    def test_parallel_calls(self, sdk: genai.Client, ask: Any) -> None:
        heard = ask(sdk, BOTH, tools=ONLY_WEATHER)
        assert [c.args for c in heard.calls] == [ARGUMENTS, ARGUMENTS]
        assert len({c.id for c in heard.calls}) == 2

    @both_ways
    def test_forced_and_forbidden(self, sdk: genai.Client, ask: Any) -> None:
        def choose(mode: str, *names: str) -> types.ToolConfig:
            calling: Any = {"mode": mode, "allowed_function_names": list(names) or None}
            return types.ToolConfig(function_calling_config=types.FunctionCallingConfig(**calling))

        named = ask(sdk, tools=TOOLS, tool_config=choose("ANY", "time"))
        assert [(c.name, c.args) for c in named.calls] == [("time", {})]
        assert ask(sdk, tools=TOOLS, tool_config=choose("NONE")).text == echo("Hi")

    @both_ways
    def test_the_results_come_back(self, sdk: genai.Client, ask: Any) -> None:
        question = types.Content(role="user", parts=[types.Part(text=BOTH)])
        called = ask(sdk, [question], tools=ONLY_WEATHER)
        said = types.Content(role="model", parts=called.parts)
        answers = [
            types.FunctionResponse(id=c.id, name=c.name, response={"error" if n else "output": f"rain {n}"})
            for n, c in enumerate(called.calls)
        ]
        results = types.Content(role="user", parts=[types.Part(function_response=a) for a in answers[::-1]])
        told = ask(sdk, [question, said, results], tools=ONLY_WEATHER)
        assert told.text == f'weather failed with "rain 1". weather answered "rain 0". {SIGNED}'

    def test_functions_that_the_sdk_calls_by_itself(self, sdk: genai.Client) -> None:
        def weather(city: str) -> str:
            """Tells of today."""
            return f"{city}rain"

        reply = sdk.models.generate_content(model="scripted", contents="Hi", config=config(tools=[weather]))
        assert reply.text == f'weather answered "rain". {SIGNED}'


class Place(pydantic.BaseModel):
    city: Literal["Köln", "Düsseldorf"]
    days: int


class TestStructure:
    @both_ways
    @pytest.mark.parametrize("member", ["response_schema", "response_json_schema"])
    def test_a_schema(self, sdk: genai.Client, ask: Any, member: str) -> None:
        schema = CITY if member == "response_json_schema" else Place
        heard = ask(sdk, response_mime_type="application/json", **{member: schema})
        assert json.loads(heard.text) == (ARGUMENTS if schema is CITY else {"city": "Köln", "days": 0})

    def test_the_parsed_reply(self, sdk: genai.Client) -> None:
        fields = config(response_mime_type="application/json", response_schema=Place)
        reply = sdk.models.generate_content(model="scripted", contents="Hi", config=fields)
        assert reply.parsed == Place(city="Köln", days=0)


class TestReasoning:
    @both_ways
    @pytest.mark.parametrize(
        "fields",
        [
            {"thinking_config": THINK},
            {"thinking_config": types.ThinkingConfig(thinking_budget=1024)},
            {"thinking_config": types.ThinkingConfig(thinking_level=types.ThinkingLevel.LOW)},
            {"model": "scripted-think"},
        ],
    )
    def test_it_is_a_signed_thought(self, sdk: genai.Client, ask: Any, fields: Any) -> None:
        heard = ask(sdk, **fields)
        assert (heard.thoughts, heard.text, heard.reason) == (thought("Hi"), echo("Hi"), "STOP")
        assert len(heard.signatures) == 1
        assert heard.usage.thoughts_token_count > 5

    @both_ways
    def test_signed_reasoning_comes_back_unchanged(self, sdk: genai.Client, ask: Any) -> None:
        """The scripted model's signature depends on all that it was given, that of earlier reasoning included."""
        first = ask(sdk, thinking_config=THINK)
        forged = [
            p.model_copy(update={"thought_signature": b"forged" if p.thought_signature else None}) for p in first.parts
        ]
        bare = [p for p in first.parts if not p.thought]

        def again(parts: list[types.Part]) -> Heard:
            talk: Any = ["Hi", types.Content(role="model", parts=parts), "Hi"]
            talk = [t if isinstance(t, types.Content) else types.UserContent(t) for t in talk]
            answer: Heard = ask(sdk, talk, thinking_config=THINK)
            return answer

        answers = [again(parts) for parts in (first.parts, first.parts, forged, bare)]
        signatures = [a.signatures for a in answers]
        assert signatures[0] == signatures[1]
        assert len({s[0] for s in signatures}) == 3
        tokens = [a.usage.prompt_token_count for a in answers]
        assert tokens[0] == tokens[2] > tokens[3]


class TestErrors:
    @pytest.mark.fault("F15")
    @both_ways
    def test_an_unknown_model(self, sdk: genai.Client, ask: Any) -> None:
        error = refused(lambda: ask(sdk, model="nobody"))
        assert isinstance(error, errors.ClientError)
        assert (error.code, error.status) == (404, "NOT_FOUND")
        assert "nobody" in str(error.message)

    @pytest.mark.parametrize(
        ("body", "field"),
        [
            ({"contents": 3}, "contents"),
            ({}, "contents"),
            ({"contents": [{"parts": [{"text": 3}]}]}, "contents[0].parts[0].text"),
            ({"contents": [{"role": "poet", "parts": []}]}, "contents[0].role"),
            (HELLO | {"generationConfig": {"maxOutputTokens": "many"}}, "generationConfig.maxOutputTokens"),
            (HELLO | {"tools": [{"functionDeclarations": [{}]}]}, "functionDeclarations[0].name"),
        ],
    )
    def test_a_wrong_type_names_its_field(self, back: Served, body: Any, field: str) -> None:
        with Wire(back.port, "POST", "/v1beta/models/scripted:generateContent", body) as wire:
            error = wire.json()["error"]
            assert (wire.status, error["code"], error["status"]) == (400, 400, "INVALID_ARGUMENT")
            assert field in error["message"]
            assert field in next(d["fieldViolations"][0]["field"] for d in error["details"] if "fieldViolations" in d)

    def test_what_is_no_json(self, back: Served) -> None:
        with Wire(back.port, "POST", "/v1beta/models/scripted:generateContent", b'{"contents') as wire:
            assert (wire.status, wire.json()["error"]["status"]) == (400, "INVALID_ARGUMENT")

    @both_ways
    def test_keys(self, keyed: Served, ask: Any) -> None:
        with client(f"{keyed.url}/gemini", key=KEY) as sdk:
            assert ask(sdk).text == echo("Hi")
        with client(f"{keyed.url}/gemini", key="wrong") as sdk:
            for work in (lambda: ask(sdk), lambda: list(sdk.models.list())):
                error = refused(work)
                assert (error.code, error.status) == (401, "UNAUTHENTICATED")

    @pytest.mark.parametrize(("key", "status"), [(KEY, 200), ("wrong", 401)])
    @pytest.mark.parametrize("place", ["query", "x-goog-api-key", "authorization"])
    def test_every_place_of_a_key(self, keyed: Served, place: str, key: str, status: int) -> None:
        path = "/v1beta/models/scripted:generateContent" + (f"?key={key}" if place == "query" else "")
        headers = {"x-goog-api-key": {place: key}, "authorization": {place: f"Bearer {key}"}}.get(place, {})
        with Wire(keyed.port, "POST", path, HELLO, headers) as wire:
            assert wire.status == status
            assert key not in wire.read().decode() or status == 200

    def test_a_body_over_the_limit(self, sdk: genai.Client) -> None:
        error = refused(lambda: whole(sdk, "x" * BODY_LIMIT_BYTES))
        assert (error.code, error.status) == (413, "INVALID_ARGUMENT")

    @pytest.mark.parametrize("verb", ["predict", "explain", "batchGenerateContent"])
    def test_a_method_that_is_not_served(self, back: Served, verb: str) -> None:
        with Wire(back.port, "POST", f"/v1beta/models/scripted:{verb}", HELLO) as wire:
            error = wire.json()["error"]
            assert (wire.status, error["code"], error["status"]) == (404, 404, "NOT_FOUND")
            assert "models/{model}:generateContent" in error["message"]

    def test_what_the_sdk_can_and_this_server_cannot(self, sdk: genai.Client) -> None:
        source: Any = [{"contents": "Hi"}]
        for work in (lambda: sdk.batches.create(model="scripted", src=source), lambda: list(sdk.files.list())):
            error = refused(work)
            assert (error.code, error.status) == (404, "NOT_FOUND")
            assert "generateContent" in str(error.message)

    def test_a_wrong_method(self, back: Served) -> None:
        with Wire(back.port, "PATCH", "/v1beta/models", HELLO) as wire:
            assert (wire.status, wire.headers["allow"], wire.json()["error"]["code"]) == (405, "GET", 405)

    @pytest.mark.promise(78)
    @pytest.mark.parametrize("verb", ["countTokens", "embedContent", "batchEmbedContents", "generateContent"])
    def test_a_stream_where_nothing_streams(self, back: Served, verb: str) -> None:
        with Wire(back.port, "POST", f"/v1beta/models/scripted:{verb}", {**HELLO, "stream": True}) as wire:
            error = wire.json()["error"]
            assert (wire.status, error["status"]) == (400, "INVALID_ARGUMENT")
            assert "stream" in error["message"]

    @pytest.mark.fault("F10", "F11", "F13", "F14")
    def test_an_error_in_the_stream(self, sdk: genai.Client) -> None:
        frames: list[types.GenerateContentResponse] = []
        stream = sdk.models.generate_content_stream(model="scripted-error", contents="Hi", config=config())
        error = refused(lambda: frames.extend(stream))
        assert isinstance(error, errors.ServerError)
        assert (error.code, error.status) == (502, "INTERNAL")
        assert Heard(frames).text == 'You said: "Hi". This is'
        assert all(c.finish_reason is None for f in frames for c in f.candidates or [])
        assert refused(lambda: whole(sdk, model="scripted-error")).code == 502

    @pytest.mark.fault("F12")
    @both_ways
    def test_an_empty_answer_is_an_error(self, sdk: genai.Client, ask: Any) -> None:
        assert refused(lambda: ask(sdk, model="scripted-empty")).code == 502


@asynccontextmanager
async def over_httpx(back: Served) -> AsyncIterator[AsyncClient]:
    async with httpx2.AsyncClient() as http:
        with client(f"{back.url}/gemini", httpx_async_client=http) as sdk:
            yield sdk.aio


@asynccontextmanager
async def over_aiohttp(back: Served) -> AsyncIterator[AsyncClient]:
    async with aiohttp.ClientSession() as http:
        with client(f"{back.url}/gemini", aiohttp_client=http) as sdk:
            yield sdk.aio


Transport = Callable[[Served], AbstractAsyncContextManager[AsyncClient]]
every_transport = pytest.mark.parametrize("transport", [over_httpx, over_aiohttp])
"""Where aiohttp is, the SDK reads lines by code of its own."""


class TestLeaving:
    @pytest.mark.promise(33, 72, 73, 75)
    @pytest.mark.fault("F31")
    def test_an_early_close_reaches_the_model(self, back: Served) -> None:
        with client(f"{back.url}/gemini") as sdk:
            stream: Any = sdk.models.generate_content_stream(model="scripted-slow", contents="Hi", config=config())
            first = next(stream)
            assert back.inflight() == 1
            stream.close()
        back.idle()
        record = back.record(str(first.response_id))
        assert (record.status, record.cancelled_by) == (Status.CANCELLED, "client")
        assert len(str(first.text)) <= record.text_chars < 600

    @pytest.mark.fault("F31", "F32")
    @pytest.mark.anyio
    @every_transport
    async def test_a_cancelled_task_before_the_first_token(
        self, back: Served, transport: Transport, anyio_backend: str
    ) -> None:
        with Leader() as leader:
            async with transport(back) as sdk, anyio.create_task_group() as tasks:

                async def ask() -> None:
                    async for _ in await sdk.models.generate_content_stream(model="led/any", contents=leader.port):
                        pass

                tasks.start_soon(ask)
                await to_thread.run_sync(leader.meet)
                tasks.cancel_scope.cancel()
            await to_thread.run_sync(leader.wait_gone)
            await to_thread.run_sync(back.idle)
        record = await to_thread.run_sync(back.last_record)
        assert (record.status, record.cancelled_by) == (Status.CANCELLED, "client")

    @pytest.mark.anyio
    @every_transport
    async def test_asynchronously(self, back: Served, transport: Transport, anyio_backend: str) -> None:
        ask: Any = {"model": "scripted-think", "contents": "Hi", "config": config()}
        async with transport(back) as sdk:
            frames = [frame async for frame in await sdk.models.generate_content_stream(**ask)]
            reply = await sdk.models.generate_content(**ask)
            with pytest.raises(errors.ClientError) as raised:
                async for _ in await sdk.models.generate_content_stream(**{**ask, "model": "nobody"}):
                    pass
        assert (raised.value.code, raised.value.status) == (404, "NOT_FOUND")
        for heard in (Heard(frames), Heard([reply])):
            assert (heard.thoughts, heard.text, heard.reason) == (thought("Hi"), echo("Hi"), "STOP")


class TestFramings:
    """R20: what the path and `alt` say about the form of a stream."""

    @pytest.mark.promise(137, 157, 158, 159, 174)
    @pytest.mark.parametrize("query", ["", "?alt=sse"])
    def test_events_piece_by_piece(self, back: Served, query: str) -> None:
        self.assert_pieces(back, f"/gemini/v1beta/models/led/any:streamGenerateContent{query}", b"data: ", b"\n\n")

    @pytest.mark.promise(137, 174)
    @pytest.mark.parametrize("place", ["/v1beta/models/led/any:{}", "/gemini/v1/models/led/any:{}?alt=json"])
    def test_one_array_piece_by_piece(self, back: Served, place: str) -> None:
        self.assert_pieces(back, place.format("streamGenerateContent"), b"", b"")

    def assert_pieces(self, back: Served, path: str, before: bytes, after: bytes) -> None:
        """Each piece is on the wire before the generator is asked for the next."""
        with Leader() as leader:
            body = {"contents": [{"role": "user", "parts": [{"text": leader.port}]}]}
            with Wire(back.port, "POST", path, body) as wire:
                for number, word in enumerate(("one", "two")):
                    leader.say(word)
                    begun = wire.read_until(b'"' + word.encode() + b'"')
                    assert begun.count(b'"candidates"') == number + 1
                    assert begun.startswith((before or b"[") + b'{"candidates":[{"content":{"role":"model"')
                leader.end()
                stream = wire.read()
        kind = "text/event-stream; charset=utf-8" if before else "application/json"
        assert wire.headers["content-type"] == kind
        if before:
            frames = [json.loads(line.removeprefix(before)) for line in stream.removesuffix(after).split(after)]
        else:
            frames = json.loads(stream)
        assert [f["candidates"][0]["content"]["parts"][0]["text"] for f in frames] == ["one", "two", ""]
        assert [f["candidates"][0].get("finishReason") for f in frames] == [None, None, "STOP"]

    @pytest.mark.fault("F10", "F13")
    def test_an_array_that_fails_is_closed_all_the_same(self, back: Served) -> None:
        with Wire(back.port, "POST", "/v1beta/models/scripted-error:streamGenerateContent", HELLO) as wire:
            *said, last = json.loads(wire.read())
        assert said
        assert (last["error"]["code"], last["error"]["status"]) == (502, "INTERNAL")

    def test_the_setting_for_a_reason_in_every_frame(self, tmp_path_factory: pytest.TempPathFactory) -> None:
        folder = tmp_path_factory.mktemp("every")
        path = "/gemini/v1beta/models/scripted:streamGenerateContent"
        with (
            served(folder, '[gemini]\nfinish_reason = "every"\n') as server,
            Wire(server.port, "POST", path, HELLO) as wire,
        ):
            frames = [json.loads(f.removeprefix("data: ")) for f in wire.read().decode().split("\n\n") if f]
        assert len(frames) > 5
        assert {f["candidates"][0]["finishReason"] for f in frames} == {"STOP"}


class TestOthers:
    def test_count_tokens(self, sdk: genai.Client) -> None:
        few = sdk.models.count_tokens(model="scripted", contents="Hi").total_tokens
        many = sdk.models.count_tokens(model="scripted", contents="Hi " * 400).total_tokens
        assert few is not None
        assert many is not None
        assert 0 < few < 20 < 200 < many < 800
        assert refused(lambda: sdk.models.count_tokens(model="nobody", contents="Hi")).code == 404

    def test_embeddings(self, sdk: genai.Client) -> None:
        embed = sdk.models.embed_content
        first, other, same = embed(model="scripted-embed", contents=["river", "mouth", "river"]).embeddings or []
        assert len(first.values or []) == 384
        assert first.values == same.values != other.values
        sized = types.EmbedContentConfig(output_dimensionality=8)
        (small,) = embed(model="scripted-embed", contents="river", config=sized).embeddings or []
        assert len(small.values or []) == 8
        for model in ("nobody", "scripted"):
            assert refused(lambda model=model: embed(model=model, contents="river")).code == 404  # type: ignore[misc]

    def test_the_route_for_one_text(self, back: Served, sdk: genai.Client) -> None:
        body = {"content": {"parts": [{"text": "river"}]}}
        with Wire(back.port, "POST", "/v1beta/models/scripted-embed:embedContent", body) as wire:
            one = wire.json()["embedding"]["values"]
        (same,) = sdk.models.embed_content(model="scripted-embed", contents="river").embeddings or []
        assert one == pytest.approx(same.values)

    def test_models(self, sdk: genai.Client) -> None:
        listed = {m.name: m for m in sdk.models.list()}
        assert {"models/scripted", "models/tiny:latest", "models/governed"} <= set(listed)
        tiny = sdk.models.get(model="tiny")
        assert (tiny.name, tiny.input_token_limit) == ("models/tiny:latest", 2048)
        assert "generateContent" in (tiny.supported_actions or [])
        assert sdk.models.get(model="parrot/default").name == "models/parrot/default"
        assert refused(lambda: sdk.models.get(model="nobody")).code == 404

    def test_the_ids(self, sdk: genai.Client) -> None:
        reply = sdk.models.generate_content(model="scripted", contents="Hi")
        assert reply.sdk_http_response is not None
        headers = reply.sdk_http_response.headers or {}
        assert headers["x-request-id"] == reply.response_id

    @both_ways
    def test_a_local_model(self, sdk: genai.Client, ask: Any) -> None:
        heard = ask(sdk, model="tiny", temperature=0)
        assert (heard.text, heard.reason) == (TEXT, "STOP")

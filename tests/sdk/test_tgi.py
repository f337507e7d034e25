"""The clients of the Hugging Face Hub against a running server: its native routes, and its OpenAI route."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import anthropic
import anyio
import huggingface_hub as hub
import ollama
import pytest
from anyio import to_thread
from huggingface_hub import errors as raised_by

from rivermouth.store.port import Status
from tests.sdk.conftest import BODY_LIMIT_BYTES, KEY, served
from tests.sdk.cutter import Cutter
from tests.sdk.leader import Leader
from tests.sdk.said import ARGUMENTS, CITY, PIXEL, SEPARATORS, echo, thought
from tests.sdk.served import DEADLINE_S, Served
from tests.sdk.wire import Wire
from tests.tiny_gguf import TEXT

HI: Any = [{"role": "user", "content": "Hi"}]
BOTH: Any = [{"role": "user", "content": "Try both tools."}]
WEATHER: Any = {"type": "function", "function": {"name": "weather", "description": "Today's", "parameters": CITY}}
TIME: Any = {"type": "function", "function": {"name": "time", "parameters": {"type": "object", "properties": {}}}}
FORMAT: Any = {"type": "json_schema", "json_schema": {"name": "place", "schema": CITY}}
ROOM = 2000

LED = """
[server]
default_model = "led/any"
[resilience]
retries = 0
cooldown = false
[providers.led]
python = "tests.sdk.bots:led"
"""


@pytest.fixture(autouse=True, scope="module")
def quiet() -> Iterator[None]:
    """The client would ask its hub which coding agents there are, and it keeps its connections for ever."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_TELEMETRY", True)
        yield
    hub.close_session()


def client_of(server: Served, **fields: Any) -> hub.InferenceClient:
    return hub.InferenceClient(**{"base_url": f"{server.url}/tgi", "api_key": "any", "timeout": DEADLINE_S, **fields})


@asynccontextmanager
async def asynchronous(server: Served) -> AsyncIterator[hub.AsyncInferenceClient]:
    async with hub.AsyncInferenceClient(base_url=f"{server.url}/tgi", api_key="any", timeout=DEADLINE_S) as client:
        yield client


@pytest.fixture
def sdk(back: Served) -> Iterator[hub.InferenceClient]:
    with client_of(back) as client:
        yield client


@pytest.fixture(scope="module")
def led(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server whose one model is the generator that a test leads: no native client can name another."""
    with served(tmp_path_factory.mktemp("led"), LED, scripted=False) as server:
        yield server


def begun(sdk: hub.InferenceClient, leader: Leader, first: str) -> Iterator[str]:
    """The stream of a generator whose first piece is there: until then a server does not say how it begins."""
    with ThreadPoolExecutor(1) as aside:
        saying = aside.submit(leader.say, first)
        stream = iter(sdk.text_generation(leader.port, stream=True))
        saying.result()
    assert next(stream) == first
    return stream


@pytest.fixture(scope="module")
def passing(tmp_path_factory: pytest.TempPathFactory, back: Served, cutter: Cutter) -> Iterator[Served]:
    """A server whose models are those of `back` by this dialect; and once more with a wire that is cut."""
    config = '[server]\ndefault_model = "via/scripted"\n[resilience]\nretries = 0\ncooldown = false\n'
    places = {"via": back.url, "ended": f"{cutter.url}/ended", "torn": f"{cutter.url}/torn"}
    for name, base in places.items():
        config += f'[providers.{name}]\ndialect = "tgi"\nbase_url = "{base}/tgi"\n'
    for name in ("ended", "torn"):
        config += f'[models.{name}]\nendpoints = ["{name}/scripted"]\n'
    with served(tmp_path_factory.mktemp("passing"), config, scripted=False) as server:
        yield server


def whole(sdk: hub.InferenceClient, prompt: str = "Hi", **fields: Any) -> Any:
    return sdk.text_generation(prompt, details=True, **fields)


def streamed(sdk: hub.InferenceClient, prompt: str = "Hi", **fields: Any) -> Any:
    """The last frame, which has all that a whole answer has."""
    frames = list(sdk.text_generation(prompt, details=True, stream=True, **fields))
    last = frames[-1]
    assert "".join(f.token.text for f in frames) == last.generated_text
    assert [f.index for f in frames] == list(range(1, len(frames) + 1))
    assert [f for f in frames if f.token.special or f.details is not None] == [last]
    return last


def chatted(sdk: hub.InferenceClient, **fields: Any) -> Any:
    """Message and finish reason of a whole chat."""
    reply = sdk.chat_completion(**{"model": "scripted", "messages": HI, "max_tokens": ROOM, **fields})
    return reply.choices[0].message, reply.choices[0].finish_reason


class Joined:
    """What a client makes of the chunks: text and calls."""

    def __init__(self) -> None:
        self.content = ""
        self.tool_calls: list[Any] = []


def chatted_streamed(sdk: hub.InferenceClient, **fields: Any) -> Any:
    joined, finish = Joined(), None
    given = {"model": "scripted", "messages": HI, "max_tokens": ROOM, **fields}
    for chunk in sdk.chat_completion(stream=True, **given):
        (choice,) = chunk.choices
        joined.content += choice.delta.content or ""
        for call in choice.delta.tool_calls or ():
            if call.index == len(joined.tool_calls):
                joined.tool_calls.append(call)
            else:
                joined.tool_calls[call.index].function.arguments += call.function.arguments
        finish = choice.finish_reason or finish
    return joined, finish


native = pytest.mark.parametrize("ask", [whole, streamed])
chats = pytest.mark.parametrize("ask", [chatted, chatted_streamed])


class TestText:
    @pytest.mark.promise(163, 164, 165)
    @native
    def test_text(self, sdk: hub.InferenceClient, ask: Any) -> None:
        answer = ask(sdk)
        assert answer.generated_text == echo("Hi")
        assert answer.details.finish_reason == "eos_token"
        assert answer.details.generated_tokens > 10

    def test_without_details(self, sdk: hub.InferenceClient) -> None:
        assert sdk.text_generation("Hi") == echo("Hi")
        pieces = list(sdk.text_generation("Hi", stream=True))
        assert len(pieces) > 10
        assert "".join(pieces) == echo("Hi")

    @pytest.mark.parametrize("path", ["/", "/generate", "/generate_stream", "/invocations"])
    def test_a_client_may_be_pointed_at_any_route(self, back: Served, path: str) -> None:
        stream = path == "/generate_stream"
        with hub.InferenceClient(model=f"{back.url}/tgi{path}", timeout=DEADLINE_S) as sdk:
            assert "".join(sdk.text_generation("Hi", stream=stream)) == echo("Hi")

    @native
    def test_limits(self, sdk: hub.InferenceClient, ask: Any) -> None:
        cut = ask(sdk, max_new_tokens=3)
        assert (cut.details.finish_reason, cut.details.generated_tokens) == ("length", 3)
        stopped = ask(sdk, stop=["nothing", "scripted"])
        assert stopped.details.finish_reason == "stop_sequence"
        assert stopped.generated_text == echo("Hi").partition("scripted")[0]

    @native
    def test_the_full_text_and_the_seed(self, sdk: hub.InferenceClient, ask: Any) -> None:
        if ask is whole:
            answer = ask(sdk, return_full_text=True, seed=7)
            assert (answer.generated_text, answer.details.seed) == ("Hi" + echo("Hi"), 7)
        else:
            last = list(sdk.text_generation("Hi", details=True, stream=True, return_full_text=True, seed=7))[-1]
            assert last.generated_text == "Hi" + echo("Hi")
            assert last.details is not None
            assert last.details.seed == 7

    @native
    def test_a_grammar(self, sdk: hub.InferenceClient, ask: Any) -> None:
        assert json.loads(ask(sdk, grammar={"type": "json", "value": CITY}).generated_text) == ARGUMENTS

    @pytest.mark.promise(163, 164, 165)
    def test_every_byte(self, back: Served) -> None:
        asked = {"inputs": "Hi", "parameters": {"max_new_tokens": 3}}
        with Wire(back.port, "POST", "/tgi/generate_stream", asked) as wire:
            body = wire.read().decode()
        assert (wire.status, wire.headers["content-type"]) == (200, "text/event-stream")
        tokens = ["You", " said:", ' "Hi".']
        said = "".join(
            f'data:{{"index":{n},"token":{{"id":{n},"text":{json.dumps(text)},"logprob":0.0,"special":false}},'
            '"generated_text":null,"details":null}\n\n'
            for n, text in enumerate(tokens, 1)
        )
        assert body.startswith(said)
        last = json.loads(body.removeprefix(said).removeprefix("data:"))
        assert last["token"] == {"id": 0, "text": "", "logprob": 0.0, "special": True}
        assert last["generated_text"] == "".join(tokens)
        assert (last["details"]["finish_reason"], last["details"]["generated_tokens"]) == ("length", 3)


class TestPiecewise:
    @pytest.mark.promise(137, 174)
    @pytest.mark.fault("F5")
    def test_each_piece_goes_out_as_the_generator_yields_it(self, led: Served) -> None:
        with Leader() as leader, client_of(led) as sdk:
            stream = begun(sdk, leader, "one")
            for piece in (" two", SEPARATORS):
                leader.say(piece)
                assert next(stream) == piece
            leader.end()
            assert list(stream) == [""]

    @pytest.mark.promise(137, 174)
    @pytest.mark.anyio
    async def test_asynchronously(self, led: Served, anyio_backend: str) -> None:
        with Leader() as leader:
            async with asynchronous(led) as sdk, anyio.create_task_group() as aside:
                aside.start_soon(to_thread.run_sync, leader.say, "one")
                tokens = aiter(await sdk.text_generation(leader.port, stream=True, details=True))
                assert (await anext(tokens)).token.text == "one"
                await to_thread.run_sync(leader.end)
                (last,) = [token async for token in tokens]
        assert last.generated_text == "one"


class TestChat:
    @chats
    def test_text(self, sdk: hub.InferenceClient, ask: Any) -> None:
        message, finish = ask(sdk)
        assert (message.content, finish) == (echo("Hi"), "stop")
        assert ask(sdk, max_tokens=3)[1] == "length"
        assert ask(sdk, stop=["scripted"])[0].content == echo("Hi").partition("scripted")[0]

    def test_usage(self, sdk: hub.InferenceClient) -> None:
        usage = sdk.chat_completion(HI, model="scripted").usage
        assert usage.prompt_tokens == 1
        options: Any = {"include_usage": True}
        counted = list(sdk.chat_completion(HI, model="scripted", stream=True, stream_options=options))
        assert counted[-1].choices == []
        assert counted[-1].usage is not None
        assert (counted[-1].usage.prompt_tokens, counted[-1].usage.total_tokens) == (1, usage.total_tokens)

    @pytest.mark.parametrize("base", ["/tgi", "/tgi/v1", "/tgi/v1/chat/completions"])
    def test_without_a_model_the_default_answers(self, back: Served, base: str) -> None:
        with client_of(back, base_url=back.url + base) as sdk:
            assert sdk.chat_completion(HI).choices[0].message.content == echo("Hi")

    @pytest.mark.fault("F5")
    @chats
    def test_separators_of_lines_are_text(self, sdk: hub.InferenceClient, ask: Any) -> None:
        message, _ = ask(sdk, model="parrot/any", messages=[{"role": "user", "content": SEPARATORS}])
        assert message.content == SEPARATORS

    @chats
    def test_images_arrive(self, sdk: hub.InferenceClient, ask: Any) -> None:
        image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
        message, _ = ask(sdk, messages=[{"role": "user", "content": [image, {"type": "text", "text": "Look"}]}])
        assert "I was given 1 image." in message.content

    @chats
    def test_a_schema(self, sdk: hub.InferenceClient, ask: Any) -> None:
        """This client sends a schema in its server's older spelling."""
        assert json.loads(ask(sdk, response_format=FORMAT)[0].content) == ARGUMENTS

    def test_reasoning(self, sdk: hub.InferenceClient) -> None:
        reply = sdk.chat_completion(HI, model="scripted-think")
        assert reply.choices[0].message.content == echo("Hi")
        assert reply.choices[0].message["reasoning_content"] == thought("Hi")

    @chats
    def test_a_local_model(self, sdk: hub.InferenceClient, ask: Any) -> None:
        message, finish = ask(sdk, model="tiny", temperature=0)
        assert (message.content, finish) == (TEXT, "stop")

    @pytest.mark.anyio
    async def test_asynchronously(self, back: Served, anyio_backend: str) -> None:
        async with asynchronous(back) as sdk:
            reply = await sdk.chat_completion(HI, model="scripted")
            chunks = await sdk.chat_completion(HI, model="scripted", stream=True)
            text = "".join([c.choices[0].delta.content or "" async for c in chunks])
            assert text == reply.choices[0].message.content == echo("Hi")
            assert await sdk.text_generation("Hi") == echo("Hi")


class TestTools:
    @chats
    def test_a_call(self, sdk: hub.InferenceClient, ask: Any) -> None:
        message, finish = ask(sdk, tools=[WEATHER, TIME])
        (call,) = message.tool_calls
        assert (call.function.name, json.loads(call.function.arguments)) == ("weather", ARGUMENTS)
        assert finish == "tool_calls"

    @chats
    def test_parallel_calls(self, sdk: hub.InferenceClient, ask: Any) -> None:
        message, _ = ask(sdk, messages=BOTH, tools=[WEATHER])
        assert [json.loads(c.function.arguments) for c in message.tool_calls] == [ARGUMENTS, ARGUMENTS]
        assert len({c.id for c in message.tool_calls}) == 2

    @chats
    def test_forced_and_forbidden(self, sdk: hub.InferenceClient, ask: Any) -> None:
        for choice in ("time", {"function": {"name": "time"}}):
            message, _ = ask(sdk, tools=[WEATHER, TIME], tool_choice=choice)
            assert [c.function.name for c in message.tool_calls] == ["time"]
        assert ask(sdk, tools=[WEATHER], tool_choice="none")[0].content == echo("Hi")

    def test_the_results_come_back(self, sdk: hub.InferenceClient) -> None:
        first, _ = chatted(sdk, messages=BOTH, tools=[WEATHER])
        results = [
            {"role": "tool", "tool_call_id": c.id, "content": f"rain {n}"} for n, c in enumerate(first.tool_calls)
        ]
        said, _ = chatted(sdk, messages=[*BOTH, dict(first), *results[::-1]], tools=[WEATHER])
        assert said.content.startswith('weather answered "rain 1". weather answered "rain 0".')


class TestErrors:
    @pytest.mark.parametrize(
        ("fields", "field"),
        [
            ({"max_new_tokens": 0}, "parameters.max_new_tokens"),
            ({"temperature": "hot"}, "parameters.temperature"),
            ({"top_p": 2}, "parameters.top_p"),
            ({"stop": "END"}, "parameters.stop"),
            ({"grammar": {"type": "json"}}, "parameters.grammar.value"),
            ({"grammar": {"type": "regex", "value": "a+"}}, "parameters.grammar"),
            ({"adapter_id": "a"}, "parameters.adapter_id"),
            ({"prompt": ""}, "inputs"),
        ],
    )
    @pytest.mark.parametrize("stream", [True, False])
    def test_what_cannot_be_served_names_its_field(
        self, sdk: hub.InferenceClient, fields: dict[str, Any], field: str, stream: bool
    ) -> None:
        with pytest.raises(raised_by.ValidationError, match=field):
            list(sdk.text_generation(**{"prompt": "Hi", **fields}, stream=stream))

    def test_a_stream_where_nothing_streams(self, back: Served) -> None:
        """R14."""
        with (
            hub.InferenceClient(model=f"{back.url}/tgi/generate", timeout=DEADLINE_S) as sdk,
            pytest.raises(raised_by.ValidationError, match="stream"),
        ):
            list(sdk.text_generation("Hi", stream=True))

    def test_what_is_no_json(self, back: Served) -> None:
        with Wire(back.port, "POST", "/tgi", b'{"inputs": "') as wire:
            assert (wire.json()["error_type"], wire.status) == ("validation", 422)

    @pytest.mark.fault("F15")
    @pytest.mark.parametrize("stream", [True, False])
    def test_a_failure_before_the_first_piece(self, led: Served, stream: bool) -> None:
        with client_of(led) as sdk, pytest.raises(raised_by.GenerationError) as raised:
            list(sdk.text_generation("no port", stream=stream))
        cause = raised.value.__cause__
        assert isinstance(cause, raised_by.HfHubHTTPError)
        assert cause.response.status_code == 424

    @pytest.mark.fault("F10", "F11", "F14", "F16")
    def test_a_failure_in_the_stream(self, led: Served) -> None:
        with Leader() as leader, client_of(led) as sdk:
            stream = begun(sdk, leader, "one")
            leader.break_off()
            with pytest.raises(raised_by.GenerationError):
                next(stream)
            assert list(stream) == []
        record = led.last_record()
        assert (record.status, record.text_chars) == (Status.FAILED, 3)

    @pytest.mark.fault("F11", "F12", "F14")
    def test_failures_of_the_chat(self, sdk: hub.InferenceClient) -> None:
        chunks: list[Any] = []
        with pytest.raises(raised_by.GenerationError):
            chunks.extend(sdk.chat_completion(HI, model="scripted-error", stream=True))
        assert "".join(c.choices[0].delta.content or "" for c in chunks) == 'You said: "Hi". This is'
        for model in ("scripted-error", "scripted-empty"):
            with pytest.raises(raised_by.HfHubHTTPError) as raised:
                sdk.chat_completion(HI, model=model)
            assert raised.value.response.status_code == 424
            assert raised.value.response.json()["error_type"] == "generation"

    @pytest.mark.parametrize("stream", [True, False])
    def test_errors_of_the_chat_before_it_begins(self, sdk: hub.InferenceClient, stream: bool) -> None:
        wrong: list[tuple[dict[str, Any], int, str]] = [
            ({"model": "nobody"}, 404, "nobody"),
            ({"model": "scripted", "max_tokens": "many"}, 422, "max_tokens"),
            ({"model": "scripted", "messages": 3}, 422, "messages"),
            ({"model": "scripted", "response_format": {"type": "regex", "value": "a"}}, 422, "response_format.type"),
        ]
        for fields, status, word in wrong:
            with pytest.raises(raised_by.HfHubHTTPError) as raised:
                sdk.chat_completion(**{"messages": HI, **fields}, stream=stream)
            assert raised.value.response.status_code == status
            raised.value.response.read()
            assert word in raised.value.response.json()["error"]

    def test_a_body_over_the_limit(self, sdk: hub.InferenceClient) -> None:
        with pytest.raises(raised_by.ValidationError) as raised:
            sdk.text_generation("x" * BODY_LIMIT_BYTES)
        assert isinstance(raised.value.__cause__, raised_by.HfHubHTTPError)
        assert raised.value.__cause__.response.status_code == 413

    def test_a_probe_needs_no_key(self, keyed: Served) -> None:
        """As /health needs none: whoever watches over servers has no key."""
        with Wire(keyed.port, "GET", "/tgi/health") as probe:
            assert probe.status == 200
        with Wire(keyed.port, "GET", "/tgi/info") as info:
            assert info.status == 401

    def test_keys(self, keyed: Served) -> None:
        with client_of(keyed, api_key=KEY) as sdk:
            assert chatted(sdk)[0].content == echo("Hi")
        with client_of(keyed, api_key="wrong") as sdk:
            for stream in (True, False):
                with pytest.raises(raised_by.UnknownError, match="key"):
                    list(sdk.text_generation("Hi", stream=stream))
                with pytest.raises(raised_by.HfHubHTTPError) as raised:
                    sdk.chat_completion(HI, model="scripted", stream=stream)
                assert raised.value.response.status_code == 401

    def test_a_wrong_method_and_an_unknown_route(self, back: Served) -> None:
        with Wire(back.port, "GET", "/tgi") as wrong:
            assert (wrong.json()["error_type"], wrong.status, wrong.headers["allow"]) == ("validation", 405, "POST")
        with Wire(back.port, "POST", "/tgi/tokenize", {"inputs": "Hi"}) as unknown:
            assert (unknown.json()["error_type"], unknown.status) == ("not_found", 404)
            assert "POST /tgi/generate_stream" in unknown.json()["error"]

    @pytest.mark.parametrize("path", ["/generate", "/generate_stream", "/info", "/invocations"])
    def test_the_bare_paths_are_nobodys(self, back: Served, path: str) -> None:
        """R2: this dialect has its prefix alone; a bare root is the page's and Ollama's."""
        with Wire(back.port, "POST", path, {"inputs": "Hi"}) as wire:
            wire.read()
            assert wire.status == 404


class TestLeaving:
    @pytest.mark.promise(33, 72, 73, 75)
    @pytest.mark.fault("F31")
    def test_an_early_close_reaches_the_generator(self, led: Served) -> None:
        with Leader() as leader:
            with client_of(led) as sdk:
                begun(sdk, leader, "one")
            leader.wait_gone()
        led.idle()
        record = led.last_record()
        assert (record.status, record.cancelled_by) == (Status.CANCELLED, "client")
        assert record.text_chars >= 3

    @pytest.mark.fault("F31")
    def test_an_early_close_of_a_chat_reaches_the_model(self, back: Served) -> None:
        with client_of(back) as sdk:
            chunks = iter(sdk.chat_completion(HI, model="scripted-slow", stream=True, max_tokens=ROOM))
            next(chunks)
            back.busy()
        back.idle()
        record = back.last_record()
        assert (record.status, record.cancelled_by, record.dialect) == (Status.CANCELLED, "client", "tgi")

    @pytest.mark.fault("F31", "F32")
    @pytest.mark.anyio
    async def test_a_cancelled_task_before_the_first_token(self, led: Served, anyio_backend: str) -> None:
        with Leader() as leader:
            async with asynchronous(led) as sdk, anyio.create_task_group() as tasks:

                async def ask() -> None:
                    async for _ in await sdk.text_generation(leader.port, stream=True):
                        pass

                tasks.start_soon(ask)
                await to_thread.run_sync(leader.meet)
                tasks.cancel_scope.cancel()
            await to_thread.run_sync(leader.wait_gone)
        await to_thread.run_sync(led.idle)
        record = await to_thread.run_sync(led.last_record)
        assert (record.status, record.cancelled_by) == (Status.CANCELLED, "client")


class TestUpstream:
    """A server of this dialect behind ours."""

    @native
    def test_native_answers_pass(self, passing: Served, ask: Any) -> None:
        with client_of(passing) as sdk:
            answer = ask(sdk, stop=["scripted"], typical_p=0.5)
        assert answer.generated_text == echo("Hi").partition("scripted")[0]
        assert answer.details.finish_reason == "stop_sequence"
        record = passing.last_record()
        assert (record.status, record.output_tokens) == (Status.COMPLETED, answer.details.generated_tokens)

    def test_details_that_were_not_asked_for_are_counted_and_kept_back(self, passing: Served) -> None:
        with Wire(passing.port, "POST", "/tgi/generate", {"inputs": "Hi"}) as wire:
            assert wire.json() == {"generated_text": echo("Hi")}
        record = passing.last_record()
        assert record.output_tokens is not None
        assert record.output_tokens > 10

    @chats
    def test_chats_pass(self, passing: Served, ask: Any) -> None:
        with client_of(passing) as sdk:
            assert ask(sdk, model="via/scripted")[0].content == echo("Hi")
            message, finish = ask(sdk, model="via/scripted", messages=BOTH, tools=[WEATHER])
        assert [json.loads(c.function.arguments) for c in message.tool_calls] == [ARGUMENTS, ARGUMENTS]
        assert finish == "tool_calls"

    def test_clients_of_another_dialect_reach_it(self, passing: Served) -> None:
        with anthropic.Anthropic(base_url=passing.url, api_key="any", max_retries=0) as sdk:
            tool: Any = {"name": "weather", "input_schema": CITY}
            ask: Any = {"model": "via/scripted", "max_tokens": ROOM}
            assert sdk.messages.create(messages=HI, **ask).content[0].text == echo("Hi")
            with sdk.messages.stream(messages=BOTH, tools=[tool], **ask) as stream:
                message = stream.get_final_message()
        assert [b.input for b in message.content if b.type == "tool_use"] == [ARGUMENTS, ARGUMENTS]
        with ollama.Client(host=passing.url) as raw:
            prompted = raw.generate("via/scripted", "Hi", raw=True, stream=True)
            assert "".join(p.response for p in prompted) == echo("Hi")

    @pytest.mark.fault("F10", "F16")
    @pytest.mark.parametrize("how", ["ended", "torn"])
    def test_a_cut_is_an_error(self, passing: Served, how: str) -> None:
        pieces: list[str] = []
        with ollama.Client(host=passing.url) as raw:
            prompted = raw.generate(f"{how}/scripted", "Hi", raw=True, stream=True)
            with pytest.raises(ollama.ResponseError):
                pieces.extend(p.response for p in prompted)
        assert pieces == ["You"]
        with client_of(passing) as sdk, pytest.raises(raised_by.TextGenerationError):
            chatted_streamed(sdk, model=how)
        assert passing.last_record().status is Status.FAILED


class TestServer:
    def test_info_and_health(self, back: Served) -> None:
        sdk = hub.InferenceClient(provider="hf-inference", timeout=DEADLINE_S)
        info = sdk.get_endpoint_info(model=f"{back.url}/tgi")
        assert (info["model_id"], info["router"]) == ("scripted", "rivermouth")
        assert sdk.health_check(model=f"{back.url}/tgi") is True

    def test_models(self, back: Served) -> None:
        listed = {m["id"] for m in back.get("/tgi/v1/models")["data"]}
        assert {"scripted", "tiny:latest", "governed"} <= listed

    def test_what_is_ignored_is_said(self, back: Served) -> None:
        """R30."""
        asked = {"inputs": "Hi", "parameters": {"typical_p": 0.5, "top_n_tokens": 3, "max_new_tokens": 1}}
        with Wire(back.port, "POST", "/tgi/generate", asked) as wire:
            wire.read()
        ignored = set(wire.headers["x-rivermouth-ignored"].split(", "))
        assert {"parameters.typical_p", "parameters.top_n_tokens"} <= ignored

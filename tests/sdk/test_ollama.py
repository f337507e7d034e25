"""The Ollama SDK against a running server."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import anyio
import ollama
import pytest
from anyio import to_thread

from rivermouth.store.port import Status
from tests.sdk.conftest import BODY_LIMIT_BYTES, KEY
from tests.sdk.leader import Leader
from tests.sdk.said import ARGUMENTS, CITY, PIXEL, SEPARATORS, SIGNED, echo, thought
from tests.sdk.served import Served
from tests.sdk.wire import Wire
from tests.tiny_gguf import TEXT

HI: Any = [{"role": "user", "content": "Hi"}]
BOTH: Any = [{"role": "user", "content": "Try both tools."}]
WEATHER: Any = {"type": "function", "function": {"name": "weather", "description": "Today's", "parameters": CITY}}


def streamed(sdk: ollama.Client, **fields: Any) -> dict[str, Any]:
    """A streamed chat, put together as the SDK's examples do."""
    frames = list(sdk.chat(**{"model": "scripted", "messages": HI, **fields}, stream=True))
    assert [f.done for f in frames] == [False] * (len(frames) - 1) + [True]
    return {
        "text": "".join(f.message.content or "" for f in frames),
        "thinking": "".join(f.message.thinking or "" for f in frames),
        "calls": [(c.function.name, c.function.arguments) for f in frames for c in f.message.tool_calls or []],
        "last": frames[-1],
    }


def whole(sdk: ollama.Client, **fields: Any) -> dict[str, Any]:
    reply = sdk.chat(**{"model": "scripted", "messages": HI, **fields})
    return {
        "text": reply.message.content or "",
        "thinking": reply.message.thinking or "",
        "calls": [(c.function.name, c.function.arguments) for c in reply.message.tool_calls or []],
        "last": reply,
    }


both_ways = pytest.mark.parametrize("ask", [whole, streamed])


@pytest.fixture(scope="module", params=["", "/ollama"])
def sdk(request: pytest.FixtureRequest, back: Served) -> Iterator[ollama.Client]:
    """At the bare paths that clients expect, and under the dialect's own prefix."""
    with ollama.Client(host=back.url + request.param) as client:
        yield client


class TestChat:
    @pytest.mark.promise(12, 15, 16, 49, 144)
    @both_ways
    def test_text(self, sdk: ollama.Client, ask: Any) -> None:
        seen = ask(sdk)
        assert (seen["text"], seen["thinking"], seen["calls"]) == (echo("Hi"), "", [])
        last = seen["last"]
        assert (last.done, last.done_reason, last.model) == (True, "stop", "scripted")
        assert last.prompt_eval_count == 1
        assert last.eval_count > 10
        assert last.total_duration > 0

    @pytest.mark.promise(17)
    @both_ways
    def test_limits(self, sdk: ollama.Client, ask: Any) -> None:
        cut = ask(sdk, options={"num_predict": 3})
        assert (cut["last"].done_reason, cut["last"].eval_count) == ("length", 3)
        assert echo("Hi").startswith(cut["text"])
        stopped = ask(sdk, options={"stop": ["nothing", "scripted"]})
        assert (stopped["text"], stopped["last"].done_reason) == (echo("Hi").partition("scripted")[0], "stop")

    @pytest.mark.fault("F5")
    @both_ways
    def test_separators_of_lines_are_text(self, sdk: ollama.Client, ask: Any) -> None:
        assert ask(sdk, model="parrot/any", messages=[{"role": "user", "content": SEPARATORS}])["text"] == SEPARATORS

    @both_ways
    def test_images_arrive(self, sdk: ollama.Client, ask: Any) -> None:
        messages = [{"role": "user", "content": "Look", "images": [PIXEL, base64.b64decode(PIXEL)]}]
        assert ask(sdk, messages=messages)["text"] == f'You said: "Look". I was given 2 images. {SIGNED}'

    @both_ways
    def test_reasoning(self, sdk: ollama.Client, ask: Any) -> None:
        for fields in ({"think": True}, {"think": "high"}, {"model": "scripted-think"}):
            seen = ask(sdk, **fields)
            assert (seen["text"], seen["thinking"]) == (echo("Hi"), thought("Hi"))
        assert ask(sdk, model="scripted-think", think=False)["thinking"] == ""

    @both_ways
    def test_a_schema(self, sdk: ollama.Client, ask: Any) -> None:
        assert json.loads(ask(sdk, format=CITY)["text"]) == ARGUMENTS
        assert json.loads(ask(sdk, format="json")["text"]) == {"answer": echo("Hi")}


class TestTools:
    @both_ways
    def test_a_call_and_two(self, sdk: ollama.Client, ask: Any) -> None:
        one = ask(sdk, tools=[WEATHER])
        assert (one["calls"], one["text"], one["last"].done_reason) == ([("weather", ARGUMENTS)], "", "stop")
        assert ask(sdk, messages=BOTH, tools=[WEATHER])["calls"] == [("weather", ARGUMENTS)] * 2

    def test_a_python_function_is_a_tool(self, sdk: ollama.Client) -> None:
        def add(a: int, b: int) -> int:
            """Adds.

            Args:
              a: one
              b: another
            """
            return a + b

        assert whole(sdk, tools=[add])["calls"] == [("add", {"a": 0, "b": 0})]

    @both_ways
    def test_the_results_come_back(self, sdk: ollama.Client, ask: Any) -> None:
        first = sdk.chat(model="scripted", messages=BOTH, tools=[WEATHER]).message
        results = [{"role": "tool", "tool_name": "weather", "content": f"rain {n}"} for n in range(2)]
        seen = ask(sdk, messages=[*BOTH, first, *results], tools=[WEATHER])
        assert seen["text"] == f'weather answered "rain 0". weather answered "rain 1". {SIGNED}'

    def test_reasoning_comes_back(self, sdk: ollama.Client) -> None:
        first = sdk.chat(model="scripted-think", messages=HI).message
        plain = {"role": "assistant", "content": first.content}
        counts = [
            sdk.chat(model="scripted", messages=[*HI, turn, *HI]).prompt_eval_count or 0 for turn in (first, plain)
        ]
        assert counts[0] > counts[1]


class TestGenerate:
    @pytest.mark.promise(11, 15, 20, 144, 148)
    def test_text(self, sdk: ollama.Client) -> None:
        reply = sdk.generate("scripted", "Hi")
        assert (reply.response, reply.done, reply.done_reason) == (echo("Hi"), True, "stop")
        frames = list(sdk.generate("scripted", "Hi", stream=True))
        assert "".join(f.response or "" for f in frames) == echo("Hi")
        assert (frames[-1].response, frames[-1].done, frames[-1].done_reason) == ("", True, "stop")

    def test_more(self, sdk: ollama.Client) -> None:
        assert "1 image" in (sdk.generate("scripted", "Look", images=[PIXEL]).response or "")
        thinking = sdk.generate("scripted", "Hi", think=True)
        assert (thinking.thinking, thinking.response) == (thought("Hi"), echo("Hi"))
        assert json.loads(sdk.generate("scripted", "Hi", format=CITY).response or "") == ARGUMENTS

    def test_load_and_unload(self, sdk: ollama.Client) -> None:
        loaded = sdk.generate("tiny", keep_alive="5m")
        assert (loaded.response, loaded.done, loaded.done_reason) == ("", True, "load")
        running = {m.model: m for m in sdk.ps().models}
        assert running["tiny:latest"].context_length == 2048
        assert running["tiny:latest"].expires_at is not None
        (frame,) = sdk.generate("tiny", keep_alive=0, stream=True)
        assert frame.done_reason == "unload"
        assert "tiny:latest" not in {m.model for m in sdk.ps().models}


class TestErrors:
    @pytest.mark.fault("F15")
    @both_ways
    def test_an_unknown_model(self, sdk: ollama.Client, ask: Any) -> None:
        with pytest.raises(ollama.ResponseError) as raised:
            ask(sdk, model="nobody")
        assert raised.value.status_code == 404
        assert raised.value.error.startswith("model 'nobody' not found")
        with pytest.raises(ollama.ResponseError):
            sdk.show("nobody")
        with pytest.raises(ollama.ResponseError):
            sdk.generate("nobody", "Hi")

    @pytest.mark.parametrize(
        ("fields", "field"),
        [
            ({"messages": 3}, "messages"),
            ({"messages": [{"role": "user", "content": 3}]}, "messages[0].content"),
            ({"messages": [{"role": "poet", "content": "Hi"}]}, "messages[0].role"),
            ({"options": {"temperature": "hot"}}, "temperature"),
            ({"options": 1}, "options"),
            ({"format": "poem"}, "format"),
            ({"think": "deeply"}, "think"),
            ({"keep_alive": "soon"}, "keep_alive"),
            ({"model": ""}, "model"),
        ],
    )
    def test_a_wrong_type_names_its_field(self, back: Served, fields: dict[str, Any], field: str) -> None:
        with Wire(back.port, "POST", "/api/chat", {"model": "scripted", "messages": HI, **fields}) as wire:
            assert wire.status == 400
            assert field in wire.json()["error"]

    def test_what_is_no_json(self, back: Served) -> None:
        for body in (b'{"model": "scripted', b"[]", b"", b"\xff"):
            with Wire(back.port, "POST", "/api/chat", body) as wire:
                assert wire.status == 400
                assert set(wire.json()) == {"error"}

    def test_keys(self, keyed: Served) -> None:
        with ollama.Client(host=keyed.url, headers={"authorization": f"Bearer {KEY}"}) as right:
            assert streamed(right)["text"] == echo("Hi")
        for headers in ({}, {"authorization": "Bearer wrong"}):
            with ollama.Client(host=keyed.url, headers=headers) as wrong:
                for ask in (whole, streamed):
                    with pytest.raises(ollama.ResponseError) as raised:
                        ask(wrong)
                    assert raised.value.status_code == 401
                with pytest.raises(ollama.ResponseError):
                    wrong.list()

    def test_a_body_over_the_limit(self, sdk: ollama.Client) -> None:
        with pytest.raises(ollama.ResponseError) as raised:
            whole(sdk, messages=[{"role": "user", "content": "x" * BODY_LIMIT_BYTES}])
        assert raised.value.status_code == 413

    def test_a_wrong_method_and_an_unknown_route(self, back: Served, sdk: ollama.Client) -> None:
        with Wire(back.port, "GET", "/api/chat") as wire:
            assert (wire.status, wire.headers["allow"]) == (405, "POST")
        with pytest.raises(ollama.ResponseError) as raised:
            sdk.push("tiny")
        assert raised.value.status_code == 404
        assert "POST /api/chat" in raised.value.error or "POST /ollama/api/chat" in raised.value.error

    @pytest.mark.promise(78)
    @pytest.mark.parametrize(
        ("method", "path", "fields"),
        [
            ("POST", "embed", {"input": "a"}),
            ("POST", "embeddings", {"prompt": "a"}),
            ("POST", "show", {}),
            ("POST", "copy", {"source": "tiny", "destination": "other"}),
            ("DELETE", "delete", {}),
            ("GET", "tags", {}),
        ],
    )
    def test_a_stream_where_nothing_streams(self, back: Served, method: str, path: str, fields: Any) -> None:
        body = {"model": "scripted-embed", "stream": True, **fields}
        with Wire(back.port, method, f"/api/{path}", body) as wire:
            assert wire.status == 400
            assert "stream" in wire.json()["error"]

    @pytest.mark.promise(18, 19)
    @pytest.mark.fault("F10", "F11")
    def test_an_error_in_the_stream(self, sdk: ollama.Client) -> None:
        frames: list[Any] = []
        with pytest.raises(ollama.ResponseError, match="fails after 5 tokens"):
            frames.extend(sdk.chat("scripted-error", HI, stream=True))
        assert "".join(f.message.content for f in frames) == 'You said: "Hi". This is'
        assert not any(f.done for f in frames)
        with pytest.raises(ollama.ResponseError, match="fails after 5 tokens"):
            list(sdk.generate("scripted-error", "Hi", stream=True))
        with pytest.raises(ollama.ResponseError) as raised:
            whole(sdk, model="scripted-error")
        assert raised.value.status_code == 502

    @pytest.mark.fault("F12")
    @both_ways
    def test_an_empty_answer_is_an_error(self, sdk: ollama.Client, ask: Any) -> None:
        with pytest.raises(ollama.ResponseError) as raised:
            ask(sdk, model="scripted-empty")
        assert raised.value.status_code == 502


class TestLeaving:
    @pytest.mark.promise(33, 72, 73, 75)
    @pytest.mark.fault("F31")
    @pytest.mark.parametrize("kind", ["chat", "generate"])
    def test_an_early_close_reaches_the_model(self, back: Served, kind: str) -> None:
        with ollama.Client(host=back.url) as sdk:
            stream: Any = (
                sdk.chat("scripted-slow", HI, stream=True)
                if kind == "chat"
                else sdk.generate("scripted-slow", "Hi", stream=True)
            )
            next(stream)
            assert back.inflight() == 1
            stream.close()
            back.idle()
        record = back.last_record()
        assert (record.status, record.cancelled_by) == (Status.CANCELLED, "client")
        assert 0 < record.text_chars < 600

    @pytest.mark.fault("F31", "F32")
    @pytest.mark.anyio
    async def test_a_cancelled_task_before_the_first_token(self, back: Served, anyio_backend: str) -> None:
        with Leader() as leader:
            async with ollama.AsyncClient(host=back.url) as sdk, anyio.create_task_group() as tasks:

                async def ask() -> None:
                    await sdk.chat("led/any", [{"role": "user", "content": leader.port}])

                tasks.start_soon(ask)
                await to_thread.run_sync(leader.meet)
                tasks.cancel_scope.cancel()
            await to_thread.run_sync(leader.wait_gone)
            await to_thread.run_sync(back.idle)
        record = await to_thread.run_sync(back.last_record)
        assert (record.status, record.cancelled_by) == (Status.CANCELLED, "client")


class TestEmbeddings:
    @pytest.mark.promise(76)
    def test_both_routes(self, sdk: ollama.Client) -> None:
        many = sdk.embed("scripted-embed", ["river", "mouth"])
        assert [len(v) for v in many.embeddings] == [384, 384]
        assert many.prompt_eval_count == 2
        assert list(sdk.embed("scripted-embed", "river").embeddings[0]) == list(many.embeddings[0])
        assert list(sdk.embeddings("scripted-embed", "river").embedding) == list(many.embeddings[0])
        assert len(sdk.embed("scripted-embed", "river", dimensions=8).embeddings[0]) == 8

    def test_a_model_that_has_none(self, sdk: ollama.Client) -> None:
        with pytest.raises(ollama.ResponseError) as raised:
            sdk.embed("tiny", "river")
        assert raised.value.status_code == 400


class TestModels:
    def test_tags(self, sdk: ollama.Client) -> None:
        listed = {m.model: m for m in sdk.list().models}
        assert {"scripted", "tiny:latest", "plain:latest"} <= set(listed)
        tiny = listed["tiny:latest"]
        assert tiny.size is not None
        assert tiny.size > 100_000
        assert tiny.details is not None
        assert (tiny.details.format, tiny.details.family) == ("gguf", "llama")

    def test_show(self, sdk: ollama.Client) -> None:
        shown = sdk.show("tiny")
        assert shown.modelinfo is not None
        assert "completion" in (shown.capabilities or ())
        assert "im_start" in (shown.template or "")

    def test_copy_and_delete(self, sdk: ollama.Client) -> None:
        assert sdk.copy("tiny", "second").status == "success"
        assert "second:latest" in {m.model for m in sdk.list().models}
        assert streamed(sdk, model="second", options={"temperature": 0})["text"] == TEXT
        assert "second:latest" in {m.model for m in sdk.ps().models}
        assert sdk.delete("second").status == "success"
        assert "second:latest" not in {m.model for m in sdk.list().models}
        running = {m.model for m in sdk.ps().models}
        assert "tiny:latest" in running  # the file is still loaded, and goes by the name that is left
        assert "second:latest" not in running
        with pytest.raises(ollama.ResponseError) as raised:
            sdk.delete("second")
        assert raised.value.status_code == 404

    @pytest.mark.parametrize("method", ["GET", "HEAD"])
    def test_the_version(self, back: Served, method: str) -> None:
        with Wire(back.port, method, "/api/version") as wire:
            assert wire.status == 200
            assert method == "HEAD" or set(wire.json()) == {"version"}

    @both_ways
    def test_a_local_model(self, sdk: ollama.Client, ask: Any) -> None:
        seen = ask(sdk, model="tiny", options={"temperature": 0})
        assert (seen["text"], seen["last"].done_reason) == (TEXT, "stop")
        cut = ask(sdk, model="tiny", options={"temperature": 0, "num_predict": 2})
        assert (cut["text"], cut["last"].done_reason) == ("Hello from", "length")

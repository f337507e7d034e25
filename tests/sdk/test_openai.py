"""The OpenAI SDK against a running server."""

from __future__ import annotations

import base64
import json
import struct
from typing import Any, Literal

import anyio
import openai
import pydantic
import pytest
from anyio import to_thread

from rivermouth.ir.opaque import opened
from rivermouth.store.port import Status
from tests.sdk.conftest import BODY_LIMIT_BYTES, KEY
from tests.sdk.leader import Leader
from tests.sdk.said import ARGUMENTS, CITY, PIXEL, SEPARATORS, SIGNED, echo, thought
from tests.sdk.served import Served
from tests.tiny_gguf import TEXT

HI: Any = [{"role": "user", "content": "Hi"}]
BOTH: Any = [{"role": "user", "content": "Try both tools."}]
WEATHER: Any = {
    "type": "function",
    "function": {"name": "weather", "description": "Today's", "parameters": CITY, "strict": True},
}
TIME: Any = {"type": "function", "function": {"name": "time", "parameters": {"type": "object", "properties": {}}}}


def text_of(chunks: list[Any], choice: int = 0) -> str:
    return "".join(c.delta.content or "" for chunk in chunks for c in chunk.choices if c.index == choice)


class TestText:
    @pytest.mark.promise(49, 60, 61, 62, 64)
    def test_whole(self, openai_sdk: openai.OpenAI) -> None:
        reply = openai_sdk.chat.completions.create(model="scripted", messages=HI)
        (choice,) = reply.choices
        assert (choice.message.role, choice.message.content, choice.finish_reason) == ("assistant", echo("Hi"), "stop")
        assert reply.usage is not None
        assert reply.usage.prompt_tokens == 1
        assert reply.usage.total_tokens == 1 + reply.usage.completion_tokens
        block = (reply.model_extra or {})["llmeu"]
        assert (block["trace_id"], block["provider"]) == (reply._request_id, "scripted")

    @pytest.mark.promise(1, 7, 8, 9, 49)
    def test_streamed(self, openai_sdk: openai.OpenAI) -> None:
        chunks = list(openai_sdk.chat.completions.create(model="scripted", messages=HI, stream=True))
        assert chunks[0].choices[0].delta.role == "assistant"
        assert [c.choices[0].delta.role for c in chunks[1:]] == [None] * (len(chunks) - 1)
        assert text_of(chunks) == echo("Hi")
        assert [c.choices[0].finish_reason for c in chunks] == [None] * (len(chunks) - 1) + ["stop"]
        assert len({(c.id, c.created, c.model, c.object) for c in chunks}) == 1

    @pytest.mark.promise(138, 140, 141)
    def test_streamed_under_the_dialects_own_prefix(self, back: Served) -> None:
        with openai.OpenAI(base_url=f"{back.url}/openai/v1", api_key="any", max_retries=0) as sdk:
            chunks = list(sdk.chat.completions.create(model="scripted", messages=HI, stream=True))
        first = chunks[0].choices[0].delta
        assert (first.role, first.content) == ("assistant", "")
        assert text_of(chunks) == echo("Hi")

    @pytest.mark.promise(49)
    def test_the_accumulator(self, openai_sdk: openai.OpenAI) -> None:
        """What the SDK's own accumulator makes of the stream is what a whole answer says."""
        whole = openai_sdk.chat.completions.create(model="scripted", messages=HI).choices[0]
        with openai_sdk.chat.completions.stream(model="scripted", messages=HI) as stream:
            kinds = {event.type for event in stream}
            final = stream.get_final_completion().choices[0]
        assert {"chunk", "content.delta", "content.done"} <= kinds
        assert (final.message.role, final.message.content, final.finish_reason) == (
            whole.message.role,
            whole.message.content,
            whole.finish_reason,
        )

    @pytest.mark.promise(143)
    def test_usage_comes_when_it_is_asked_for_and_last(self, openai_sdk: openai.OpenAI) -> None:
        ask = openai_sdk.chat.completions.create
        without = list(ask(model="scripted", messages=HI, stream=True))
        assert [c.usage for c in without] == [None] * len(without)
        assert all(c.choices for c in without)
        chunks = list(ask(model="scripted", messages=HI, stream=True, stream_options={"include_usage": True}))
        assert [c.usage for c in chunks[:-1]] == [None] * (len(chunks) - 1)
        assert chunks[-1].choices == []
        assert chunks[-1].usage == ask(model="scripted", messages=HI).usage

    def test_choices(self, openai_sdk: openai.OpenAI) -> None:
        want = [f"{echo('Hi')} (Choice {n} of 2.)" for n in (1, 2)]
        reply = openai_sdk.chat.completions.create(model="scripted", messages=HI, n=2)
        assert [c.message.content for c in reply.choices] == want
        chunks = list(openai_sdk.chat.completions.create(model="scripted", messages=HI, n=2, stream=True))
        assert [text_of(chunks, n) for n in (0, 1)] == want
        ends = [(c.index, c.finish_reason) for chunk in chunks for c in chunk.choices if c.finish_reason]
        assert ends == [(0, "stop"), (1, "stop")]

    @pytest.mark.promise(10)
    def test_length(self, openai_sdk: openai.OpenAI) -> None:
        for limit in ({"max_tokens": 3}, {"max_completion_tokens": 3}):
            reply = openai_sdk.chat.completions.create(model="scripted", messages=HI, **limit)  # type: ignore[call-overload]
            assert (reply.choices[0].finish_reason, reply.usage.completion_tokens) == ("length", 3)
        chunks = list(openai_sdk.chat.completions.create(model="scripted", messages=HI, max_tokens=3, stream=True))
        assert chunks[-1].choices[0].finish_reason == "length"
        assert echo("Hi").startswith(text_of(chunks))

    def test_stop_sequences(self, openai_sdk: openai.OpenAI) -> None:
        for stop in ("scripted", ["nothing", "scripted"]):
            reply = openai_sdk.chat.completions.create(model="scripted", messages=HI, stop=stop)
            assert reply.choices[0].finish_reason == "stop"
            assert reply.choices[0].message.content == echo("Hi").partition("scripted")[0]

    @pytest.mark.fault("F5")
    def test_separators_of_lines_are_text(self, openai_sdk: openai.OpenAI) -> None:
        messages: Any = [{"role": "user", "content": SEPARATORS}]
        chunks = list(openai_sdk.chat.completions.create(model="parrot/any", messages=messages, stream=True))
        assert text_of(chunks) == SEPARATORS
        whole = openai_sdk.chat.completions.create(model="parrot/any", messages=messages)
        assert whole.choices[0].message.content == SEPARATORS

    def test_images_arrive(self, openai_sdk: openai.OpenAI) -> None:
        image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
        messages: Any = [{"role": "user", "content": [{"type": "text", "text": "Look"}, image, image]}]
        reply = openai_sdk.chat.completions.create(model="scripted", messages=messages)
        assert reply.choices[0].message.content == f'You said: "Look". I was given 2 images. {SIGNED}'


class TestTools:
    @pytest.mark.promise(10)
    def test_whole(self, openai_sdk: openai.OpenAI) -> None:
        reply = openai_sdk.chat.completions.create(model="scripted", messages=HI, tools=[WEATHER, TIME])
        (choice,) = reply.choices
        assert (choice.finish_reason, choice.message.content) == ("tool_calls", None)
        (call,) = choice.message.tool_calls or []
        assert call.type == "function"
        assert (call.function.name, json.loads(call.function.arguments)) == ("weather", ARGUMENTS)

    @pytest.mark.promise(10)
    def test_streamed(self, openai_sdk: openai.OpenAI) -> None:
        with openai_sdk.chat.completions.stream(model="scripted", messages=HI, tools=[WEATHER]) as stream:
            done = [event for event in stream if event.type == "tool_calls.function.arguments.done"]
            final = stream.get_final_completion().choices[0]
        assert [(d.name, json.loads(d.arguments)) for d in done] == [("weather", ARGUMENTS)]
        assert final.finish_reason == "tool_calls"
        (call,) = final.message.tool_calls or []
        assert (call.type, call.function.name, call.function.parsed_arguments) == ("function", "weather", ARGUMENTS)

    def test_parallel(self, openai_sdk: openai.OpenAI) -> None:
        with openai_sdk.chat.completions.stream(model="scripted", messages=BOTH, tools=[WEATHER]) as stream:
            calls = stream.get_final_completion().choices[0].message.tool_calls or []
        assert [json.loads(c.function.arguments) for c in calls] == [ARGUMENTS, ARGUMENTS]
        assert len({c.id for c in calls}) == 2
        one = openai_sdk.chat.completions.create(
            model="scripted", messages=BOTH, tools=[WEATHER], parallel_tool_calls=False
        )
        assert len(one.choices[0].message.tool_calls or []) == 1

    def test_forced_and_forbidden(self, openai_sdk: openai.OpenAI) -> None:
        ask = openai_sdk.chat.completions.create
        named: Any = {"type": "function", "function": {"name": "time"}}
        reply = ask(model="scripted", messages=HI, tools=[WEATHER, TIME], tool_choice=named)
        assert [c.function.name for c in reply.choices[0].message.tool_calls or [] if c.type == "function"] == ["time"]
        reply = ask(model="scripted", messages=HI, tools=[WEATHER], tool_choice="none")
        assert (reply.choices[0].message.tool_calls, reply.choices[0].message.content) == (None, echo("Hi"))

    def test_the_result_comes_back(self, openai_sdk: openai.OpenAI) -> None:
        ask = openai_sdk.chat.completions.create
        first = ask(model="scripted", messages=BOTH, tools=[WEATHER]).choices[0].message
        calls = first.tool_calls or []
        results: Any = [{"role": "tool", "tool_call_id": c.id, "content": f"rain {n}"} for n, c in enumerate(calls)]
        talk: Any = [*BOTH, first, *reversed(results)]
        reply = ask(model="scripted", messages=talk, tools=[WEATHER])
        assert reply.choices[0].message.content == f'weather answered "rain 1". weather answered "rain 0". {SIGNED}'


class Place(pydantic.BaseModel):
    city: Literal["Köln", "Düsseldorf"]
    days: int


class TestStructure:
    def test_a_schema(self, openai_sdk: openai.OpenAI) -> None:
        shape: Any = {"type": "json_schema", "json_schema": {"name": "place", "schema": CITY, "strict": True}}
        reply = openai_sdk.chat.completions.create(model="scripted", messages=HI, response_format=shape)
        assert json.loads(reply.choices[0].message.content or "") == ARGUMENTS

    def test_the_parse_helpers(self, openai_sdk: openai.OpenAI) -> None:
        reply = openai_sdk.chat.completions.parse(model="scripted", messages=HI, response_format=Place)
        assert reply.choices[0].message.parsed == Place(city="Köln", days=0)
        with openai_sdk.chat.completions.stream(model="scripted", messages=HI, response_format=Place) as stream:
            assert stream.get_final_completion().choices[0].message.parsed == Place(city="Köln", days=0)

    def test_a_cut_document_is_told_as_one(self, openai_sdk: openai.OpenAI) -> None:
        with pytest.raises(openai.LengthFinishReasonError):
            openai_sdk.chat.completions.parse(model="scripted", messages=HI, response_format=Place, max_tokens=1)

    def test_any_json(self, openai_sdk: openai.OpenAI) -> None:
        reply = openai_sdk.chat.completions.create(
            model="scripted", messages=HI, response_format={"type": "json_object"}
        )
        assert json.loads(reply.choices[0].message.content or "") == {"answer": echo("Hi")}


class TestReasoning:
    def test_it_is_told_apart_and_signed(self, openai_sdk: openai.OpenAI) -> None:
        reply = openai_sdk.chat.completions.create(model="scripted", messages=HI, reasoning_effort="low")
        message = reply.choices[0].message
        extra = message.model_extra or {}
        assert message.content == echo("Hi")
        assert extra["reasoning_content"] == thought("Hi")
        (detail,) = extra["reasoning_details"]
        sealed = opened(detail["signature"])
        assert sealed is not None
        assert len(base64.b64decode(sealed.signature or "")) == 32
        assert reply.usage is not None
        assert reply.usage.completion_tokens_details is not None
        assert 0 < (reply.usage.completion_tokens_details.reasoning_tokens or 0) < reply.usage.completion_tokens

    def test_streamed(self, openai_sdk: openai.OpenAI) -> None:
        chunks = list(openai_sdk.chat.completions.create(model="scripted-think", messages=HI, stream=True))
        extras = [c.choices[0].delta.model_extra or {} for c in chunks]
        assert "".join(e.get("reasoning_content", "") for e in extras) == thought("Hi")
        (signed,) = [e["reasoning_details"] for e in extras if "reasoning_details" in e]
        assert signed[0]["signature"]
        assert text_of(chunks) == echo("Hi")

    def test_signed_reasoning_comes_back_unchanged(self, openai_sdk: openai.OpenAI) -> None:
        """The scripted model's signature depends on all that it was given, that of earlier reasoning included."""

        def ask(messages: Any) -> Any:
            return openai_sdk.chat.completions.create(model="scripted-think", messages=messages)

        def signature(reply: Any) -> str:
            return str(reply.choices[0].message.model_extra["reasoning_details"][0]["signature"])

        first = ask(HI).choices[0].message.model_dump(exclude_none=True)
        forged = {**first, "reasoning_details": [{**first["reasoning_details"][0], "signature": "Zm9yZ2Vk"}]}
        plain = {"role": "assistant", "content": first["content"]}
        answers = [ask([*HI, turn, *HI]) for turn in (first, first, forged, plain)]
        assert signature(answers[0]) == signature(answers[1])
        assert len({signature(a) for a in answers}) == 3
        tokens = [a.usage.prompt_tokens for a in answers]
        reasoned = ask(HI).usage.completion_tokens_details.reasoning_tokens
        assert tokens[0] == tokens[2] == tokens[3] + reasoned


class TestErrors:
    @pytest.mark.fault("F15")
    @pytest.mark.parametrize("stream", [False, True])
    def test_an_unknown_model(self, openai_sdk: openai.OpenAI, stream: bool) -> None:
        with pytest.raises(openai.NotFoundError) as raised:
            openai_sdk.chat.completions.create(model="nobody", messages=HI, stream=stream)
        error = raised.value
        assert (error.code, error.param, error.type) == ("model_not_found", "model", "invalid_request_error")
        assert "nobody" in error.message
        assert error.request_id

    @pytest.mark.parametrize(
        ("fields", "param"),
        [
            ({"messages": 3}, "messages"),
            ({"messages": [{"role": "user", "content": [{"type": "text", "text": 3}]}]}, "messages[0].content[0].text"),
            ({"temperature": "hot"}, "temperature"),
            ({"temperature": 3}, "temperature"),
            ({"stop": 5}, "stop"),
            ({"tools": [{"type": "function", "function": {"name": 1}}]}, "tools[0].function.name"),
            ({"response_format": {"type": "poem"}}, "response_format.type"),
            ({"n": 0}, "n"),
        ],
    )
    def test_a_wrong_type_names_its_field(self, openai_sdk: openai.OpenAI, fields: dict[str, Any], param: str) -> None:
        with pytest.raises(openai.BadRequestError) as raised:
            openai_sdk.post("/chat/completions", body={"model": "scripted", "messages": HI, **fields}, cast_to=object)
        assert raised.value.param == param

    def test_what_is_no_json(self, openai_sdk: openai.OpenAI) -> None:
        with pytest.raises(openai.BadRequestError):
            openai_sdk.post("/chat/completions", content=b'{"model": "scripted', cast_to=object)

    @pytest.mark.parametrize("header", ["bearer", "x-api-key"])
    def test_keys(self, keyed: Served, header: str) -> None:
        def headers(key: str) -> dict[str, str]:
            return {} if header == "bearer" else {"x-api-key": key, "authorization": ""}

        for key, right in ((KEY, True), ("wrong", False)):
            with openai.OpenAI(
                base_url=f"{keyed.url}/v1", api_key=key, default_headers=headers(key), max_retries=0
            ) as sdk:
                if right:
                    assert sdk.chat.completions.create(model="scripted", messages=HI).choices
                    continue
                with pytest.raises(openai.AuthenticationError) as raised:
                    sdk.chat.completions.create(model="scripted", messages=HI, stream=True)
                assert raised.value.code == "invalid_api_key"
                with pytest.raises(openai.AuthenticationError):
                    sdk.models.list()

    def test_a_body_over_the_limit(self, openai_sdk: openai.OpenAI) -> None:
        huge: Any = [{"role": "user", "content": "x" * BODY_LIMIT_BYTES}]
        with pytest.raises(openai.APIStatusError) as raised:
            openai_sdk.chat.completions.create(model="scripted", messages=huge)
        assert (raised.value.status_code, raised.value.code) == (413, "request_too_large")

    def test_a_wrong_method_and_an_unknown_route(self, openai_sdk: openai.OpenAI) -> None:
        with pytest.raises(openai.APIStatusError) as raised:
            openai_sdk.get("/chat/completions", cast_to=object)
        assert (raised.value.status_code, raised.value.response.headers["allow"]) == (405, "POST")
        with pytest.raises(openai.NotFoundError) as unknown:
            openai_sdk.audio.speech.create(model="scripted", voice="alloy", input="Hi")
        assert unknown.value.code == "unknown_url"
        assert "POST /v1/chat/completions" in unknown.value.message

    @pytest.mark.promise(78)
    def test_a_stream_where_nothing_streams(self, openai_sdk: openai.OpenAI) -> None:
        with pytest.raises(openai.BadRequestError) as raised:
            openai_sdk.embeddings.create(model="scripted-embed", input="a", extra_body={"stream": True})
        assert raised.value.param == "stream"
        with pytest.raises(openai.BadRequestError) as raised:
            openai_sdk.models.list(extra_query={"stream": "true"})
        assert raised.value.param == "stream"

    @pytest.mark.promise(4, 5, 59)
    @pytest.mark.fault("F10", "F11", "F14")
    def test_an_error_in_the_stream(self, openai_sdk: openai.OpenAI) -> None:
        chunks: list[Any] = []
        stream = openai_sdk.chat.completions.create(model="scripted-error", messages=HI, stream=True)
        with pytest.raises(openai.APIError) as raised:
            chunks.extend(stream)
        assert raised.value.code == "upstream_error"
        assert text_of(chunks) == 'You said: "Hi". This is'
        assert {c.choices[0].finish_reason for c in chunks} == {None}
        with pytest.raises(openai.InternalServerError):
            openai_sdk.chat.completions.create(model="scripted-error", messages=HI)

    @pytest.mark.fault("F12")
    @pytest.mark.parametrize("stream", [False, True])
    def test_an_empty_answer_is_an_error(self, openai_sdk: openai.OpenAI, stream: bool) -> None:
        with pytest.raises(openai.InternalServerError) as raised:
            openai_sdk.chat.completions.create(model="scripted-empty", messages=HI, stream=stream)
        assert raised.value.status_code == 502


class TestLeaving:
    @pytest.mark.promise(33, 72, 73, 74, 75)
    @pytest.mark.fault("F30", "F31")
    def test_an_early_close_reaches_the_model(self, openai_sdk: openai.OpenAI, back: Served) -> None:
        before = back.usage("scripted/scripted-slow")
        stream = openai_sdk.chat.completions.create(model="scripted-slow", messages=HI, stream=True)
        said = ""
        for chunk in stream:
            said += chunk.choices[0].delta.content or ""
            if said:
                break
        assert back.inflight() == 1
        stream.close()
        back.idle()
        record = back.record(stream.response.headers["x-request-id"])
        assert (record.status, record.cancelled_by, record.finish_reason) == (Status.CANCELLED, "client", None)
        assert len(said) <= record.text_chars < 600
        assert record.output_tokens
        after = back.usage("scripted/scripted-slow")
        assert after[Status.CANCELLED] == before.get(Status.CANCELLED, 0) + 1
        assert after.get(Status.COMPLETED) == before.get(Status.COMPLETED)

    @pytest.mark.fault("F31", "F32")
    @pytest.mark.anyio
    async def test_a_cancelled_task_before_the_first_token(self, back: Served, anyio_backend: str) -> None:
        with Leader() as leader:
            messages: Any = [{"role": "user", "content": leader.port}]
            sdk = openai.AsyncOpenAI(base_url=f"{back.url}/v1", api_key="any", max_retries=0)
            async with sdk, anyio.create_task_group() as tasks:

                async def ask() -> None:
                    await sdk.chat.completions.create(model="led/any", messages=messages, stream=True)

                tasks.start_soon(ask)
                await to_thread.run_sync(leader.meet)
                tasks.cancel_scope.cancel()
            await to_thread.run_sync(leader.wait_gone)
            await to_thread.run_sync(back.idle)
        record = await to_thread.run_sync(back.last_record)
        assert (record.status, record.cancelled_by) == (Status.CANCELLED, "client")

    @pytest.mark.anyio
    async def test_many_streams_at_once(self, back: Served, anyio_backend: str) -> None:
        texts: dict[int, str] = {}
        async with openai.AsyncOpenAI(base_url=f"{back.url}/v1", api_key="any", max_retries=0) as sdk:

            async def ask(number: int) -> None:
                messages: Any = [{"role": "user", "content": f"Number {number}"}]
                stream = await sdk.chat.completions.create(model="scripted", messages=messages, stream=True)
                texts[number] = text_of([chunk async for chunk in stream])

            async with anyio.create_task_group() as tasks:
                for number in range(8):
                    tasks.start_soon(ask, number)
        assert texts == {n: echo(f"Number {n}") for n in range(8)}


class TestEmbeddings:
    @pytest.mark.promise(76)
    def test_floats_and_base64_are_the_same_vectors(self, openai_sdk: openai.OpenAI) -> None:
        ask = openai_sdk.embeddings.create
        by_default = ask(model="scripted-embed", input=["river", "mouth"])
        floats = ask(model="scripted-embed", input=["river", "mouth"], encoding_format="float")
        raw: Any = ask(model="scripted-embed", input=["river", "mouth"], encoding_format="base64")
        assert [len(d.embedding) for d in floats.data] == [384, 384]
        for n in range(2):
            decoded = struct.unpack("<384f", base64.b64decode(raw.data[n].embedding))
            assert by_default.data[n].embedding == pytest.approx(floats.data[n].embedding, abs=1e-6)
            assert by_default.data[n].embedding == pytest.approx(decoded, abs=1e-6)
        assert [d.index for d in floats.data] == [0, 1]
        assert floats.usage.prompt_tokens == floats.usage.total_tokens == 2

    def test_dimensions(self, openai_sdk: openai.OpenAI) -> None:
        reply = openai_sdk.embeddings.create(model="scripted-embed", input="river", dimensions=8)
        assert len(reply.data[0].embedding) == 8
        assert sum(x * x for x in reply.data[0].embedding) == pytest.approx(1.0)

    def test_a_model_that_has_none(self, openai_sdk: openai.OpenAI) -> None:
        for model, refusal in (("scripted", openai.NotFoundError), ("tiny", openai.BadRequestError)):
            with pytest.raises(refusal):
                openai_sdk.embeddings.create(model=model, input="river")


class TestModels:
    def test_listed_and_one_by_one(self, openai_sdk: openai.OpenAI) -> None:
        listed = {m.id: m.owned_by for m in openai_sdk.models.list()}
        assert {"scripted", "scripted-embed", "tiny:latest", "governed", "parrot/default"} <= set(listed)
        assert openai_sdk.models.retrieve("tiny").id == "tiny:latest"
        assert openai_sdk.models.retrieve("parrot/default").owned_by == "parrot"
        with pytest.raises(openai.NotFoundError) as raised:
            openai_sdk.models.retrieve("nobody")
        assert raised.value.code == "model_not_found"

    @pytest.mark.promise(62, 63, 64, 65, 66, 67, 68, 69, 70)
    def test_the_routing_block_tells_what_is_configured(self, openai_sdk: openai.OpenAI) -> None:
        reply = openai_sdk.chat.completions.create(model="governed", messages=HI, max_tokens=2)
        block = (reply.model_extra or {})["llmeu"]
        assert block == {
            "trace_id": reply._request_id,
            "model_used": "scripted",
            "model_version": "2026-11",
            "provider": "scripted",
            "endpoint_id": "eu",
            "inference_region": "eu-west",
            "sovereignty_class": "eu-resident",
            "policy_id": "default",
            "retention": "none",
            "cost": {"amount": 5.0, "currency": "EUR", "basis": "measured"},
        }


class TestHeaders:
    def test_the_ids(self, openai_sdk: openai.OpenAI) -> None:
        raw = openai_sdk.chat.completions.with_raw_response.create(
            model="scripted", messages=HI, extra_headers={"x-request-id": "my-own-id"}
        )
        reply = raw.parse()
        call_id = raw.headers["x-request-id"]
        assert raw.headers["request-id"] == raw.headers["x-amzn-requestid"] == call_id
        assert (reply.model_extra or {})["llmeu"]["trace_id"] == reply._request_id == call_id
        assert reply.id == f"chatcmpl-{call_id}"
        assert raw.headers["x-client-request-id"] == "my-own-id"
        assert raw.headers["content-type"] == "application/json"


class TestLocal:
    """A real model on this machine behind the same routes."""

    def test_whole_and_streamed(self, openai_sdk: openai.OpenAI) -> None:
        reply = openai_sdk.chat.completions.create(model="tiny", messages=HI, temperature=0)
        assert (reply.choices[0].message.content, reply.choices[0].finish_reason) == (TEXT, "stop")
        chunks = list(openai_sdk.chat.completions.create(model="tiny", messages=HI, temperature=0, stream=True))
        assert text_of(chunks) == TEXT
        assert reply.usage is not None
        assert reply.usage.prompt_tokens > 0

    def test_length(self, openai_sdk: openai.OpenAI) -> None:
        reply = openai_sdk.chat.completions.create(model="tiny", messages=HI, temperature=0, max_tokens=3)
        assert (reply.choices[0].message.content, reply.choices[0].finish_reason) == ("Hello from a", "length")

    @pytest.mark.promise(33, 34, 72)
    @pytest.mark.fault("F31")
    def test_leaving_stops_it(self, openai_sdk: openai.OpenAI, back: Served) -> None:
        with openai_sdk.chat.completions.create(model="loop", messages=HI, temperature=0, stream=True) as stream:
            assert any(chunk.choices[0].delta.content for chunk in stream)
        back.idle()
        record = back.record(stream.response.headers["x-request-id"])
        assert (record.status, record.cancelled_by) == (Status.CANCELLED, "client")
        assert 0 < (record.output_tokens or 0) < 16384

    def test_what_it_cannot_do_is_said(self, openai_sdk: openai.OpenAI) -> None:
        image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
        with pytest.raises(openai.BadRequestError):
            openai_sdk.chat.completions.create(model="tiny", messages=[{"role": "user", "content": [image]}])  # type: ignore[list-item,misc]

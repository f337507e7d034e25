"""The Anthropic SDK against a running server."""

from __future__ import annotations

import base64
import json
from typing import Any, Literal

import anthropic
import anyio
import pydantic
import pytest
from anyio import to_thread

from rivermouth.store.port import Status
from tests.sdk.conftest import BODY_LIMIT_BYTES, KEY
from tests.sdk.leader import Leader
from tests.sdk.said import ARGUMENTS, CITY, PIXEL, SEPARATORS, SIGNED, echo, thought
from tests.sdk.served import Served
from tests.tiny_gguf import TEXT

HI: Any = [{"role": "user", "content": "Hi"}]
BOTH: Any = [{"role": "user", "content": "Try both tools."}]
WEATHER: Any = {"name": "weather", "description": "Today's", "input_schema": CITY}
TIME: Any = {"name": "time", "input_schema": {"type": "object", "properties": {}}}
THINK: Any = {"type": "enabled", "budget_tokens": 1024}
ROOM = 2000


def text_of(message: Any) -> str:
    return "".join(b.text for b in message.content if b.type == "text")


def streamed(sdk: anthropic.Anthropic, **fields: Any) -> Any:
    """What the SDK's accumulator makes of the stream."""
    with sdk.messages.stream(**{"model": "scripted", "max_tokens": ROOM, "messages": HI, **fields}) as stream:
        return stream.get_final_message()


def whole(sdk: anthropic.Anthropic, **fields: Any) -> Any:
    return sdk.messages.create(**{"model": "scripted", "max_tokens": ROOM, "messages": HI, **fields})


both_ways = pytest.mark.parametrize("ask", [whole, streamed])


class TestText:
    @pytest.mark.promise(150, 151, 155)
    @both_ways
    def test_text(self, anthropic_sdk: anthropic.Anthropic, ask: Any) -> None:
        message = ask(anthropic_sdk)
        assert (message.type, message.role, message.model) == ("message", "assistant", "scripted")
        assert [(b.type, b.text) for b in message.content] == [("text", echo("Hi"))]
        assert (message.stop_reason, message.stop_sequence) == ("end_turn", None)
        assert message.usage.input_tokens == 1
        assert message.usage.output_tokens > 10
        assert message.id.startswith("msg_")

    @pytest.mark.promise(149, 150, 151, 152, 153, 154, 155, 156)
    def test_the_events(self, anthropic_sdk: anthropic.Anthropic) -> None:
        events = list(anthropic_sdk.messages.create(model="scripted", max_tokens=2, messages=HI, stream=True))
        assert [e.type for e in events] == [
            "message_start",
            "content_block_start",
            "content_block_delta",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop",
        ]

    @pytest.mark.parametrize("prefix", ["/anthropic", "/v1", "/anthropic/v1"])
    def test_other_places(self, back: Served, prefix: str) -> None:
        with anthropic.Anthropic(base_url=back.url + prefix, api_key="any", max_retries=0) as sdk:
            assert text_of(streamed(sdk)) == echo("Hi")
            assert sdk.models.list().data

    @both_ways
    def test_limits(self, anthropic_sdk: anthropic.Anthropic, ask: Any) -> None:
        cut = ask(anthropic_sdk, max_tokens=3)
        assert (cut.stop_reason, cut.usage.output_tokens) == ("max_tokens", 3)
        stopped = ask(anthropic_sdk, stop_sequences=["nothing", "scripted"])
        assert (stopped.stop_reason, stopped.stop_sequence) == ("stop_sequence", "scripted")
        assert text_of(stopped) == echo("Hi").partition("scripted")[0]

    @pytest.mark.fault("F5")
    @both_ways
    def test_separators_of_lines_are_text(self, anthropic_sdk: anthropic.Anthropic, ask: Any) -> None:
        messages = [{"role": "user", "content": SEPARATORS}]
        assert text_of(ask(anthropic_sdk, model="parrot/any", messages=messages)) == SEPARATORS

    @both_ways
    def test_images_arrive(self, anthropic_sdk: anthropic.Anthropic, ask: Any) -> None:
        image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
        messages = [{"role": "user", "content": [image, {"type": "text", "text": "Look"}]}]
        assert text_of(ask(anthropic_sdk, messages=messages)) == f'You said: "Look". I was given 1 image. {SIGNED}'


class TestTools:
    @both_ways
    def test_a_call(self, anthropic_sdk: anthropic.Anthropic, ask: Any) -> None:
        message = ask(anthropic_sdk, tools=[WEATHER, TIME])
        (block,) = message.content
        assert (block.type, block.name, block.input) == ("tool_use", "weather", ARGUMENTS)
        assert message.stop_reason == "tool_use"

    @both_ways
    def test_parallel_calls(self, anthropic_sdk: anthropic.Anthropic, ask: Any) -> None:
        message = ask(anthropic_sdk, messages=BOTH, tools=[WEATHER])
        assert [b.input for b in message.content] == [ARGUMENTS, ARGUMENTS]
        assert len({b.id for b in message.content}) == 2
        one = {"type": "auto", "disable_parallel_tool_use": True}
        assert len(ask(anthropic_sdk, messages=BOTH, tools=[WEATHER], tool_choice=one).content) == 1

    @both_ways
    def test_forced_and_forbidden(self, anthropic_sdk: anthropic.Anthropic, ask: Any) -> None:
        named = ask(anthropic_sdk, tools=[WEATHER, TIME], tool_choice={"type": "tool", "name": "time"})
        assert [(b.name, b.input) for b in named.content] == [("time", {})]
        assert text_of(ask(anthropic_sdk, tools=[WEATHER], tool_choice={"type": "none"})) == echo("Hi")

    @both_ways
    def test_the_results_come_back(self, anthropic_sdk: anthropic.Anthropic, ask: Any) -> None:
        first = ask(anthropic_sdk, messages=BOTH, tools=[WEATHER])
        results = [
            {"type": "tool_result", "tool_use_id": b.id, "content": f"rain {n}", "is_error": n == 1}
            for n, b in enumerate(first.content)
        ]
        talk = [*BOTH, {"role": "assistant", "content": first.content}, {"role": "user", "content": results[::-1]}]
        said = text_of(ask(anthropic_sdk, messages=talk, tools=[WEATHER]))
        assert said == f'weather failed with "rain 1". weather answered "rain 0". {SIGNED}'


class Place(pydantic.BaseModel):
    city: Literal["Köln", "Düsseldorf"]
    days: int


class TestStructure:
    @both_ways
    def test_a_schema(self, anthropic_sdk: anthropic.Anthropic, ask: Any) -> None:
        message = ask(anthropic_sdk, output_config={"format": {"type": "json_schema", "schema": CITY}})
        assert json.loads(text_of(message)) == ARGUMENTS

    def test_the_parse_helper(self, anthropic_sdk: anthropic.Anthropic) -> None:
        message = anthropic_sdk.messages.parse(model="scripted", max_tokens=100, messages=HI, output_format=Place)
        assert message.parsed_output == Place(city="Köln", days=0)


class TestReasoning:
    @both_ways
    @pytest.mark.parametrize(
        "fields", [{"thinking": THINK}, {"thinking": {"type": "adaptive"}}, {"model": "scripted-think"}]
    )
    def test_it_is_a_signed_block(self, anthropic_sdk: anthropic.Anthropic, ask: Any, fields: Any) -> None:
        thinking, text = ask(anthropic_sdk, **fields).content
        assert (thinking.type, thinking.thinking) == ("thinking", thought("Hi"))
        assert thinking.signature
        assert (text.type, text.text) == ("text", echo("Hi"))

    @both_ways
    def test_signed_reasoning_comes_back_unchanged(self, anthropic_sdk: anthropic.Anthropic, ask: Any) -> None:
        """The scripted model's signature depends on all that it was given, that of earlier reasoning included."""
        first = [b.model_dump(exclude_none=True) for b in ask(anthropic_sdk, thinking=THINK).content]
        forged = [{**first[0], "signature": base64.b64encode(b"forged").decode()}, first[1]]
        answers = [
            ask(anthropic_sdk, thinking=THINK, messages=[*HI, {"role": "assistant", "content": content}, *HI])
            for content in (first, first, forged, first[1:])
        ]
        signatures = [a.content[0].signature for a in answers]
        assert signatures[0] == signatures[1]
        assert len(set(signatures)) == 3
        tokens = [a.usage.input_tokens for a in answers]
        assert tokens[0] == tokens[2] > tokens[3]


class TestErrors:
    @pytest.mark.fault("F15")
    @both_ways
    def test_an_unknown_model(self, anthropic_sdk: anthropic.Anthropic, ask: Any) -> None:
        with pytest.raises(anthropic.NotFoundError) as raised:
            ask(anthropic_sdk, model="nobody")
        assert raised.value.type == "not_found_error"
        assert "nobody" in raised.value.message
        assert raised.value.request_id

    @pytest.mark.parametrize(
        ("fields", "field"),
        [
            ({"messages": 3}, "messages"),
            ({"messages": [{"role": "user", "content": [{"type": "text", "text": 3}]}]}, "messages.0.content.0.text"),
            ({"messages": [{"role": "poet", "content": "Hi"}]}, "messages.0.role"),
            ({"max_tokens": "many"}, "max_tokens"),
            ({"max_tokens": None}, "max_tokens"),
            ({"tools": [{"name": "x"}]}, "tools.0.input_schema"),
            ({"thinking": {"type": "deep"}}, "thinking.type"),
        ],
    )
    def test_a_wrong_type_names_its_field(
        self, anthropic_sdk: anthropic.Anthropic, fields: dict[str, Any], field: str
    ) -> None:
        body = {"model": "scripted", "max_tokens": 9, "messages": HI, **fields}
        with pytest.raises(anthropic.BadRequestError) as raised:
            anthropic_sdk.post("/v1/messages", body=body, cast_to=object)
        assert raised.value.type == "invalid_request_error"
        assert field in raised.value.message

    def test_what_is_no_json(self, anthropic_sdk: anthropic.Anthropic) -> None:
        with pytest.raises(anthropic.BadRequestError):
            anthropic_sdk.post("/v1/messages", content=b'{"model": "scripted', cast_to=object)

    @pytest.mark.parametrize("place", ["api_key", "auth_token", "x-api-key"])
    def test_keys(self, keyed: Served, place: str) -> None:
        """The SDK's own two places, which are both a bearer token today, and the header of earlier versions."""

        def client(key: str) -> anthropic.Anthropic:
            fields: Any = {"base_url": keyed.url, "max_retries": 0}
            if place == "x-api-key":
                fields |= {"api_key": "unused", "default_headers": {"x-api-key": key, "authorization": ""}}
            else:
                fields |= {place: key}
            return anthropic.Anthropic(**fields)

        with client(KEY) as sdk:
            assert text_of(streamed(sdk)) == echo("Hi")
        with client("wrong") as sdk:
            for ask in (whole, streamed):
                with pytest.raises(anthropic.AuthenticationError) as raised:
                    ask(sdk)
                assert raised.value.type == "authentication_error"
            with pytest.raises(anthropic.AuthenticationError):
                sdk.models.list()

    def test_a_body_over_the_limit(self, anthropic_sdk: anthropic.Anthropic) -> None:
        with pytest.raises(anthropic.APIStatusError) as raised:
            whole(anthropic_sdk, messages=[{"role": "user", "content": "x" * BODY_LIMIT_BYTES}])
        assert (raised.value.status_code, raised.value.type) == (413, "request_too_large")

    def test_a_wrong_method_and_an_unknown_route(self, anthropic_sdk: anthropic.Anthropic) -> None:
        with pytest.raises(anthropic.APIStatusError) as raised:
            anthropic_sdk.get("/v1/messages", cast_to=object)
        assert raised.value.status_code == 405
        with pytest.raises(anthropic.NotFoundError) as unknown:
            anthropic_sdk.messages.batches.list()
        assert unknown.value.type == "not_found_error"
        assert "POST /v1/messages" in unknown.value.message

    @pytest.mark.promise(78)
    def test_a_stream_where_nothing_streams(self, anthropic_sdk: anthropic.Anthropic) -> None:
        with pytest.raises(anthropic.BadRequestError, match="stream"):
            anthropic_sdk.messages.count_tokens(model="scripted", messages=HI, extra_body={"stream": True})
        with pytest.raises(anthropic.BadRequestError, match="stream"):
            anthropic_sdk.models.list(extra_query={"stream": "true"})

    @pytest.mark.fault("F10", "F11", "F13", "F14")
    def test_an_error_in_the_stream(self, anthropic_sdk: anthropic.Anthropic) -> None:
        events: list[Any] = []
        stream = anthropic_sdk.messages.create(model="scripted-error", max_tokens=ROOM, messages=HI, stream=True)
        with pytest.raises(anthropic.APIStatusError) as raised:
            events.extend(stream)
        assert raised.value.type == "api_error"
        said = "".join(e.delta.text for e in events if e.type == "content_block_delta")
        assert said == 'You said: "Hi". This is'
        assert events[-1].type == "content_block_stop"
        with pytest.raises(anthropic.APIStatusError):
            streamed(anthropic_sdk, model="scripted-error")
        with pytest.raises(anthropic.InternalServerError):
            whole(anthropic_sdk, model="scripted-error")

    @pytest.mark.fault("F12")
    @both_ways
    def test_an_empty_answer_is_an_error(self, anthropic_sdk: anthropic.Anthropic, ask: Any) -> None:
        with pytest.raises(anthropic.InternalServerError):
            ask(anthropic_sdk, model="scripted-empty")


class TestLeaving:
    @pytest.mark.promise(33, 72, 73, 75)
    @pytest.mark.fault("F31")
    def test_an_early_close_reaches_the_model(self, anthropic_sdk: anthropic.Anthropic, back: Served) -> None:
        with anthropic_sdk.messages.stream(model="scripted-slow", max_tokens=ROOM, messages=HI) as stream:
            said = next(stream.text_stream)
            assert back.inflight() == 1
        back.idle()
        record = back.record(str(stream.response.headers["request-id"]))
        assert (record.status, record.cancelled_by) == (Status.CANCELLED, "client")
        assert len(said) <= record.text_chars < 600

    @pytest.mark.fault("F31", "F32")
    @pytest.mark.anyio
    async def test_a_cancelled_task_before_the_first_token(self, back: Served, anyio_backend: str) -> None:
        with Leader() as leader:
            messages: Any = [{"role": "user", "content": leader.port}]
            sdk = anthropic.AsyncAnthropic(base_url=back.url, api_key="any", max_retries=0)
            async with sdk, anyio.create_task_group() as tasks:

                async def ask() -> None:
                    async with sdk.messages.stream(model="led/any", max_tokens=9, messages=messages) as stream:
                        await stream.until_done()

                tasks.start_soon(ask)
                await to_thread.run_sync(leader.meet)
                tasks.cancel_scope.cancel()
            await to_thread.run_sync(leader.wait_gone)
            await to_thread.run_sync(back.idle)
        record = await to_thread.run_sync(back.last_record)
        assert (record.status, record.cancelled_by) == (Status.CANCELLED, "client")

    @pytest.mark.anyio
    async def test_asynchronously(self, back: Served, anyio_backend: str) -> None:
        sdk = anthropic.AsyncAnthropic(base_url=back.url, api_key="any", max_retries=0)
        ask = sdk.messages.stream(model="scripted-think", max_tokens=ROOM, messages=HI)
        async with sdk, ask as stream:
            texts = [text async for text in stream.text_stream]
            message = await stream.get_final_message()
        assert "".join(texts) == text_of(message) == echo("Hi")


class TestOthers:
    def test_count_tokens(self, anthropic_sdk: anthropic.Anthropic) -> None:
        count = anthropic_sdk.messages.count_tokens
        few = count(model="scripted", messages=HI).input_tokens
        many = count(model="scripted", messages=[{"role": "user", "content": "Hi " * 400}]).input_tokens
        assert 0 < few < 20 < 200 < many < 800
        with pytest.raises(anthropic.NotFoundError):
            count(model="nobody", messages=HI)

    def test_models(self, anthropic_sdk: anthropic.Anthropic) -> None:
        listed = {m.id: m.type for m in anthropic_sdk.models.list()}
        assert {"scripted", "tiny:latest", "governed"} <= set(listed)
        assert set(listed.values()) == {"model"}
        assert anthropic_sdk.models.retrieve("tiny").max_input_tokens == 2048
        assert anthropic_sdk.models.retrieve("parrot/default").id == "parrot/default"
        with pytest.raises(anthropic.NotFoundError):
            anthropic_sdk.models.retrieve("nobody")

    def test_the_ids(self, anthropic_sdk: anthropic.Anthropic) -> None:
        raw = anthropic_sdk.messages.with_raw_response.create(model="scripted", max_tokens=9, messages=HI)
        message = raw.parse()
        assert message._request_id == raw.headers["request-id"] == raw.headers["x-request-id"]
        assert message.id == f"msg_{message._request_id}"

    @both_ways
    def test_a_local_model(self, anthropic_sdk: anthropic.Anthropic, ask: Any) -> None:
        message = ask(anthropic_sdk, model="tiny", extra_body={"temperature": 0})
        assert (text_of(message), message.stop_reason) == (TEXT, "end_turn")

"""The OpenAI SDK's Responses and Completions against a running server, and through it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, Literal

import anyio
import openai
import pydantic
import pytest
from anyio import to_thread

from rivermouth.store.port import Status
from tests.sdk.leader import Leader
from tests.sdk.said import ARGUMENTS, CITY, PIXEL, SEPARATORS, SIGNED, echo, thought
from tests.sdk.served import Served
from tests.tiny_gguf import TEXT

WEATHER: Final[Any] = {"type": "function", "name": "weather", "description": "Today's", "parameters": CITY}
TIME: Final[Any] = {"type": "function", "name": "time", "parameters": {"type": "object", "properties": {}}}
STRICT: Final[Any] = {**WEATHER, "strict": True}


class Place(pydantic.BaseModel):
    city: Literal["Köln", "Düsseldorf"]
    days: int


def calls_of(response: Any) -> list[Any]:
    return [item for item in response.output if item.type in ("function_call", "custom_tool_call")]


class TestText:
    @pytest.mark.promise(49)
    def test_whole_and_streamed(self, openai_sdk: openai.OpenAI) -> None:
        whole = openai_sdk.responses.create(model="scripted", input="Hi")
        with openai_sdk.responses.stream(model="scripted", input="Hi") as stream:
            events = list(stream)
            final = stream.get_final_response()
        assert whole.output_text == final.output_text == echo("Hi")
        assert (whole.status, final.status, whole.model) == ("completed", "completed", "scripted")
        assert [e.sequence_number for e in events] == list(range(len(events)))
        assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == echo("Hi")
        assert whole.usage == final.usage
        assert whole.usage is not None
        assert whole.usage.total_tokens == whole.usage.input_tokens + whole.usage.output_tokens

    @pytest.mark.anyio
    async def test_asynchronously(self, back: Served, anyio_backend: str) -> None:
        async with openai.AsyncOpenAI(base_url=f"{back.url}/openai/v1", api_key="any", max_retries=0) as sdk:
            async with sdk.responses.stream(model="scripted", input="Hi") as stream:
                assert (await stream.get_final_response()).output_text == echo("Hi")
            assert (await sdk.responses.create(model="scripted", input="Hi")).output_text == echo("Hi")

    def test_the_id_is_that_of_the_call(self, openai_sdk: openai.OpenAI) -> None:
        raw = openai_sdk.responses.with_raw_response.create(model="scripted", input="Hi")
        response = raw.parse()
        assert response.id == f"resp_{raw.headers['x-request-id']}"
        assert response._request_id == raw.headers["x-request-id"]

    def test_instructions_and_items(self, openai_sdk: openai.OpenAI) -> None:
        parts = [
            {"type": "input_text", "text": "Look"},
            *[{"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}", "detail": "auto"}] * 2,
        ]
        items: Any = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": parts}]
        response = openai_sdk.responses.create(model="scripted", instructions="Be kind.", input=items)
        assert response.output_text == f'You said: "Look". I was given 2 images. {SIGNED}'

    def test_length(self, openai_sdk: openai.OpenAI) -> None:
        whole = openai_sdk.responses.create(model="scripted", input="Hi", max_output_tokens=3)
        with openai_sdk.responses.stream(model="scripted", input="Hi", max_output_tokens=3) as stream:
            last = list(stream)[-1]
        assert last.type == "response.incomplete"
        for response in (whole, last.response):
            assert (response.status, response.usage.output_tokens) == ("incomplete", 3)
            assert response.incomplete_details.reason == "max_output_tokens"
            assert echo("Hi").startswith(response.output_text)

    @pytest.mark.fault("F5")
    def test_separators_of_lines_are_text(self, openai_sdk: openai.OpenAI) -> None:
        with openai_sdk.responses.stream(model="parrot/any", input=SEPARATORS) as stream:
            assert stream.get_final_response().output_text == SEPARATORS

    def test_a_local_model(self, openai_sdk: openai.OpenAI) -> None:
        with openai_sdk.responses.stream(model="tiny", input="Hi", temperature=0) as stream:
            assert stream.get_final_response().output_text == TEXT


class TestTools:
    def test_whole_and_streamed(self, openai_sdk: openai.OpenAI) -> None:
        whole = openai_sdk.responses.create(model="scripted", input="Hi", tools=[STRICT, TIME])
        with openai_sdk.responses.stream(model="scripted", input="Hi", tools=[STRICT, TIME]) as stream:
            final = stream.get_final_response()
        for response in (whole, final):
            (call,) = calls_of(response)
            assert (response.status, call.name, json.loads(call.arguments)) == ("completed", "weather", ARGUMENTS)
        assert calls_of(final)[0].parsed_arguments == ARGUMENTS

    @pytest.mark.fault("F26")
    def test_parallel(self, openai_sdk: openai.OpenAI) -> None:
        with openai_sdk.responses.stream(model="scripted", input="Try both tools.", tools=[WEATHER]) as stream:
            calls = calls_of(stream.get_final_response())
        assert [json.loads(c.arguments) for c in calls] == [ARGUMENTS, ARGUMENTS]
        assert len({c.call_id for c in calls}) == len({c.id for c in calls}) == 2
        one = openai_sdk.responses.create(
            model="scripted", input="Try both tools.", tools=[WEATHER], parallel_tool_calls=False
        )
        assert len(calls_of(one)) == 1

    def test_chosen_allowed_and_forbidden(self, openai_sdk: openai.OpenAI) -> None:
        def called(choice: Any) -> list[str]:
            tools = [WEATHER, TIME]
            response = openai_sdk.responses.create(model="scripted", input="Hi", tools=tools, tool_choice=choice)
            return [c.name for c in calls_of(response)]

        assert called({"type": "function", "name": "time"}) == ["time"]
        allowed = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "time"}]}
        assert called(allowed) == ["time"]
        assert called("none") == []

    def test_what_an_agent_sends_together(self, openai_sdk: openai.OpenAI) -> None:
        """Free forms and namespaces are called by their own names; what only the vendor runs is left out and named."""
        custom: Any = {"type": "custom", "name": "sh", "description": "Runs it."}
        space: Any = {"type": "namespace", "name": "mcp__browser", "description": "One.", "tools": [TIME]}
        search: Any = {"type": "web_search"}
        raw = openai_sdk.responses.with_raw_response.create(
            model="scripted", input="Hi", tools=[search, custom, space], tool_choice={"type": "custom", "name": "sh"}
        )
        (call,) = calls_of(raw.parse())
        assert (call.type, call.name, type(call.input)) == ("custom_tool_call", "sh", str)
        assert raw.headers["x-rivermouth-ignored"] == "tools.web_search"
        with openai_sdk.responses.stream(model="scripted", input="Hi", tools=[space]) as stream:
            (call,) = calls_of(stream.get_final_response())
        assert (call.type, call.namespace, call.name) == ("function_call", "mcp__browser", "time")

    def test_the_results_come_back(self, openai_sdk: openai.OpenAI) -> None:
        talk: list[Any] = [{"role": "user", "content": "Try both tools."}]
        talk += openai_sdk.responses.create(model="scripted", input=talk, tools=[WEATHER]).output
        results = [
            {"type": "function_call_output", "call_id": c.call_id, "output": f"rain {n}"}
            for n, c in enumerate(i for i in talk if getattr(i, "type", "") == "function_call")
        ]
        response = openai_sdk.responses.create(model="scripted", input=[*talk, *reversed(results)], tools=[WEATHER])
        assert response.output_text == f'weather answered "rain 1". weather answered "rain 0". {SIGNED}'


def test_a_schema(openai_sdk: openai.OpenAI) -> None:
    assert openai_sdk.responses.parse(model="scripted", input="Hi", text_format=Place).output_parsed == Place(
        city="Köln", days=0
    )
    with openai_sdk.responses.stream(model="scripted", input="Hi", text_format=Place) as stream:
        assert stream.get_final_response().output_parsed == Place(city="Köln", days=0)
    loose = openai_sdk.responses.create(model="scripted", input="Hi", text={"format": {"type": "json_object"}})
    assert json.loads(loose.output_text) == {"answer": echo("Hi")}


class TestReasoning:
    def test_it_is_told_apart_and_sealed(self, openai_sdk: openai.OpenAI) -> None:
        with openai_sdk.responses.stream(
            model="scripted", input="Hi", reasoning={"effort": "low", "summary": "auto"}
        ) as stream:
            response = stream.get_final_response()
        item = response.output[0]
        assert item.type == "reasoning"
        assert [s.text for s in item.summary] == [thought("Hi")]
        assert item.encrypted_content
        assert response.output_text == echo("Hi")
        assert response.usage is not None
        assert 0 < response.usage.output_tokens_details.reasoning_tokens < response.usage.output_tokens

    @pytest.mark.fault("F25")
    def test_it_comes_back_unread_and_unchanged(self, openai_sdk: openai.OpenAI) -> None:
        """The scripted model's answer depends on all that it was given, an earlier thought's seal included."""
        hi: list[Any] = [{"role": "user", "content": "Hi"}]

        def ask(items: list[Any]) -> Any:
            return openai_sdk.responses.create(model="scripted-think", input=items, store=False)

        def seal(response: Any) -> str:
            return str(response.output[0].encrypted_content)

        first = [item.to_dict() for item in ask(hi).output]
        forged = [{**first[0], "encrypted_content": "gAAAAAforged"}, *first[1:]]
        bare = [{**first[0], "content": None}, *first[1:]]  # as agents send it
        answers = [ask([*hi, *turn, *hi]) for turn in (first, bare, forged, first[1:])]
        assert seal(answers[0]) == seal(answers[1])
        assert len({seal(a) for a in answers}) == 3
        assert all(a.output_text == answers[0].output_text for a in answers)


class TestErrors:
    @pytest.mark.fault("F15")
    @pytest.mark.parametrize(
        ("fields", "param"),
        [
            ({"input": 3}, "input"),
            ({"input": []}, "input"),
            ({"temperature": 3}, "temperature"),
            ({"tools": [{"type": "function"}]}, "tools[0].name"),
            ({"previous_response_id": "resp_1"}, "previous_response_id"),
            ({"conversation": "conv_1"}, "conversation"),
            ({"background": True}, "background"),
            ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input[0]"),
        ],
    )
    def test_a_wrong_field_is_named(self, openai_sdk: openai.OpenAI, fields: dict[str, Any], param: str) -> None:
        with pytest.raises(openai.BadRequestError) as raised:
            openai_sdk.post("/responses", body={"model": "scripted", "input": "Hi", **fields}, cast_to=object)
        assert raised.value.param == param

    def test_nothing_is_stored_and_the_answer_says_so(self, openai_sdk: openai.OpenAI) -> None:
        response = openai_sdk.responses.create(model="scripted", input="Hi", store=True)
        assert response.to_dict()["store"] is False
        with pytest.raises(openai.NotFoundError) as raised:
            openai_sdk.responses.retrieve(response.id)
        assert raised.value.type == "invalid_request_error"

    @pytest.mark.fault("F10", "F11", "F14")
    def test_an_error_in_the_stream(self, openai_sdk: openai.OpenAI) -> None:
        with openai_sdk.responses.stream(model="scripted-error", input="Hi") as stream:
            events = list(stream)
        assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == 'You said: "Hi". This is'
        last = events[-1]
        assert last.type == "response.failed"
        assert last.response.error is not None
        assert last.response.error.code == "server_error"
        with pytest.raises(openai.InternalServerError):
            openai_sdk.responses.create(model="scripted-error", input="Hi")

    @pytest.mark.fault("F12", "F15")
    @pytest.mark.parametrize("stream", [False, True])
    def test_before_the_answer(self, openai_sdk: openai.OpenAI, stream: bool) -> None:
        for model, raised in (("nobody", openai.NotFoundError), ("scripted-empty", openai.InternalServerError)):
            with pytest.raises(raised):
                openai_sdk.responses.create(model=model, input="Hi", stream=stream)

    def test_tokens_are_counted(self, openai_sdk: openai.OpenAI) -> None:
        counted = openai_sdk.responses.input_tokens.count(model="scripted", input="How many are these?")
        assert (counted.object, counted.input_tokens > 3) == ("response.input_tokens", True)
        with pytest.raises(openai.BadRequestError) as raised:
            openai_sdk.responses.input_tokens.count(model="scripted", input="Hi", extra_body={"stream": True})
        assert raised.value.param == "stream"


class TestLeaving:
    @pytest.mark.promise(33, 72, 75)
    @pytest.mark.fault("F30", "F31")
    def test_an_early_close_reaches_the_model(self, openai_sdk: openai.OpenAI, back: Served) -> None:
        with openai_sdk.responses.create(model="scripted-slow", input="Hi", stream=True) as stream:
            assert any(event.type == "response.output_text.delta" for event in stream)
        back.idle()
        record = back.record(stream.response.headers["x-request-id"])
        assert (record.status, record.cancelled_by, record.dialect) == (Status.CANCELLED, "client", "openai_responses")

    @pytest.mark.fault("F31", "F32")
    @pytest.mark.anyio
    async def test_a_cancelled_task_before_the_first_token(self, back: Served, anyio_backend: str) -> None:
        with Leader() as leader:
            sdk = openai.AsyncOpenAI(base_url=f"{back.url}/v1", api_key="any", max_retries=0)
            async with sdk, anyio.create_task_group() as tasks:

                async def ask() -> None:
                    await sdk.responses.create(model="led/any", input=leader.port, stream=True)

                tasks.start_soon(ask)
                await to_thread.run_sync(leader.meet)
                tasks.cancel_scope.cancel()
            await to_thread.run_sync(leader.wait_gone)
            await to_thread.run_sync(back.idle)
        record = await to_thread.run_sync(back.last_record)
        assert (record.status, record.cancelled_by) == (Status.CANCELLED, "client")


@pytest.fixture(scope="module")
def through(front: Served) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{front.url}/v1", api_key="any", max_retries=0) as sdk:
        yield sdk


@pytest.mark.parametrize("upstream", ["openai", "responses", "anthropic", "ollama"])
class TestThrough:
    """Another server in between, which is asked in each dialect."""

    def test_an_agents_turns(self, through: openai.OpenAI, upstream: str) -> None:
        """Thoughts, two calls at once, their results; what the SDK was given goes back as it is."""
        talk: list[Any] = [{"role": "user", "content": "Try both tools."}]
        fields: dict[str, Any] = {
            "model": f"via-{upstream}/scripted",
            "tools": [WEATHER],
            "reasoning": {"effort": "low", "summary": "auto"},
            "include": ["reasoning.encrypted_content"],
            "store": False,
        }
        with through.responses.stream(input=talk, **fields) as stream:
            first = stream.get_final_response()
        calls = calls_of(first)
        assert [json.loads(c.arguments) for c in calls] == [ARGUMENTS, ARGUMENTS]
        assert any(item.type == "reasoning" for item in first.output)
        assert len({c.call_id for c in calls}) == 2
        results = [{"type": "function_call_output", "call_id": c.call_id, "output": "rain"} for c in calls]
        with through.responses.stream(input=[*talk, *first.output, *results], **fields) as stream:
            last = stream.get_final_response()
        assert last.output_text == f'weather answered "rain". weather answered "rain". {SIGNED}'
        assert last.id == f"resp_{stream._response.headers['x-request-id']}"

    def test_free_forms_and_namespaces(self, through: openai.OpenAI, upstream: str) -> None:
        custom: Any = {"type": "custom", "name": "sh", "description": "Runs it."}
        space: Any = {"type": "namespace", "name": "mcp__browser", "description": "One.", "tools": [TIME]}
        for tools, want in (([custom], ("custom_tool_call", "sh")), ([space], ("function_call", "time"))):
            with through.responses.stream(model=f"via-{upstream}/scripted", input="Hi", tools=tools) as stream:
                (call,) = calls_of(stream.get_final_response())
            assert (call.type, call.name) == want
            assert getattr(call, "namespace", None) == ("mcp__browser" if want[1] == "time" else None)


class TestCompletions:
    def test_whole_and_streamed(self, openai_sdk: openai.OpenAI) -> None:
        whole = openai_sdk.completions.create(model="scripted", prompt="Hi", max_tokens=99)
        pieces = list(openai_sdk.completions.create(model="scripted", prompt="Hi", stream=True))
        assert whole.choices[0].text == "".join(c.text for p in pieces for c in p.choices) == echo("Hi")
        assert whole.choices[0].finish_reason == pieces[-1].choices[0].finish_reason == "stop"

    def test_a_local_model_goes_on_with_the_text_itself(self, openai_sdk: openai.OpenAI) -> None:
        raw = openai_sdk.completions.with_raw_response.create(model="tiny", prompt="Hello", temperature=0)
        reply = raw.parse()
        chat = openai_sdk.responses.create(model="tiny", input="Hello", temperature=0)
        assert "x-rivermouth-ignored" not in raw.headers
        assert reply.usage is not None
        assert chat.usage is not None
        assert 0 < reply.usage.prompt_tokens < chat.usage.input_tokens, "no template is around it"

    def test_choices_and_what_is_ignored(self, openai_sdk: openai.OpenAI) -> None:
        raw = openai_sdk.completions.with_raw_response.create(model="scripted", prompt="Hi", n=2, echo=True)
        assert [c.text for c in raw.parse().choices] == [f"{echo('Hi')} (Choice {n} of 2.)" for n in (1, 2)]
        assert "echo" in raw.headers["x-rivermouth-ignored"]

    @pytest.mark.parametrize("prompt", [[1, 2, 3], ["a", "b"]])
    def test_a_prompt_that_only_its_own_protocol_can_carry(self, openai_sdk: openai.OpenAI, prompt: Any) -> None:
        with pytest.raises(openai.BadRequestError) as raised:
            openai_sdk.completions.create(model="scripted", prompt=prompt)
        assert raised.value.param == "prompt"

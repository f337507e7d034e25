"""The vendor's own SDK on a loopback socket: its accumulator assembles every stream, and what it sends back is read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import openai
import pydantic
import pytest

from rivermouth.dialects.openai_responses import DIALECT
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.events import (
    ArgsDelta,
    Error,
    Event,
    Finish,
    MediaDelta,
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
from rivermouth.ir.request import Reasoning, Request, Role, Text, ToolCall, ToolResult
from tests.dialects.loopback import Loopback, loopback
from tests.dialects.openai_responses.case import text
from tests.dialects.openai_responses.test_tools import BROWSER, PATCH, SEARCH, WEATHER
from tests.goldens.cases import PIXEL

TOOLS: Any = [WEATHER, PATCH, {**BROWSER, "tools": BROWSER["tools"][:2]}, SEARCH]
NASTY = 'a\u2028b\x85c "\\ 🗼'


def call(part: int, name: str, *pieces: str) -> list[Event]:
    return [
        PartStart(part, PartKind.TOOL, 0, f"call_{part}", name),
        *(ArgsDelta(part, p) for p in pieces),
        PartEnd(part),
    ]


THOUGHT: list[Event] = [
    PartStart(0, PartKind.REASONING),
    ReasoningDelta(0, "h"),
    ReasoningDelta(0, "m"),
    Signature(0, "anthropic:EqQB"),
    PartEnd(0),
]
USAGE = Usage(12, 7, 4, 0, 3)


def finished(*events: Event, reason: Reason = Reason.STOP) -> list[Event]:
    return [Start(), *events, USAGE, Finish(reason)]


STREAMS: dict[str, list[Event]] = {
    "text": finished(*text(0, "Deep ", NASTY)),
    "tools": finished(*text(0, "So."), *call(1, "weather", '{"city"', ':"Köln"}'), reason=Reason.TOOL_CALLS),
    "parallel": finished(
        PartStart(0, PartKind.TOOL, 0, "call_0", "weather"),
        PartStart(1, PartKind.TOOL, 0, "call_1", "weather"),
        ArgsDelta(1, '{"city":"b"}'),
        ArgsDelta(0, '{"city":"a"}'),
        PartEnd(1),
        PartEnd(0),
        reason=Reason.TOOL_CALLS,
    ),
    "free form": finished(*call(0, "apply_patch", '{"input":"+a\\n', '\\"q\\""}'), reason=Reason.TOOL_CALLS),
    "namespace": finished(*call(0, "mcp__browser__click", '{"ref":1}'), reason=Reason.TOOL_CALLS),
    "reasoning": finished(*THOUGHT, *text(1, "42")),
    "hidden reasoning": finished(
        PartStart(0, PartKind.REASONING, redacted=True), Signature(0, "x:y"), PartEnd(0), *text(1, "42")
    ),
    "refusal": finished(*text(0, "I ", "cannot.", kind=PartKind.REFUSAL)),
    "json": finished(*text(0, '{"city":', '"Köln"}')),
    "picture": finished(PartStart(0, PartKind.IMAGE), MediaDelta(0, "image/png", PIXEL), PartEnd(0)),
    "nothing": finished(),
}
LENGTH = finished(*text(0, "Once"), *call(1, "weather", '{"ci'), reason=Reason.LENGTH)
FAILED: list[Event] = [Start(), *text(0, "Deep")[:2], Error(ApiError(Kind.OVERLOADED, "the model is busy"))]


class Place(pydantic.BaseModel):
    city: str


def saying(events: list[Event]) -> Callable[[Request], list[Event]]:
    return lambda _: events


def client(served: Loopback) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{served.url}/v1", api_key="k", max_retries=0)


def said(response: Any) -> list[tuple[Any, ...]]:
    """What each item of an output says, as the SDK has it."""
    found: list[tuple[Any, ...]] = []
    for item in response.output:
        match item.type:
            case "message":
                part = item.content[0]
                found.append((part.type, part.text if part.type == "output_text" else part.refusal))
            case "function_call":
                found.append((item.type, item.call_id, item.namespace, item.name, json.loads(item.arguments)))
            case "custom_tool_call":
                found.append((item.type, item.call_id, item.name, item.input))
            case "reasoning":
                found.append((item.type, [s.text for s in item.summary], bool(item.encrypted_content)))
            case "image_generation_call":
                found.append((item.type, item.result))
    return found


SAID: dict[str, list[tuple[Any, ...]]] = {
    "text": [("output_text", "Deep " + NASTY)],
    "tools": [("output_text", "So."), ("function_call", "call_1", None, "weather", {"city": "Köln"})],
    "parallel": [
        ("function_call", "call_0", None, "weather", {"city": "a"}),
        ("function_call", "call_1", None, "weather", {"city": "b"}),
    ],
    "free form": [("custom_tool_call", "call_0", "apply_patch", '+a\n"q"')],
    "namespace": [("function_call", "call_0", "mcp__browser", "click", {"ref": 1})],
    "reasoning": [("reasoning", ["hm"], True), ("output_text", "42")],
    "hidden reasoning": [("reasoning", [], True), ("output_text", "42")],
    "refusal": [("refusal", "I cannot.")],
    "json": [("output_text", '{"city":"Köln"}')],
    "picture": [("image_generation_call", PIXEL)],
    "nothing": [],
}


@pytest.mark.parametrize("case", STREAMS)
@pytest.mark.fault("F5", "F26")
def test_the_sdks_accumulator_assembles_every_stream(case: str) -> None:
    with loopback(DIALECT, saying(STREAMS[case])) as served, client(served) as sdk:
        whole = sdk.responses.create(model="m", input="Hi", tools=TOOLS)
        with sdk.responses.stream(model="m", input="Hi", tools=TOOLS) as stream:
            numbers = [event.sequence_number for event in stream]
            final = stream.get_final_response()
    assert said(final) == said(whole) == SAID[case]
    assert numbers == list(range(len(numbers)))
    assert (final.id, final.status, final.model) == (whole.id, "completed", "m")
    assert final.usage == whole.usage
    assert final.usage is not None
    assert (final.usage.total_tokens, final.usage.input_tokens_details.cached_tokens) == (19, 4)
    assert final.usage.output_tokens_details.reasoning_tokens == 3


@pytest.mark.parametrize("case", STREAMS)
def test_so_does_the_asynchronous_one(case: str) -> None:
    async def ask(url: str) -> Any:
        sdk = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0)
        async with sdk, sdk.responses.stream(model="m", input="Hi", tools=TOOLS) as stream:
            return await stream.get_final_response()

    with loopback(DIALECT, saying(STREAMS[case])) as served:
        assert said(asyncio.run(ask(served.url))) == SAID[case]


def test_a_schema_is_parsed_from_the_stream_and_from_the_whole() -> None:
    with loopback(DIALECT, saying(STREAMS["json"])) as served, client(served) as sdk:
        assert sdk.responses.parse(model="m", input="Hi", text_format=Place).output_parsed == Place(city="Köln")
        with sdk.responses.stream(model="m", input="Hi", text_format=Place) as stream:
            assert stream.get_final_response().output_parsed == Place(city="Köln")
        wanted = served.requests[0].response_format
    assert wanted is not None
    assert (wanted.name, wanted.strict) == ("Place", True)


def events_of(served: Loopback) -> list[Any]:
    with client(served) as sdk, sdk.responses.stream(model="m", input="Hi") as stream:
        found = list(stream)
        with pytest.raises(RuntimeError, match="completed"):  # this SDK's way to say that there is no such answer
            stream.get_final_response()
    return found


def test_what_the_limit_cut_off_is_incomplete() -> None:
    with loopback(DIALECT, saying(LENGTH)) as served:
        last = events_of(served)[-1]
        with client(served) as sdk:
            whole = sdk.responses.create(model="m", input="Hi")
    for response in (last.response, whole):
        assert (response.status, response.incomplete_details.reason) == ("incomplete", "max_output_tokens")
        assert [item.status for item in response.output] == ["completed", "incomplete"]


@pytest.mark.fault("F10", "F13", "F14")
def test_a_failure_is_the_last_event_and_no_good_end() -> None:
    with loopback(DIALECT, saying(FAILED)) as served:
        found = events_of(served)
    assert [e.type for e in found if e.type.endswith(("completed", "incomplete"))] == []
    assert found[-1].type == "response.failed"
    assert (found[-1].response.error.code, found[-1].response.error.message) == (
        "server_is_overloaded",
        "the model is busy",
    )


@pytest.mark.fault("F10")
def test_a_cut_is_no_answer() -> None:
    with loopback(DIALECT, saying(STREAMS["text"])) as served:
        served.cut = True
        assert events_of(served)[-1].type == "response.output_item.done"


@pytest.mark.fault("F15")
def test_an_error_before_the_stream_is_raised_as_its_class() -> None:
    refusal = ApiError(Kind.RATE_LIMITED, "too many", code="rate_limit_exceeded")
    with loopback(DIALECT, lambda _: refusal) as served, client(served) as sdk:
        with pytest.raises(openai.RateLimitError) as caught:
            sdk.responses.create(model="m", input="Hi", stream=True)
        assert caught.value.code == "rate_limit_exceeded"
        with pytest.raises(openai.BadRequestError) as refused:
            sdk.responses.create(model="m", input=[{"role": "user", "content": [{"type": "poem"}]}])  # type: ignore[list-item,misc]
        assert refused.value.param == "input[0].content[0].type"


@pytest.mark.fault("F25")
def test_what_the_sdk_was_given_it_sends_back_and_we_read_it() -> None:
    """The next turn of an agent: the output of the first as it is, and a result for each call."""
    first = finished(*THOUGHT, *text(1, "So."), *call(2, "weather", '{"city":"a"}'), reason=Reason.TOOL_CALLS)
    with loopback(DIALECT, saying(first)) as served, client(served) as sdk:
        output = sdk.responses.create(model="m", input="Hi", tools=TOOLS).output
        results: Any = [
            {"type": "function_call_output", "call_id": item.call_id, "output": "rain"}
            for item in output
            if item.type == "function_call"
        ]
        talk: Any = [{"role": "user", "content": "Hi"}, *output, *results]
        sdk.responses.create(model="m", input=talk, tools=TOOLS, store=False, include=["reasoning.encrypted_content"])
        messages = served.requests[-1].messages
    assert [m.role for m in messages] == [Role.USER, Role.ASSISTANT, Role.TOOL]
    assert messages[1].parts == (
        Reasoning("hm", "anthropic:EqQB"),
        Text("So."),
        ToolCall("call_2", "weather", '{"city":"a"}'),
    )
    assert messages[2].parts == (ToolResult("call_2", (Text("rain"),)),)


def test_tokens_are_counted() -> None:
    with loopback(DIALECT, saying(STREAMS["text"])) as served, client(served) as sdk:
        assert sdk.responses.input_tokens.count(model="m", input="one two three").input_tokens == 3


def test_text_deltas_are_all_of_the_text() -> None:
    with loopback(DIALECT, saying(STREAMS["text"])) as served, client(served) as sdk:
        stream = sdk.responses.create(model="m", input="Hi", stream=True)
        pieces = [event.delta for event in stream if event.type == "response.output_text.delta"]
    assert pieces == [e.text for e in STREAMS["text"] if isinstance(e, TextDelta)]

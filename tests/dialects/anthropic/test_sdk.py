"""What the vendor's own client makes of our bytes, and what we make of its requests; no socket is opened."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import anthropic
import httpx2
import pytest
from hypothesis import HealthCheck, given, settings

from rivermouth.dialects.anthropic import DIALECT
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.events import Error, Event, Finish, PartEnd, PartKind, PartStart, Reason, TextDelta, Usage
from rivermouth.ir.events import Start as Begin
from rivermouth.ir.fold import fold
from rivermouth.ir.reply import Choice, ModelInfo, Reply
from rivermouth.ir.request import Reasoning, Text, ToolCall
from tests.dialects.anthropic.case import answer, encode, route
from tests.strategies import event_streams

Handler = Callable[[httpx2.Request], httpx2.Response]
ASK: dict[str, Any] = {"model": "m", "max_tokens": 10, "messages": [{"role": "user", "content": "Hi"}]}


def client(handler: Handler) -> anthropic.Anthropic:
    transport = httpx2.MockTransport(handler)
    return anthropic.Anthropic(
        api_key="k", base_url="http://127.0.0.1:1", max_retries=0, http_client=httpx2.Client(transport=transport)
    )


def streaming(events: list[Event]) -> Handler:
    kind = {"content-type": DIALECT.surfaces[0].stream_type}
    return lambda request: httpx2.Response(200, headers=kind, content=DIALECT.keep_alive + encode(events))  # type: ignore[operator]


def answering(body: bytes) -> Handler:
    return lambda request: httpx2.Response(200, headers={"content-type": "application/json"}, content=body)


def gathered(events: list[Event]) -> anthropic.types.Message:
    with client(streaming(events)) as sdk, sdk.messages.stream(**ASK) as stream:
        return stream.get_final_message()


@pytest.mark.promise(150)
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(event_streams(noise=True))
def test_the_sdk_gathers_what_the_events_say(events: list[Event]) -> None:
    want, message = fold(events), gathered(events)
    for part, block in zip(want.choices[0].parts, message.content, strict=True):
        match part:
            case Text():
                assert (block.type, block.text) == ("text", part.text)  # type: ignore[union-attr]
            case ToolCall():
                assert block.type == "tool_use"
                assert (block.id, block.name, block.input) == (part.id, part.name, json.loads(part.arguments))
            case Reasoning(redacted=True):
                assert block.type == "redacted_thinking"
            case Reasoning():
                assert (block.type, block.thinking) == ("thinking", part.text)  # type: ignore[union-attr]
    if want.usage is not None:
        seen = message.usage
        total = seen.input_tokens + (seen.cache_read_input_tokens or 0) + (seen.cache_creation_input_tokens or 0)
        assert (total, seen.output_tokens) == (want.usage.input_tokens, want.usage.output_tokens)
    assert message.stop_reason is not None


def test_a_plain_message() -> None:
    message = gathered(
        [
            Begin(),
            PartStart(0, PartKind.TEXT),
            TextDelta(0, "Hi"),
            PartEnd(0),
            Usage(input_tokens=3, output_tokens=1),
            Finish(Reason.STOP, "END"),
        ]
    )
    assert (message.id, message.model, message.stop_reason, message.stop_sequence) == (
        "msg_01J",
        "gpt-x",
        "stop_sequence",
        "END",
    )
    assert (message.usage.input_tokens, message.usage.output_tokens) == (3, 1)


@pytest.mark.fault("F14")
def test_an_error_in_the_stream_raises_with_its_type() -> None:
    events: list[Event] = [Begin(), PartStart(0, PartKind.TEXT), TextDelta(0, "a")]
    with pytest.raises(anthropic.APIStatusError) as raised:
        gathered([*events, Error(ApiError(Kind.OVERLOADED, "busy"))])
    assert raised.value.type == "overloaded_error"
    assert "busy" in str(raised.value)


@pytest.mark.parametrize(
    ("kind", "raises"),
    [
        (Kind.INVALID_REQUEST, anthropic.BadRequestError),
        (Kind.AUTHENTICATION, anthropic.AuthenticationError),
        (Kind.PERMISSION, anthropic.PermissionDeniedError),
        (Kind.NOT_FOUND, anthropic.NotFoundError),
        (Kind.RATE_LIMITED, anthropic.RateLimitError),
        (Kind.INTERNAL, anthropic.InternalServerError),
    ],
)
def test_errors_before_the_stream_are_the_sdks_own(kind: Kind, raises: type[Exception]) -> None:
    failure = DIALECT.encode_error(ApiError(kind, "m"), "01J")
    headers = {"content-type": "application/json", **failure.headers}

    def refuse(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(failure.status, headers=headers, content=failure.body)

    with client(refuse) as sdk, pytest.raises(raises):
        sdk.messages.create(**ASK)


def test_whole_replies_counts_and_models() -> None:
    reply = Reply(choices=(Choice((Text("Hi"), ToolCall("c", "f", "")), Reason.TOOL_CALLS),))
    with client(answering(DIALECT.encode_reply(reply, answer()))) as sdk:
        message = sdk.messages.create(**ASK)
    assert [b.type for b in message.content] == ["text", "tool_use"]
    assert DIALECT.encode_count is not None
    with client(answering(DIALECT.encode_count(7))) as sdk:
        assert sdk.messages.count_tokens(model="m", messages=ASK["messages"]).input_tokens == 7
    assert DIALECT.encode_models is not None
    listed = DIALECT.encode_models([ModelInfo(id="lab/x", owner="lab")], route("/models"))
    with client(answering(listed)) as sdk:
        assert [m.id for m in sdk.models.list()] == ["lab/x"]


def test_what_the_sdk_sends_is_parsed() -> None:
    sent: list[httpx2.Request] = []

    def keep(request: httpx2.Request) -> httpx2.Response:
        sent.append(request)
        return httpx2.Response(200, headers={"content-type": "application/json"}, content=b"{}")

    with client(keep) as sdk:
        sdk.messages.create(
            model="m",
            max_tokens=10,
            system="Be brief.",
            messages=[
                {"role": "user", "content": "Hi"},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "ok"}]},
            ],
            tools=[{"name": "f", "input_schema": {"type": "object"}}],
            tool_choice={"type": "auto"},
            thinking={"type": "adaptive"},
        )
    (request,) = sent
    assert request.url.path == "/v1/messages"
    keys = [k for k in DIALECT.keys if k.header in request.headers]
    assert keys, "the key is in a place that the dialect names"
    parsed = DIALECT.parse_request(request.content, route(), None)
    assert [m.role.value for m in parsed.messages] == ["user", "assistant", "tool"]
    assert parsed.thinking is not None

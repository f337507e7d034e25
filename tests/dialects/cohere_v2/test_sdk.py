"""What the vendor's own client makes of our bytes, and what we make of its requests; no socket is opened.

The client drops frames that do not fit its model and only logs it: here such a log line is a failure.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import cohere
import httpx
import pytest
from cohere.core.api_error import ApiError as SdkError
from hypothesis import HealthCheck, given, settings

from rivermouth.dialects.cohere_v2 import DIALECT
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
    Start,
    TextDelta,
    Usage,
)
from rivermouth.ir.fold import fold
from rivermouth.ir.reply import EmbedReply
from rivermouth.ir.request import Image, Message, Reasoning, Role, Text, Thinking, ToolCall, ToolResult
from tests.dialects.cohere_v2.case import NASTY, answer, encode, route
from tests.strategies import event_streams

Handler = Callable[[httpx.Request], httpx.Response]
ASK: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
EVENTS: list[Event] = [
    Start(),
    PartStart(0, PartKind.REASONING),
    ReasoningDelta(0, NASTY),
    PartEnd(0),
    PartStart(1, PartKind.TEXT),
    TextDelta(1, "Hi "),
    TextDelta(1, NASTY),
    PartEnd(1),
    PartStart(2, PartKind.TOOL, 0, "c1", "f"),
    ArgsDelta(2, '{"q":'),
    ArgsDelta(2, '"\u2028"}'),
    PartEnd(2),
    PartStart(3, PartKind.TOOL, 0, "c2", "g"),
    PartEnd(3),
    Usage(9, 4, 2),
    Finish(Reason.TOOL_CALLS),
]


def client(handler: Handler) -> cohere.ClientV2:
    return cohere.ClientV2(
        "k", base_url="http://127.0.0.1:1/cohere", httpx_client=httpx.Client(transport=httpx.MockTransport(handler))
    )


def streaming(data: bytes) -> Handler:
    kind = {"content-type": DIALECT.surfaces[0].stream_type}
    return lambda request: httpx.Response(200, headers=kind, content=data)


def answering(body: bytes, status: int = 200) -> Handler:
    return lambda request: httpx.Response(status, headers={"content-type": "application/json"}, content=body)


@pytest.fixture(autouse=True)
def nothing_is_dropped(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.WARNING)
    yield
    assert [r.getMessage() for r in caplog.records] == []


def read(events: list[Event]) -> list[Any]:
    """The events of the SDK, all of which must be of its own classes."""
    data = (DIALECT.keep_alive or b"") + encode(events)
    frames = list(client(streaming(data)).chat_stream(**ASK))
    assert len(frames) == data.count(b"event: "), "no frame is dropped"
    return frames


def gathered(frames: list[Any]) -> tuple[dict[str, str], list[tuple[str, str, str]], Any]:
    """Texts by content type, calls, and the delta of the end."""
    texts: dict[str, str] = {}
    calls: list[list[str]] = []
    for frame in frames:
        match frame.type:
            case "content-delta":
                for kind in ("text", "thinking"):
                    texts[kind] = texts.get(kind, "") + (getattr(frame.delta.message.content, kind) or "")
            case "tool-call-start":
                assert frame.index == len(calls)
                call = frame.delta.message.tool_calls
                calls.append([call.id, call.function.name, call.function.arguments])
            case "tool-call-delta":
                calls[frame.index][2] += frame.delta.message.tool_calls.function.arguments
    assert frames[-1].type == "message-end"
    return texts, [(a, b, c) for a, b, c in calls], frames[-1].delta


@pytest.mark.fault("F5")
def test_a_stream() -> None:
    frames = read(EVENTS)
    texts, calls, end = gathered(frames)
    assert (frames[0].type, frames[0].id, frames[0].delta.message.role) == ("message-start", "01J", "assistant")
    assert texts == {"text": "Hi " + NASTY, "thinking": NASTY}
    assert [(i, n, json.loads(a)) for i, n, a in calls] == [("c1", "f", {"q": "\u2028"}), ("c2", "g", {})]
    assert end.finish_reason == "TOOL_CALL"
    assert (end.usage.tokens.input_tokens, end.usage.tokens.output_tokens, end.usage.cached_tokens) == (9, 4, 2)
    assert end.usage.billed_units.input_tokens == 9


@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(event_streams(noise=True, signed=False))
def test_the_sdk_gathers_what_the_events_say(events: list[Event]) -> None:
    texts, calls, _ = gathered(read(events))
    parts = fold(events).choices[0].parts
    assert texts.get("text", "") == "".join(p.text for p in parts if isinstance(p, Text))
    assert texts.get("thinking", "") == "".join(p.text for p in parts if isinstance(p, Reasoning))
    assert [(i, n, json.loads(a)) for i, n, a in calls] == [
        (p.id, p.name, json.loads(p.arguments)) for p in parts if isinstance(p, ToolCall)
    ]


@pytest.mark.fault("F11", "F14")
def test_a_failure_in_a_stream_is_its_end() -> None:
    events: list[Event] = [Start(), PartStart(0, PartKind.TEXT), TextDelta(0, "a")]
    _, _, end = gathered(read([*events, Error(ApiError(Kind.OVERLOADED, "busy"))]))
    assert (end.finish_reason, end.error) == ("ERROR", "busy")


def test_a_whole_reply() -> None:
    reply = client(answering(DIALECT.encode_reply(fold(EVENTS), answer()))).chat(**ASK)
    assert (reply.id, reply.finish_reason) == ("01J", "TOOL_CALL")
    assert [(b.type, b.thinking if b.type == "thinking" else b.text) for b in reply.message.content or []] == [
        ("thinking", NASTY),
        ("text", "Hi " + NASTY),
    ]
    assert [(c.id, c.function.name, c.function.arguments) for c in reply.message.tool_calls or [] if c.function] == [
        ("c1", "f", '{"q":"\u2028"}'),
        ("c2", "g", "{}"),
    ]
    assert reply.usage is not None
    assert reply.usage.tokens is not None
    assert reply.usage.tokens.output_tokens == 4


@pytest.mark.fault("F15")
@pytest.mark.parametrize(
    ("kind", "raises"),
    [
        (Kind.INVALID_REQUEST, cohere.BadRequestError),
        (Kind.AUTHENTICATION, cohere.UnauthorizedError),
        (Kind.PERMISSION, cohere.ForbiddenError),
        (Kind.NOT_FOUND, cohere.NotFoundError),
        (Kind.RATE_LIMITED, cohere.TooManyRequestsError),
        (Kind.CANCELLED, cohere.ClientClosedRequestError),
        (Kind.INTERNAL, cohere.InternalServerError),
        (Kind.OVERLOADED, cohere.ServiceUnavailableError),
        (Kind.TIMEOUT, cohere.GatewayTimeoutError),
        (Kind.UPSTREAM, SdkError),
    ],
)
def test_errors_before_the_stream_are_the_sdks_own(kind: Kind, raises: type[SdkError]) -> None:
    failure = DIALECT.encode_error(ApiError(kind, "what happened"), "01J")
    sdk, once = client(answering(failure.body, failure.status)), {"max_retries": 0}
    with pytest.raises(raises) as raised:
        sdk.chat(**ASK, request_options=once)  # type: ignore[arg-type]
    assert raised.value.status_code == failure.status
    assert raised.value.body == {"id": "01J", "message": "what happened"}
    with pytest.raises(raises):
        list(sdk.chat_stream(**ASK, request_options=once))  # type: ignore[arg-type]


def test_embeddings() -> None:
    assert DIALECT.encode_embed is not None
    assert DIALECT.parse_embed is not None
    sent: list[bytes] = []

    def embed(request: httpx.Request) -> httpx.Response:
        sent.append(request.content)
        asked = DIALECT.parse_embed(request.content, route("/embed"), None)  # type: ignore[misc]
        reply = EmbedReply(model="m", vectors=((0.5, 1.5),) * len(asked.input), input_tokens=3)
        return answering(DIALECT.encode_embed(reply, asked, answer()))(request)  # type: ignore[misc]

    sdk = client(embed)
    found = sdk.embed(model="m", texts=["a", "b"], input_type="search_query", embedding_types=["float", "base64"])
    assert found.embeddings.float_ == [[0.5, 1.5], [0.5, 1.5]]
    assert found.embeddings.base64 == ["AAAAPwAAwD8="] * 2
    assert found.texts == ["a", "b"]
    assert found.meta is not None


def test_what_the_sdk_sends_is_parsed_and_its_own_message_comes_back() -> None:
    sent: list[httpx.Request] = []

    def keep(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return answering(DIALECT.encode_reply(fold(EVENTS), answer()))(request)

    sdk = client(keep)
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}
    ask: list[Any] = [
        cohere.SystemChatMessageV2(content="Be brief."),
        {"role": "user", "content": [{"type": "text", "text": "?"}, picture]},
    ]
    first = sdk.chat(model="m", messages=ask, thinking={"type": "enabled", "token_budget": 9})  # type: ignore[arg-type]
    results = [
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "document", "document": {"data": {"t": 1}}}]},
        cohere.ToolChatMessageV2(tool_call_id="c2", content="noon"),
    ]
    sdk.chat(model="m", messages=[*ask, first.message, *results])
    assert [r.url.path for r in sent] == ["/cohere/v2/chat"] * 2
    assert sent[0].headers["authorization"] == "Bearer k"
    request = DIALECT.parse_request(sent[0].content, route(), None)
    assert request.thinking == Thinking(budget_tokens=9)
    again = DIALECT.parse_request(sent[1].content, route(), None)
    assert again.system == (Text("Be brief."),)
    assert again.messages == (
        Message(Role.USER, (Text("?"), Image("image/png", "QUJD"))),
        Message(
            Role.ASSISTANT,
            (
                Reasoning(NASTY),
                Text("Hi " + NASTY),
                ToolCall("c1", "f", '{"q":"\u2028"}'),
                ToolCall("c2", "g", "{}"),
            ),
        ),
        Message(Role.TOOL, (ToolResult("c1", (Text('{"t":1}'),)), ToolResult("c2", (Text("noon"),)))),
    )

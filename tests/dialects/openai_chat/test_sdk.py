"""The vendor's own SDK reads what we write, and what it writes is read: bytes only, no socket."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx2
import openai
import pytest

from rivermouth.dialects.openai_chat import DIALECT
from rivermouth.dialects.openai_chat.embeddings import encode_embed, parse_embed
from rivermouth.dialects.openai_chat.models import encode_models
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.events import (
    ArgsDelta,
    Event,
    Finish,
    PartEnd,
    PartStart,
    Reason,
    ReasoningDelta,
    Signature,
    Start,
    TextDelta,
    Usage,
)
from rivermouth.ir.fold import fold
from rivermouth.ir.opaque import opened
from rivermouth.ir.reply import EmbedReply, ModelInfo
from rivermouth.ir.request import Request, Text
from tests.dialects.openai_chat.case import (
    FAILURE,
    REASONING,
    ROUTING,
    TEXT,
    TOOL,
    answer,
    encode,
    route,
    text_stream,
)

SERVED: list[Event] = [
    Start(),
    PartStart(0, REASONING),
    ReasoningDelta(0, "h"),
    ReasoningDelta(0, "m"),
    Signature(0, "sig"),
    PartEnd(0),
    PartStart(1, TEXT),
    TextDelta(1, "Look\u2028"),
    TextDelta(1, "ing"),
    PartEnd(1),
    PartStart(2, TOOL, id="call_a", name="f"),
    PartStart(3, TOOL, id="call_b", name="g"),
    ArgsDelta(3, "{}"),
    ArgsDelta(2, '{"x"'),
    ArgsDelta(2, ":1}"),
    PartEnd(2),
    PartEnd(3),
    Usage(9, 4, 3),
    Finish(Reason.TOOL_CALLS),
]


def client(serve: Callable[[bytes], httpx2.Response]) -> openai.OpenAI:
    """An SDK whose requests end in `serve`."""
    transport = httpx2.MockTransport(lambda request: serve(request.read()))
    return openai.OpenAI(
        api_key="k", base_url="http://server/v1", max_retries=0, http_client=httpx2.Client(transport=transport)
    )


def streaming(events: list[Event], seen: list[Request] | None = None) -> openai.OpenAI:
    def serve(body: bytes) -> httpx2.Response:
        request = DIALECT.parse_request(body, route(), None)
        if seen is not None:
            seen.append(request)
        stream = encode(events, answer(request=request, routing=ROUTING))
        return httpx2.Response(200, headers={"content-type": DIALECT.surfaces[0].stream_type}, content=stream)

    return client(serve)


@pytest.mark.promise(49)
@pytest.mark.fault("F26")
def test_the_sdk_accumulates_a_stream_to_what_was_sent() -> None:
    tools: Any = [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in "fg"]
    with streaming(SERVED).chat.completions.stream(
        model="gpt-x",
        messages=[{"role": "user", "content": "Hi"}],
        tools=tools,
        stream_options={"include_usage": True},
    ) as stream:
        final = stream.get_final_completion()
    message = final.choices[0].message
    assert (final.id, final.model) == ("chatcmpl-01J", "gpt-x")
    assert (message.role, message.content) == ("assistant", "Look\u2028ing")
    assert message.model_extra is not None
    assert message.model_extra["reasoning_content"] == "hm"
    sealed = message.model_extra["reasoning_details"][0]["signature"]
    assert (opened(sealed) or ())[:2] == ("sig", False)
    calls = [(c.id, c.function.name, c.function.arguments) for c in message.tool_calls or [] if c.type == "function"]
    assert calls == [("call_a", "f", '{"x":1}'), ("call_b", "g", "{}")]
    assert final.choices[0].finish_reason == "tool_calls"
    assert final.usage is not None
    assert (final.usage.prompt_tokens, final.usage.completion_tokens, final.usage.total_tokens) == (9, 4, 13)


def test_what_the_sdk_sends_is_read() -> None:
    seen: list[Request] = []
    stream = streaming(text_stream("a"), seen).chat.completions.create(
        model="gpt-x",
        messages=[{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
        stream=True,
        temperature=0.5,
        max_completion_tokens=7,
        stop="END",
    )
    chunks = list(stream)
    assert chunks[-1].model_extra == {"llmeu": ROUTING[1]}
    (request,) = seen
    assert (request.system, request.max_tokens, request.stop) == ((Text("Be brief."),), 7, ("END",))
    assert request.stream
    assert not request.include_usage


@pytest.mark.promise(4, 5)
def test_an_error_in_the_stream_is_raised_with_its_words() -> None:
    stream = streaming([*text_stream("a")[:3], FAILURE]).chat.completions.create(
        model="gpt-x", messages=[{"role": "user", "content": "Hi"}], stream=True
    )
    with pytest.raises(openai.APIError) as caught:
        list(stream)
    assert (caught.value.code, caught.value.type) == ("upstream_unreachable", "server_error")
    assert caught.value.message == "the connection was lost"


@pytest.mark.promise(60)
def test_a_whole_reply_is_read() -> None:
    reply = DIALECT.encode_reply(fold(SERVED), answer(routing=ROUTING))
    found = client(lambda _: httpx2.Response(200, content=reply, headers={"content-type": "application/json"}))
    completion = found.chat.completions.create(model="gpt-x", messages=[{"role": "user", "content": "Hi"}])
    assert completion.model_extra == {"llmeu": ROUTING[1]}
    assert completion.choices[0].message.content == "Look\u2028ing"
    assert completion.usage is not None
    assert completion.usage.prompt_tokens_details is not None
    assert completion.usage.prompt_tokens_details.cached_tokens == 3


@pytest.mark.parametrize(
    ("kind", "raised"),
    [
        (Kind.INVALID_REQUEST, openai.BadRequestError),
        (Kind.AUTHENTICATION, openai.AuthenticationError),
        (Kind.PERMISSION, openai.PermissionDeniedError),
        (Kind.NOT_FOUND, openai.NotFoundError),
        (Kind.TOO_LARGE, openai.APIStatusError),
        (Kind.RATE_LIMITED, openai.RateLimitError),
        (Kind.OVERLOADED, openai.InternalServerError),
        (Kind.UPSTREAM, openai.InternalServerError),
    ],
)
@pytest.mark.fault("F15")
def test_an_error_before_the_stream_is_raised_as_its_class(kind: Kind, raised: type[openai.APIStatusError]) -> None:
    failure = DIALECT.encode_error(ApiError(kind, "m", param="p", code="c"), "1")
    found = client(lambda _: httpx2.Response(failure.status, content=failure.body, headers=dict(failure.headers)))
    with pytest.raises(raised) as caught:
        found.chat.completions.create(model="gpt-x", messages=[{"role": "user", "content": "Hi"}], stream=True)
    assert (caught.value.param, caught.value.code, caught.value.status_code) == ("p", "c", failure.status)


@pytest.mark.promise(76)
def test_embeddings_in_the_encoding_that_the_sdk_asks_for_by_itself() -> None:
    asked: list[Any] = []

    def serve(body: bytes) -> httpx2.Response:
        asked.append(json.loads(body).get("encoding_format"))
        request = parse_embed(body, route("/embeddings"), None)
        reply = encode_embed(EmbedReply(model="e", vectors=((0.5, -2.0),), input_tokens=2), request, answer())
        return httpx2.Response(200, content=reply, headers={"content-type": "application/json"})

    assert client(serve).embeddings.create(model="e", input="a").data[0].embedding == [0.5, -2.0]
    assert client(serve).embeddings.create(model="e", input="a", encoding_format="float").data[0].embedding == [
        0.5,
        -2.0,
    ]
    assert asked == ["base64", "float"]


def test_models_are_listed() -> None:
    body = encode_models([ModelInfo(id="lab/a", owner="lab")], route("/models"))
    found = client(lambda _: httpx2.Response(200, content=body, headers={"content-type": "application/json"}))
    assert [m.id for m in found.models.list()] == ["lab/a"]

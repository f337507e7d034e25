"""What the vendors' own clients make of our bytes, over a loopback socket."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import anthropic
import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, EventStreamError

from rivermouth.dialects.bedrock_invoke import DIALECT
from rivermouth.http.keys import Keys
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
    Usage,
)
from rivermouth.vendors.bedrock.words import WORDINGS
from tests.dialects.bedrock_invoke.case import BINARY, CLAUDE, CLAUDE_BODY, HELLO, TITAN_BODY
from tests.dialects.loopback import Loopback, loopback

TEXT = "Hello \u2028😀"
KEY = "AKIAEXAMPLE"
CALLS: list[Event] = [
    Start(),
    PartStart(0, PartKind.REASONING),
    ReasoningDelta(0, "hm"),
    PartEnd(0),
    PartStart(1, PartKind.TOOL, id="call_1", name="weather"),
    ArgsDelta(1, '{"city":'),
    ArgsDelta(1, '"Köln"}'),
    PartEnd(1),
    PartStart(2, PartKind.TOOL, id="call_2", name="time"),
    PartEnd(2),
    Usage(12, 5),
    Finish(Reason.TOOL_CALLS),
]


@pytest.fixture
def server() -> Iterator[Loopback]:
    with loopback(DIALECT, lambda request: HELLO) as served:
        yield served


def aws(served: Loopback, prefix: str = "/bedrock") -> Any:
    config = Config(retries={"total_max_attempts": 1}, read_timeout=10)
    secrets: Any = {"aws_access_key_id": KEY, "aws_secret_access_key": "x"}
    return boto3.client(
        "bedrock-runtime", endpoint_url=served.url + prefix, region_name="eu-west-1", config=config, **secrets
    )


def claude(served: Loopback, **how: Any) -> anthropic.AnthropicBedrock:
    return anthropic.AnthropicBedrock(
        aws_region="eu-west-1", base_url=served.url + "/bedrock", max_retries=0, **(how or {"api_key": "k-1"})
    )


def objects(answer: Any) -> list[Any]:
    return [json.loads(event["chunk"]["bytes"]) for event in answer["body"]]


class TestBoto3:
    @pytest.mark.promise(166, 167, 168)
    @pytest.mark.parametrize("prefix", ["/bedrock", ""])
    def test_a_titan_stream(self, server: Loopback, prefix: str) -> None:
        client = aws(server, prefix)
        got = objects(client.invoke_model_with_response_stream(modelId="amazon.titan:0", body=json.dumps(TITAN_BODY)))
        client.close()
        assert "".join(o["outputText"] for o in got) == TEXT
        assert [o["index"] for o in got] == [0, 0, 0]
        assert [o["totalOutputTextTokenCount"] for o in got] == [None, None, 2]
        assert got[-1]["completionReason"] == "FINISH"
        assert got[-1]["amazon-bedrock-invocationMetrics"] == {
            "inputTokenCount": 3,
            "outputTokenCount": 2,
            "invocationLatency": 5,
        }
        assert server.requests[0].model == "amazon.titan:0"
        assert server.surfaces[0].stream_type == BINARY.stream_type

    def test_a_titan_reply(self, server: Loopback) -> None:
        client = aws(server)
        arn = "arn:aws:bedrock:eu-west-1:1:inference-profile/eu.amazon.titan"
        got = json.loads(client.invoke_model(modelId=arn, body=json.dumps(TITAN_BODY))["body"].read())
        client.close()
        assert got == {
            "inputTextTokenCount": 3,
            "results": [{"tokenCount": 2, "outputText": TEXT, "completionReason": "FINISH"}],
        }
        assert server.requests[0].model == arn

    def test_anthropic_events_end_with_the_metrics(self, server: Loopback) -> None:
        client = aws(server)
        got = objects(client.invoke_model_with_response_stream(modelId=CLAUDE, body=json.dumps(CLAUDE_BODY)))
        client.close()
        assert [o["type"] for o in got] == [
            "message_start",
            "content_block_start",
            "content_block_delta",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop",
        ]
        assert got[-1]["amazon-bedrock-invocationMetrics"]["outputTokenCount"] == 2

    def test_the_access_key_id_is_the_key(self, server: Loopback) -> None:
        client = aws(server)
        client.invoke_model(modelId=CLAUDE, body=json.dumps(CLAUDE_BODY))["body"].read()
        client.close()
        headers = [(n.encode(), v.encode()) for n, v in server.headers[0].items()]
        assert Keys([KEY], (), DIALECT.keys).caller(headers, b"") is not None
        assert Keys(["another"], (), DIALECT.keys).caller(headers, b"") is None

    def test_tokens_are_counted(self, server: Loopback) -> None:
        client = aws(server)
        asked = {**CLAUDE_BODY, "messages": [{"role": "user", "content": "one two three"}]}
        got = client.count_tokens(modelId=CLAUDE, input={"invokeModel": {"body": json.dumps(asked)}})
        client.close()
        assert got["inputTokens"] == 3

    @pytest.mark.fault("F15")
    def test_errors_before_the_stream_are_the_sdks_own(self, server: Loopback) -> None:
        client = aws(server)
        for kind in set(Kind) - {Kind.AUTHENTICATION}:  # whose exception the service model does not have
            server.say = lambda request, kind=kind: ApiError(kind, "not today")
            with pytest.raises(getattr(client.exceptions, WORDINGS[kind].type), match="not today"):
                client.invoke_model_with_response_stream(modelId=CLAUDE, body=json.dumps(CLAUDE_BODY))
        client.close()

    def test_a_wrong_key_has_its_code(self, server: Loopback) -> None:
        server.say = lambda request: ApiError(Kind.AUTHENTICATION, "no valid key")
        client = aws(server)
        with pytest.raises(ClientError) as raised:
            client.invoke_model(modelId=CLAUDE, body=json.dumps(CLAUDE_BODY))
        client.close()
        assert raised.value.response["Error"]["Code"] == "UnrecognizedClientException"

    @pytest.mark.fault("F9", "F11", "F14")
    @pytest.mark.parametrize("body", [TITAN_BODY, CLAUDE_BODY], ids=["titan", "anthropic"])
    def test_an_error_in_the_stream_raises_with_its_code(self, server: Loopback, body: dict[str, Any]) -> None:
        client = aws(server)
        for kind in Kind:
            server.say = lambda request, kind=kind: [*HELLO[:3], Error(ApiError(kind, "it broke"))]
            stream = client.invoke_model_with_response_stream(modelId=CLAUDE, body=json.dumps(body))["body"]
            with pytest.raises(EventStreamError, match="it broke") as raised:
                list(stream)
            stream.close()
            assert raised.value.response["Error"]["Code"] == WORDINGS[kind].member
        client.close()

    def test_a_stream_that_is_left_early_is_no_trouble(self, server: Loopback) -> None:
        client = aws(server)
        stream = client.invoke_model_with_response_stream(modelId=CLAUDE, body=json.dumps(TITAN_BODY))["body"]
        assert "chunk" in next(iter(stream))
        stream.close()
        client.close()

    def test_unknown_paths_are_the_sdks_own_error(self, server: Loopback) -> None:
        client = aws(server)
        with pytest.raises(client.exceptions.ResourceNotFoundException):
            client.converse(modelId=CLAUDE, messages=[{"role": "user", "content": [{"text": "Hi"}]}])
        client.close()


class TestAnthropicBedrock:
    @pytest.mark.parametrize("how", [{"api_key": "k-1"}, {"aws_access_key": KEY, "aws_secret_key": "x"}])
    def test_a_stream_is_gathered(self, server: Loopback, how: dict[str, str]) -> None:
        server.say = lambda request: CALLS
        with claude(server, **how) as client, client.messages.stream(model=CLAUDE, **_ask()) as stream:
            message = stream.get_final_message()
        assert [b.type for b in message.content] == ["thinking", "tool_use", "tool_use"]
        assert [b.input for b in message.content if b.type == "tool_use"] == [{"city": "Köln"}, {}]
        assert (message.model, message.stop_reason) == (CLAUDE, "tool_use")
        assert (message.usage.input_tokens, message.usage.output_tokens) == (12, 5)
        assert server.surfaces[0].stream_type == BINARY.stream_type

    def test_a_reply(self, server: Loopback) -> None:
        with claude(server) as client:
            message = client.messages.create(model=CLAUDE, **_ask())
        assert [b.text for b in message.content if b.type == "text"] == [TEXT]
        assert server.requests[0].model == CLAUDE

    def test_what_it_sends_is_parsed(self, server: Loopback) -> None:
        with claude(server) as client:
            client.beta.messages.create(
                model=CLAUDE,
                max_tokens=10,
                system="Be brief.",
                betas=["some-beta-2026-01-01"],
                messages=[
                    {"role": "user", "content": [{"type": "text", "text": "Hi"}, _image()]},
                    {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]},
                    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "ok"}]},
                ],
                tools=[{"name": "f", "input_schema": {"type": "object"}}],
            )
        (request,) = server.requests
        assert [m.role.value for m in request.messages] == ["user", "assistant", "tool"]
        assert request.original is not None
        assert request.original.headers == {"anthropic-beta": "some-beta-2026-01-01"}

    @pytest.mark.fault("F15")
    @pytest.mark.parametrize(
        ("kind", "raises"),
        [
            (Kind.INVALID_REQUEST, anthropic.BadRequestError),
            (Kind.AUTHENTICATION, anthropic.PermissionDeniedError),
            (Kind.PERMISSION, anthropic.PermissionDeniedError),
            (Kind.NOT_FOUND, anthropic.NotFoundError),
            (Kind.RATE_LIMITED, anthropic.RateLimitError),
            (Kind.INTERNAL, anthropic.InternalServerError),
            (Kind.OVERLOADED, anthropic.InternalServerError),
        ],
    )
    def test_errors_before_the_stream_are_the_sdks_own(
        self, server: Loopback, kind: Kind, raises: type[Exception]
    ) -> None:
        server.say = lambda request: ApiError(kind, "not today")
        with claude(server) as client, pytest.raises(raises, match="not today"):
            client.messages.create(model=CLAUDE, **_ask())

    @pytest.mark.fault("F11", "F14")
    def test_an_error_in_the_stream_raises(self, server: Loopback) -> None:
        server.say = lambda request: [*HELLO[:3], Error(ApiError(Kind.RATE_LIMITED, "slow down"))]
        with (
            claude(server) as client,
            client.messages.stream(model=CLAUDE, **_ask()) as stream,
            pytest.raises(anthropic.APIStatusError, match="slow down") as raised,
        ):
            stream.get_final_message()
        assert "throttlingException" in str(raised.value.body)


def _ask() -> dict[str, Any]:
    return {"max_tokens": 10, "messages": [{"role": "user", "content": "Hi"}]}


def _image() -> Any:
    source = {"type": "base64", "media_type": "image/png", "data": b64encode(b"\x89PNG").decode()}
    return {"type": "image", "source": source}

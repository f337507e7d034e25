"""The official Python SDK, with its transport replaced: it reads our bytes, and we read what it sends."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import ollama
import pytest

from rivermouth.dialects.ollama.documents import encode_model, encode_models
from rivermouth.dialects.ollama.embed import encode_embed, parse_embed
from rivermouth.dialects.ollama.encode import encode_reply
from rivermouth.dialects.ollama.failure import encode_error
from rivermouth.dialects.ollama.pull import encode_progress
from rivermouth.dialects.ollama.request import parse_request
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
from rivermouth.ir.request import Message, Role, Text, Thinking, ToolCall, ToolResult
from rivermouth.local.sources.pull import MANIFEST, SUCCESS, PullProgress
from tests.dialects.ollama.case import answer, encode, route
from tests.dialects.ollama.test_documents import LOCAL, REMOTE

NASTY = "a\u2028b\u2029c\x85d 🗼"
EVENTS: list[Event] = [
    Start(),
    PartStart(0, PartKind.REASONING),
    ReasoningDelta(0, NASTY),
    PartEnd(0),
    PartStart(1, PartKind.TEXT),
    TextDelta(1, "Hi "),
    TextDelta(1, NASTY),
    PartEnd(1),
    PartStart(2, PartKind.TOOL, id="c1", name="f"),
    ArgsDelta(2, '{"q": "\u2028"}'),
    PartEnd(2),
    Usage(input_tokens=3, output_tokens=4, load_ns=5),
    Finish(Reason.TOOL_CALLS),
]

Handler = Callable[[httpx.Request], httpx.Response]


class Case:
    """A client whose requests are kept, and answered with what `reply` says."""

    def __init__(self, reply: bytes, status: int = 200) -> None:
        self.sent: list[httpx.Request] = []
        self._reply, self._status = reply, status

    def __enter__(self) -> ollama.Client:
        self._client = ollama.Client(host="http://127.0.0.1:1", transport=httpx.MockTransport(self._answer))
        return self._client

    def __exit__(self, *exc: object) -> None:
        self._client.close()

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.sent.append(request)
        return httpx.Response(self._status, content=self._reply, headers={"content-type": "application/x-ndjson"})

    @property
    def body(self) -> bytes:
        return self.sent[-1].content


@pytest.mark.promise(12, 15, 21, 49)
@pytest.mark.fault("F5")
def test_chat_stream() -> None:
    with Case(encode(EVENTS, total_ns=9)) as client:
        frames = list(client.chat("m:1b", [{"role": "user", "content": "Hi"}], stream=True))
    assert "".join(f.message.content or "" for f in frames) == "Hi " + NASTY
    assert "".join(f.message.thinking or "" for f in frames) == NASTY
    (call,) = [c for f in frames for c in f.message.tool_calls or []]
    assert (call.function.name, call.function.arguments) == ("f", {"q": "\u2028"})
    assert {f.message.role for f in frames} == {"assistant"}
    last = frames[-1]
    assert (last.done, last.done_reason, last.message.content) == (True, "stop", "")
    assert (last.prompt_eval_count, last.eval_count, last.load_duration, last.total_duration) == (3, 4, 5, 9)


@pytest.mark.promise(11, 15, 20, 49)
def test_generate_stream() -> None:
    with Case(encode(EVENTS, "generate")) as client:
        frames = list(client.generate("m:1b", "Hi", stream=True))
    assert "".join(f.response or "" for f in frames) == "Hi " + NASTY
    assert "".join(f.thinking or "" for f in frames) == NASTY
    assert (frames[-1].done, frames[-1].response) == (True, "")


def test_whole_replies() -> None:
    reply = fold(EVENTS)
    with Case(encode_reply(reply, answer())) as client:
        chat = client.chat("m:1b", [{"role": "user", "content": "Hi"}])
    assert (chat.message.content, chat.message.thinking, chat.done) == ("Hi " + NASTY, NASTY, True)
    with Case(encode_reply(reply, answer("generate"))) as client:
        assert client.generate("m:1b", "Hi").response == "Hi " + NASTY


@pytest.mark.promise(18, 19)
@pytest.mark.fault("F10")
@pytest.mark.parametrize("kind", ["chat", "generate"])
def test_a_failure_in_a_stream_is_raised(kind: str) -> None:
    def frames(client: ollama.Client) -> Iterator[Any]:
        if kind == "chat":
            return iter(client.chat("m", [{"role": "user", "content": "x"}], stream=True))
        return iter(client.generate("m", "x", stream=True))

    events = [*EVENTS[:6], Error(ApiError(Kind.TRUNCATED, "cut"))]
    with Case(encode(events, kind)) as client, pytest.raises(ollama.ResponseError, match="cut"):
        list(frames(client))


def test_an_http_error() -> None:
    failure = encode_error(ApiError(Kind.NOT_FOUND, "model 'x' not found"), "call-1")
    with Case(failure.body, failure.status) as client, pytest.raises(ollama.ResponseError) as caught:
        client.chat("x", [])
    assert (caught.value.error, caught.value.status_code) == ("model 'x' not found", 404)


def test_models() -> None:
    with Case(encode_models([LOCAL, REMOTE], route("/tags", "GET"))) as client:
        assert [m.model for m in client.list().models] == ["smollm2:135m", "openai/gpt-x"]
    with Case(encode_models([LOCAL, REMOTE], route("/ps", "GET"))) as client:
        assert [m.context_length for m in client.ps().models] == [8192, None]
    for info in (LOCAL, REMOTE):
        with Case(encode_model(info, route("/show"))) as client:
            shown = client.show("x")
        assert shown.modelinfo is not None
        assert shown.capabilities == list(info.capabilities)


def test_embeddings() -> None:
    case = Case(b'{"model":"m","embeddings":[[0.5]]}')
    with case as client:
        client.embed("m", ["a"], dimensions=2)
    request = parse_embed(case.body, route("/embed"), None)
    reply = encode_embed(EmbedReply(model="m", vectors=((0.5,),)), request, answer("embed"))
    with Case(reply) as client:
        assert client.embed("m", ["a"]).embeddings == [[0.5]]
    with Case(b'{"embedding":[0.5]}') as client:
        assert client.embeddings("m", "a").embedding == [0.5]


@pytest.mark.promise(13, 24, 25, 26, 27, 28, 49)
def test_pull() -> None:
    steps = [MANIFEST, PullProgress("pulling f", "f", "sha256:ab", 2, 0), SUCCESS]
    with Case(b"".join(encode_progress(s) for s in steps)) as client:
        seen = [(p.status, p.digest, p.total, p.completed) for p in client.pull("m", stream=True)]
    assert seen == [
        ("pulling manifest", None, None, None),
        ("pulling f", "sha256:ab", 2, 0),
        ("success", None, None, None),
    ]


def test_what_the_sdk_sends_is_read() -> None:
    def f(q: str) -> str:
        """Looks up.

        Args:
          q: what
        """
        return q

    case = Case(encode_reply(fold(EVENTS), answer()))
    with case as client:
        said = client.chat("m", [{"role": "user", "content": "Hi"}], tools=[f], think="high", keep_alive=0.0)
        talk: list[Any] = [
            {"role": "user", "content": "Hi"},
            said.message,
            {"role": "tool", "content": "r", "tool_name": "f"},
        ]
        client.chat("m", talk, options={"num_predict": 3}, format="json")
    first = parse_request(case.sent[0].content, route("/chat"), None)
    assert (first.stream, first.thinking, first.local.keep_alive_s) == (False, Thinking(effort="high"), 0.0)
    assert first.tools[0].name == "f"
    assert first.tools[0].parameters["required"] == ["q"]
    second = parse_request(case.body, route("/chat"), None)
    assert json.loads(case.body)["tools"] == []
    assert second.max_tokens == 3
    assert second.messages[1].role is Role.ASSISTANT
    calls = [p for p in second.messages[1].parts if isinstance(p, ToolCall)]
    assert [c.id for c in calls] == ["call_1_0"]  # the SDK drops the ids
    assert second.messages[2] == Message(Role.TOOL, (ToolResult("call_1_0", (Text("r"),), name="f"),))

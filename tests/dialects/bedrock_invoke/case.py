"""What the tests of this dialect share: bodies, routes, answers in each body and framing, streams read back."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from botocore.eventstream import EventStreamBuffer

from rivermouth.dialects.bedrock_invoke import DIALECT
from rivermouth.dialects.bedrock_invoke.tables import NAME
from rivermouth.dialects.dialect import Answer, Route
from rivermouth.ir.events import Event, Finish, PartEnd, PartKind, PartStart, Reason, Start, TextDelta, Usage
from rivermouth.ir.request import Message, Original, Request, Role, Text
from rivermouth.wire import json as wire

PLAIN, BINARY = DIALECT.surfaces
STREAM, INVOKE, COUNT, EMBED = DIALECT.routes
TITAN_MODEL = "amazon.titan-text-express-v1"
CLAUDE = "anthropic.claude-3-5-haiku-20241022-v1:0"
TITAN_BODY: dict[str, Any] = {"inputText": "Hi"}
CLAUDE_BODY: dict[str, Any] = {
    "anthropic_version": "bedrock-2023-05-31",
    "max_tokens": 100,
    "messages": [{"role": "user", "content": "Hi"}],
}

HELLO: list[Event] = [
    Start(),
    PartStart(0, PartKind.TEXT),
    TextDelta(0, "Hel"),
    TextDelta(0, "lo \u2028😀"),
    PartEnd(0),
    Usage(3, 2),
    Finish(Reason.STOP),
]


OWN: dict[str, dict[str, Any]] = {
    "titan": TITAN_BODY,
    "llama": {"prompt": "Hi", "max_gen_len": 9},
    "mistral": {"prompt": "Hi", "max_tokens": 9},
}
OWNERS = {"anthropic": "anthropic", "nova": "bedrock_converse", "cohere": "cohere_v1"}


def asked(body: str = "titan") -> Request:
    """A request whose client speaks that body."""
    fields = {name: wire.raw(value) for name, value in OWN.get(body, {}).items()}
    original = Original(OWNERS.get(body, NAME), fields)
    return Request(model="m", messages=(Message(Role.USER, (Text("Hi"),)),), stream=True, original=original)


def answer(body: str = "titan", framing: str = "plain", **changes: Any) -> Answer:
    given: dict[str, Any] = {
        "id": "c0ffee",
        "model": "asked-model",
        "created_ns": 0,
        "surface": PLAIN if framing == "plain" else BINARY,
        "kind": STREAM.kind,
        "request": asked(body),
    }
    return Answer(**{**given, **changes})


def encode(events: list[Event], body: str = "titan", framing: str = "plain", **changes: Any) -> bytes:
    return DIALECT.encoder(answer(body, framing, **changes)).feed(events)


def parse(body: Any, route: Route = STREAM, model: str | None = "m") -> Request:
    return DIALECT.parse_request(body if isinstance(body, bytes) else json.dumps(body).encode(), route, model)


def build(request: Request, model: str) -> dict[str, Any]:
    """The body for an upstream, as if the request came from another dialect."""
    return json.loads(DIALECT.build_request(msgspec.structs.replace(request, original=None), model).body)


def plain(stream: bytes) -> list[Any]:
    """The objects of a plain stream, after checking that each is one `data:` line without a space."""
    blocks = stream.split(b"\n\n")
    assert blocks.pop() == b""
    assert all(b.startswith(b"data:{") and b"\n" not in b for b in blocks)
    return [json.loads(b[5:]) for b in blocks]


def binary(stream: bytes) -> list[tuple[dict[str, str], Any]]:
    """Headers and payloads of a binary stream, as the vendor reads it."""
    buffer = EventStreamBuffer()
    buffer.add_data(stream)
    return [(m.headers, json.loads(m.payload)) for m in buffer]


class StreamDecoder:
    """Reader and decoder as one: bytes in, events out."""

    def __init__(self) -> None:
        self.reader = DIALECT.reader()
        self.decoder = DIALECT.decoder(asked())

    def feed(self, data: bytes) -> list[Event]:
        return [e for frame in self.reader.feed(data) for e in self.decoder.feed(frame)]

    def eof(self) -> list[Event]:
        return self.decoder.eof()


def decode(stream: bytes) -> list[Event]:
    decoder = StreamDecoder()
    return [*decoder.feed(stream), *decoder.eof()]

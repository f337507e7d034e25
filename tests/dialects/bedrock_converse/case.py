"""What the tests of this dialect share: bodies, answers, streams read back by the vendor's own reader."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from botocore.eventstream import EventStreamBuffer

from rivermouth.dialects.bedrock_converse import DIALECT
from rivermouth.dialects.dialect import Answer, Route
from rivermouth.ir.events import Event
from rivermouth.ir.request import Message, Request, Role, Text
from tests.dialects.conformance import Decoded

STREAM, WHOLE = DIALECT.routes
CLAUDE = "eu.anthropic.claude-sonnet-5-v1:0"
OLD_CLAUDE = "anthropic.claude-3-7-sonnet-20250219-v1:0"
NOVA = "us.amazon.nova-2-lite-v1:0"
GPT = "openai.gpt-oss-120b-1:0"
QWEN = "qwen.qwen3-32b-v1:0"
ASK = Request(model="m", messages=(Message(Role.USER, (Text("Hi"),)),))
BODY: dict[str, Any] = {"messages": [{"role": "user", "content": [{"text": "Hi"}]}]}


def parse(body: Any, route: Route = STREAM, model: str | None = "m") -> Request:
    return DIALECT.parse_request(body if isinstance(body, bytes) else json.dumps(body).encode(), route, model)


def asked(*blocks: Any, role: str = "user", **fields: Any) -> Request:
    """What a message of these blocks, after a question, is read as."""
    return parse({"messages": [*BODY["messages"], {"role": role, "content": list(blocks)}], **fields})


def build(request: Request, model: str = CLAUDE) -> dict[str, Any]:
    """The body for an upstream, as if the request came from another dialect."""
    built: dict[str, Any] = json.loads(outgoing(request, model).body)
    return built


def outgoing(request: Request, model: str = CLAUDE) -> Any:
    return DIALECT.build_request(msgspec.structs.replace(request, original=None), model)


def answer(**changes: Any) -> Answer:
    given: dict[str, Any] = {
        "id": "c0ffee",
        "model": "asked-model",
        "created_ns": 0,
        "surface": DIALECT.surfaces[0],
        "kind": STREAM.kind,
        "request": parse(BODY),
    }
    return Answer(**{**given, **changes})


def encode(events: list[Event], **changes: Any) -> bytes:
    return DIALECT.encoder(answer(**changes)).feed(events)


def messages(stream: bytes) -> list[tuple[str, Any]]:
    """Names and payloads of a stream, as the vendor reads it."""
    buffer = EventStreamBuffer()
    buffer.add_data(stream)
    return [
        (m.headers.get(":event-type") or m.headers.get(":exception-type") or "", json.loads(m.payload)) for m in buffer
    ]


def decode(stream: bytes) -> list[Event]:
    reader = Decoded(DIALECT)
    return [*reader.feed(stream), *reader.eof()]

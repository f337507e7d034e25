"""What the tests of this dialect share: answers, routes, events as text, and ways to read a stream back."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from rivermouth.dialects.anthropic import DIALECT
from rivermouth.dialects.dialect import Answer, Route
from rivermouth.ir.events import Event
from rivermouth.ir.request import Request
from rivermouth.wire.frame import Frame
from rivermouth.wire.sse import SseReader
from tests.dialects.conformance import Decoded


def answer(**changes: Any) -> Answer:
    given = {"id": "01J", "model": "gpt-x", "created_ns": 0, "surface": DIALECT.surfaces[1], "kind": "messages"}
    return Answer(**{**given, **changes})


def route(path: str = "/messages") -> Route:
    return next(r for r in DIALECT.routes if r.path == path)


def body(**changes: Any) -> dict[str, Any]:
    """The smallest request; a change to None takes the field away."""
    given = {"model": "claude-x", "max_tokens": 100, "messages": [{"role": "user", "content": "Hi"}], **changes}
    return {k: v for k, v in given.items() if v is not None}


def parse(path: str = "/messages", **changes: Any) -> Request:
    return DIALECT.parse_request(json.dumps(body(**changes)).encode(), route(path), None)


def foreign(request: Request) -> Request:
    """The request as if it had come in another dialect."""
    return msgspec.structs.replace(request, original=None)


def build(request: Request, model: str = "claude-y") -> dict[str, Any]:
    """The body for an upstream, as if the request came from another dialect."""
    built = DIALECT.build_request(foreign(request), model)
    return json.loads(built.body)


def encode(events: list[Event], **changes: Any) -> bytes:
    return DIALECT.encoder(answer(**changes)).feed(events)


def frames(stream: bytes) -> list[Frame]:
    """The frames of a stream, after checking that each is an `event:` line, a `data:` line and a blank line."""
    found = SseReader().feed(stream)
    assert b"".join(b"event: %b\ndata: %b\n\n" % (f.name.encode(), f.data) for f in found) == stream
    return found


def pairs(stream: bytes) -> list[tuple[str, Any]]:
    """Each frame as (event name, JSON)."""
    return [(f.name, json.loads(f.data)) for f in frames(stream)]


def decode(stream: bytes) -> list[Event]:
    """A whole stream, to its end."""
    decoder = Decoded(DIALECT)
    return [*decoder.feed(stream), *decoder.eof()]


def frame(name: str, data: Any) -> Frame:
    return Frame(name, data if isinstance(data, bytes) else json.dumps(data).encode())

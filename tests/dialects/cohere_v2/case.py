"""What the tests of this dialect share: answers, routes, and ways to read a stream back."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from rivermouth.dialects.cohere_v2 import DIALECT
from rivermouth.dialects.dialect import Answer, Route
from rivermouth.ir.events import Event
from rivermouth.ir.request import Request

NASTY = 'a\u2028b\u2029c\x85d 🗼 "é"\\'


def answer(**changes: Any) -> Answer:
    given: dict[str, Any] = {"id": "01J", "model": "m", "created_ns": 0, "surface": DIALECT.surfaces[0], "kind": "chat"}
    return Answer(**{**given, **changes})


def route(path: str = "/chat") -> Route:
    return next(r for r in DIALECT.routes if r.path == path)


def body(**changes: Any) -> dict[str, Any]:
    """The smallest request; a change to None takes the field away."""
    given = {"model": "command", "messages": [{"role": "user", "content": "Hi"}], **changes}
    return {k: v for k, v in given.items() if v is not None}


def parse(**changes: Any) -> Request:
    return DIALECT.parse_request(json.dumps(body(**changes)).encode(), route(), None)


def build(request: Request, model: str = "up") -> dict[str, Any]:
    """The body for an upstream, as if the request came from another dialect."""
    built = DIALECT.build_request(msgspec.structs.replace(request, original=None), model)
    found: dict[str, Any] = json.loads(built.body)
    return found


def losses(request: Request) -> tuple[str, ...]:
    return DIALECT.build_request(msgspec.structs.replace(request, original=None), "up").losses


def encode(events: list[Event], **changes: Any) -> bytes:
    return DIALECT.encoder(answer(**changes)).feed(events)


class StreamDecoder:
    """Reader and decoder as one: bytes in, events out."""

    def __init__(self, request: Request | None = None) -> None:
        self.reader = DIALECT.reader()
        self.decoder = DIALECT.decoder(request or Request(model="m", messages=()))

    def feed(self, data: bytes) -> list[Event]:
        return [e for frame in self.reader.feed(data) for e in self.decoder.feed(frame)]

    def eof(self) -> list[Event]:
        return self.decoder.eof()


def decode(stream: bytes, request: Request | None = None) -> list[Event]:
    """A whole stream, to its end."""
    decoder = StreamDecoder(request)
    return [*decoder.feed(stream), *decoder.eof()]


def pairs(stream: bytes) -> list[tuple[str, Any]]:
    """Each frame as (event name, JSON), after checking that each is an `event:`, a `data:` and a blank line."""
    found = DIALECT.reader().feed(stream)
    assert b"".join(b"event: %b\ndata: %b\n\n" % (f.name.encode(), f.data) for f in found) == stream
    read = [(f.name, json.loads(f.data)) for f in found]
    assert all(data["type"] == name for name, data in read), "the SDK goes by the type, others by the name"
    return read

"""What the tests of this dialect share: answers, routes, and ways to read a stream back."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from rivermouth.dialects.cohere_v1 import DIALECT
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
    given = {"model": "command", "message": "Hi", **changes}
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


def lines(stream: bytes) -> list[Any]:
    """Each line as JSON, after checking that it is a line for everybody and says whether it is the last."""
    assert len(stream.decode().splitlines()) == stream.count(b"\n")
    found = [json.loads(line) for line in stream.splitlines()]
    assert [line["is_finished"] for line in found] == [line["event_type"] == "stream-end" for line in found]
    return found

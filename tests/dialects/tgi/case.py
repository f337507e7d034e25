"""What the tests of this dialect share: bodies, routes, answers of each route, streams read back."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from rivermouth.dialects.dialect import Answer, Outgoing, Route
from rivermouth.dialects.tgi import DIALECT
from rivermouth.dialects.tgi.tables import NAME
from rivermouth.ir.events import Event, Finish, PartEnd, PartKind, PartStart, Reason, Start, TextDelta, Usage
from rivermouth.ir.request import Message, Original, Request, Role, Text
from rivermouth.wire import json as wire

HELLO: list[Event] = [
    Start(),
    PartStart(0, PartKind.TEXT),
    TextDelta(0, "Hel"),
    TextDelta(0, "lo \u2028😀"),
    PartEnd(0),
    Usage(3, 2),
    Finish(Reason.STOP),
]
CHAT_BODY: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi"}]}


def route(path: str) -> Route:
    return next(r for r in DIALECT.routes if r.path == path)


CHAT, GENERATE, STREAM, ROOT = (route(p) for p in ("/v1/chat/completions", "/generate", "/generate_stream", ""))


def asked(**parameters: Any) -> Request:
    """A native client's request."""
    fields = {"inputs": wire.raw("Hi"), **({"parameters": wire.raw(parameters)} if parameters else {})}
    return Request(
        model="tgi",
        messages=(Message(Role.USER, (Text("Hi"),)),),
        stream=True,
        include_usage=True,
        original=Original(NAME, fields),
    )


def answer(kind: str = "generate_stream", **changes: Any) -> Answer:
    given: dict[str, Any] = {
        "id": "c0ffee",
        "model": "asked-model",
        "created_ns": 0,
        "surface": DIALECT.surfaces[0],
        "kind": kind,
        "request": asked(),
    }
    return Answer(**{**given, **changes})


def encode(events: list[Event], kind: str = "generate_stream", **changes: Any) -> bytes:
    return DIALECT.encoder(answer(kind, **changes)).feed(events)


def parse(body: Any, where: Route = STREAM) -> Request:
    return DIALECT.parse_request(body if isinstance(body, bytes) else json.dumps(body).encode(), where, None)


def built(request: Request, model: str = "up") -> tuple[Outgoing, dict[str, Any]]:
    """The call of an upstream, as if the request came from another dialect."""
    outgoing = DIALECT.build_request(msgspec.structs.replace(request, original=None), model)
    return outgoing, json.loads(outgoing.body)


def frames(stream: bytes) -> list[Any]:
    """The objects of a native stream, after checking that each is one `data:` line without a space."""
    blocks = stream.split(b"\n\n")
    assert blocks.pop() == b""
    assert all(b.startswith(b"data:{") and b"\n" not in b for b in blocks)
    return [json.loads(b[5:]) for b in blocks]


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


def plain(*pieces: Any) -> bytes:
    """A stream of these objects, as a server sends it."""
    return b"".join(b"data:" + json.dumps(piece).encode() + b"\n\n" for piece in pieces)

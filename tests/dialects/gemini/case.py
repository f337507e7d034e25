"""What the tests of this dialect share: answers, routes, events as text, and ways to read a stream back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from rivermouth.dialects.dialect import Answer, Route
from rivermouth.dialects.gemini import DIALECT
from rivermouth.dialects.gemini.decoder import Decoder
from rivermouth.ir.events import Event
from rivermouth.ir.request import Request
from rivermouth.wire.frame import Frame
from rivermouth.wire.json_array import JsonArrayReader
from rivermouth.wire.sse import SseReader

STREAMS = sorted(p for p in (Path(__file__).parent / "streams").iterdir() if p.suffix in (".sse", ".json"))
SSE, ARRAY = (next(s for s in DIALECT.surfaces if s.prefix == prefix) for prefix in ("/gemini/v1beta", "/v1beta"))


def answer(**changes: Any) -> Answer:
    given = {"id": "01J", "model": "gpt-x", "created_ns": 0, "surface": SSE, "kind": "stream"}
    return Answer(**{**given, **changes})


def route(method: str = "streamGenerateContent") -> Route:
    return next(r for r in DIALECT.routes if r.path.endswith(f":{method}"))


def get_route(path: str) -> Route:
    return next(r for r in DIALECT.routes if r.method == "GET" and r.path == path)


def body(**changes: Any) -> dict[str, Any]:
    """The smallest request; a change to None takes the field away."""
    given = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}], **changes}
    return {k: v for k, v in given.items() if v is not None}


def parse(method: str = "generateContent", **changes: Any) -> Request:
    return DIALECT.parse_request(json.dumps(body(**changes)).encode(), route(method), "gpt-x")


def build(request: Request, model: str = "gemini-x") -> dict[str, Any]:
    """The body for an upstream, as if the request came from another dialect."""
    built = DIALECT.build_request(msgspec.structs.replace(request, original=None), model)
    found: dict[str, Any] = json.loads(built.body)
    return found


def encode(events: list[Event], **changes: Any) -> bytes:
    return DIALECT.encoder(answer(**changes)).feed(events)


def frames(stream: bytes) -> list[Any]:
    """The objects of a stream of events, after checking that each frame is one `data: ` line and a blank line."""
    found = SseReader().feed(stream)
    assert b"".join(b"data: %b\n\n" % f.data for f in found) == stream
    return [json.loads(f.data) for f in found]


def elements(stream: bytes) -> list[Any]:
    """The objects of an array, after checking that the reader finds the same ones as a JSON parser."""
    found = [json.loads(f.data) for f in JsonArrayReader().feed(stream)]
    assert json.loads(stream) == found
    return found


class StreamDecoder:
    """Reader and decoder as one: bytes in, events out."""

    def __init__(self, n: int = 1) -> None:
        self.reader = DIALECT.reader()
        self.decoder = DIALECT.decoder(Request(model="m", messages=(), n=n))

    def feed(self, data: bytes) -> list[Event]:
        return [e for frame in self.reader.feed(data) for e in self.decoder.feed(frame)]

    def eof(self) -> list[Event]:
        return self.decoder.eof()


def decode(stream: bytes, n: int = 1) -> list[Event]:
    """A whole stream, to its end."""
    decoder = StreamDecoder(n)
    return [*decoder.feed(stream), *decoder.eof()]


def run(*objects: Any, n: int = 1) -> list[Event]:
    """All events of these response objects and of the end of the stream."""
    decoder = Decoder(Request(model="m", messages=(), n=n))
    found = [e for o in objects for e in decoder.feed(frame(o))]
    return [*found, *decoder.eof()]


def frame(data: Any) -> Frame:
    return Frame("", data if isinstance(data, bytes) else json.dumps(data).encode())


def response(*parts: Any, finish: str | None = None, index: int = 0, **more: Any) -> dict[str, Any]:
    """A response object with one candidate."""
    reason = {"finishReason": finish} if finish else {}
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, **reason, "index": index}], **more}

"""What the tests of this dialect share: answers, routes, and the way to read our own frames back."""

from __future__ import annotations

import json
from typing import Any

from rivermouth.dialects.dialect import Answer, Route
from rivermouth.dialects.ollama import DIALECT
from rivermouth.ir.events import Event
from rivermouth.wire.frame import Frame
from tests.dialects.conformance import Decoded

CREATED_NS = 1_796_078_101_000_000_042
STAMP = "2026-11-30T22:35:01.000000042Z"


def answer(kind: str = "chat", **changes: Any) -> Answer:
    given = {"id": "call-1", "model": "m:1b", "created_ns": CREATED_NS, "surface": DIALECT.surfaces[0], "kind": kind}
    return Answer(**{**given, **changes})


def route(path: str, method: str = "POST") -> Route:
    return next(r for r in DIALECT.routes if r.path == path and r.method == method)


def lines(stream: bytes) -> list[dict[str, Any]]:
    """Each line as JSON, after checking that the framing is a line of JSON and nothing else."""
    assert stream == b"" or stream.endswith(b"\n")
    return [json.loads(line) for line in stream.split(b"\n")[:-1]]


def encode(events: list[Event], kind: str = "chat", **changes: Any) -> bytes:
    return DIALECT.encoder(answer(kind, **changes)).feed(events)


def decode(stream: bytes) -> list[Event]:
    decoder = Decoded(DIALECT)
    return [*decoder.feed(stream), *decoder.eof()]


def frame(text: str | bytes) -> Frame:
    return Frame("", text.encode() if isinstance(text, str) else text)

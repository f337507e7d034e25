"""What the tests of this dialect share."""

from __future__ import annotations

import json
from typing import Any, Final

from rivermouth.dialects.dialect import Answer, Operation, Route
from rivermouth.dialects.openai_responses import DIALECT
from rivermouth.ir.events import Event, PartEnd, PartKind, PartStart, TextDelta
from rivermouth.ir.request import Request

HI: Final = [{"role": "user", "content": "Hi"}]


def route(operation: Operation = Operation.GENERATE) -> Route:
    return next(r for r in DIALECT.routes if r.operation is operation)


def parse(**fields: Any) -> Request:
    return DIALECT.parse_request(json.dumps({"model": "m", "input": "Hi", **fields}).encode(), route(), None)


def answer(request: Request | None = None, **changes: Any) -> Answer:
    given: dict[str, Any] = {
        "id": "01J",
        "model": "m",
        "created_ns": 1_700_000_000_000_000_000,
        "surface": DIALECT.surfaces[0],
        "request": request,
        "total_ns": 2_000_000_000,
    }
    return Answer(**{**given, **changes})


def text(part: int, *pieces: str, kind: PartKind = PartKind.TEXT) -> list[Event]:
    return [PartStart(part, kind), *(TextDelta(part, piece) for piece in pieces), PartEnd(part)]


def frames(stream: bytes) -> list[dict[str, Any]]:
    """The events of a stream; each has its name and its type, which are the same, and the next number."""
    found = []
    for number, block in enumerate(stream.decode().split("\n\n")[:-1]):
        name, data = block.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        assert event["sequence_number"] == number
        found.append(event)
    return found


def kinds(stream: bytes) -> list[str]:
    return [event["type"].removeprefix("response.") for event in frames(stream)]

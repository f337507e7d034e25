"""Events as lines of text, so that what a recorded stream means can stand beside it."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from rivermouth.ir.events import Error, Event, Unknown


def describe(event: Event) -> dict[str, Any]:
    """`{"TextDelta": {...}}`, members that have their default left out."""
    if isinstance(event, Error):
        code = {"code": event.error.code} if event.error.code is not None else {}
        return {"Error": {"kind": event.error.kind.value, "message": event.error.message, **code}}
    if isinstance(event, Unknown):
        return {"Unknown": {"name": event.name, "data": event.data.decode()}}
    fields = {
        f.name: getattr(event, f.name)
        for f in msgspec.structs.fields(type(event))
        if f.default is msgspec.NODEFAULT or getattr(event, f.name) != f.default
    }
    shown: dict[str, Any] = json.loads(json.dumps({type(event).__name__: msgspec.to_builtins(fields)}))
    return shown


def parse_lines(text: str) -> list[dict[str, Any]]:
    """The described events of a `.events.jsonl` file."""
    return [json.loads(line) for line in text.splitlines()]

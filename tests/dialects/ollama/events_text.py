"""Events as lines of text, so that what a recorded stream means can stand beside it."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from rivermouth.ir.events import Error, Event


def describe(event: Event) -> dict[str, Any]:
    """`{"TextDelta": {...}}`, members that have their default left out."""
    if isinstance(event, Error):
        error = event.error
        return {"Error": {"kind": error.kind.value, "message": error.message}}
    fields = {
        f.name: getattr(event, f.name)
        for f in msgspec.structs.fields(type(event))
        if f.default is msgspec.NODEFAULT or getattr(event, f.name) != f.default
    }
    return {type(event).__name__: msgspec.to_builtins(fields)}


def parse_lines(text: str) -> list[dict[str, Any]]:
    """The described events of a `.events.jsonl` file."""
    return [json.loads(line) for line in text.splitlines()]

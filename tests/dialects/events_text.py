"""Events as text, so that what a recorded stream means can stand beside it: as `rivermouth replay --events` says it."""

from __future__ import annotations

import json
from typing import Any

from rivermouth.cli.replay import lines
from rivermouth.ir.events import Event


def describe(event: Event) -> dict[str, Any]:
    """`{"TextDelta": {...}}`, members that have their default left out."""
    described: dict[str, Any] = json.loads(lines([event]))
    return described


def parse_lines(text: str) -> list[dict[str, Any]]:
    """The described events of a `.events.jsonl` file."""
    return [json.loads(line) for line in text.splitlines()]

"""Tool arguments: JSON text in the neutral model, a JSON object on wires that have one there."""

from __future__ import annotations

import msgspec

from rivermouth.ir.errors import WireError
from rivermouth.wire import json


def to_object(text: str) -> bytes:
    """One JSON object on one line.  "" and null mean {}; what is no object, or no JSON, is wrapped as {"input": ...}.

    A model may write anything; the client of such a wire parses what it gets and raises if it is no object.
    """
    stripped = text.strip()
    if not stripped:
        return b"{}"
    try:
        value = json.decode(stripped.encode("utf-8", "replace"))
    except WireError:
        return json.encode({"input": text})
    if isinstance(value, dict):
        return json.encode(value)
    return b"{}" if value is None else json.encode({"input": value})


def begins_object(text: str) -> bool | None:
    """Whether arguments that begin so can be an object; None while only blanks were seen."""
    stripped = text.lstrip()
    return stripped.startswith("{") if stripped else None


def as_object(text: str) -> msgspec.Raw | None:
    """The object as one line of JSON, numbers as the model wrote them; None for none.  Blanks and null are {}."""
    written = text.strip()
    if written in ("", "null"):
        return msgspec.Raw(b"{}")
    try:
        data = written.encode()
        json.fields(data)
        lines = "\n" in written or "\r" in written
        return msgspec.Raw(json.encode(json.decode(data)) if lines else json.line_safe(data))
    except (WireError, UnicodeEncodeError):
        return None

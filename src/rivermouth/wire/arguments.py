"""Tool arguments: JSON text in the neutral model, a JSON object on many wires.

A model may write anything: its text is only an object if it is valid JSON, and it is not when the token limit cut it.
"""

from __future__ import annotations

import msgspec

from rivermouth.ir.errors import WireError
from rivermouth.wire import json

_EMPTY = ("", "null")


def as_object(text: str) -> msgspec.Raw | None:
    """The arguments as one line of JSON, numbers as the model wrote them; None when they are no object.

    Blanks and null are {}.
    """
    written = text.strip()
    if written in _EMPTY:
        return msgspec.Raw(b"{}")
    try:
        data = written.encode()
        json.fields(data)
        lines = "\n" in written or "\r" in written
        return msgspec.Raw(json.encode(json.decode(data)) if lines else json.line_safe(data))
    except (WireError, UnicodeEncodeError):
        return None


def wrapped(text: str) -> msgspec.Raw:
    """Always an object, compact: what is none is the member "input" of one, as a value or else as its text."""
    written = text.strip()
    if written in _EMPTY:
        return msgspec.Raw(b"{}")
    try:
        value = json.decode(written.encode("utf-8", "replace"))
    except WireError:
        value = text
    return msgspec.Raw(json.encode(value if isinstance(value, dict) else {"input": value}))

"""Where in a request a fault is, in this protocol's spelling: "messages.0.content.1.text"."""

from __future__ import annotations

from rivermouth.ir.errors import ApiError, WireError, invalid
from rivermouth.wire import json


def field_error(error: WireError, where: str = "") -> ApiError:
    """A JSON shape error as the client's fault; `where` is the path of what was decoded."""
    words, param, missing = json.misfit(error)
    steps = (param or "").replace("[", ".").replace("]", "").lstrip(".")
    path = field_path(where, steps) if steps else where
    return invalid("Field required" if missing else words, path or None)


def field_path(path: str, step: str) -> str:
    """One step further."""
    return f"{path}.{step}" if path else step

"""Where in a request a fault is, in this protocol's spelling: "messages.0.content.1.text"."""

from __future__ import annotations

import re
from typing import Final

from rivermouth.ir.errors import ApiError, WireError, invalid

_PLACE: Final = re.compile(r" - at `\$([^`]*)`$")
_MISSING: Final = re.compile(r"^Object missing required field `([^`]+)`")
_STEP: Final = re.compile(r"\[(\d+|\.\.\.)\]|\.?([^.\[\]]+)")


def field_error(error: WireError, where: str = "") -> ApiError:
    """A JSON shape error as the client's fault; `where` is the path of what was decoded."""
    text = str(error)
    place = _PLACE.search(text)
    path = where
    if place is not None:
        text = text[: place.start()]
        for index, name in _STEP.findall(place[1]):
            path = field_path(path, index or name)
    missing = _MISSING.match(text)
    if missing is not None:
        return invalid("Field required", field_path(path, missing[1]))
    return invalid(text, path or None)


def field_path(path: str, step: str) -> str:
    """One step further."""
    return f"{path}.{step}" if path else step

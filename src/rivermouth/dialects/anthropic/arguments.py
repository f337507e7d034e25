"""Tool arguments as they stream to a client, which parses them piece by piece and raises if they are no object."""

from __future__ import annotations


def begins_object(text: str) -> bool | None:
    """Whether arguments that begin so can be an object; None while only blanks were seen."""
    stripped = text.lstrip()
    return stripped.startswith("{") if stripped else None

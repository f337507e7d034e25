"""What the scripted model says, as a reader of its documentation would expect it."""

from __future__ import annotations

from typing import Any, Final

SIGNED: Final = "This is the scripted model: the same words for the same request, déjà vu ✓ 🌊."
SEPARATORS: Final = "a\u2028b\u2029c\x85d\u000be \U0001f30a"
"""Characters at which careless readers of lines break a line (F5)."""
PIXEL: Final = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

CITY: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "enum": ["Köln", "Düsseldorf"]},
        "days": {"type": "integer", "enum": [3]},
    },
    "required": ["city", "days"],
    "additionalProperties": False,
}
ARGUMENTS: Final = {"city": "Köln", "days": 3}
"""The smallest document for CITY, which is what the scripted model writes."""


def echo(text: str) -> str:
    return f'You said: "{text}". {SIGNED}'


def thought(text: str) -> str:
    return f'The last message reads "{text}". → I only have to repeat it, and the same request gets the same words ✓.'

"""How many tokens a text is, where nobody has counted them."""

from __future__ import annotations

from typing import Any, Final

from rivermouth.ir.request import Request

CHARS_PER_TOKEN: Final = 4
TOKENS_PER_MESSAGE: Final = 4
"""What the layout of a talk takes around each message."""


def estimate_tokens(chars: int, chunks: int = 0) -> int:
    """Tokens in a text of that length: four characters a token, but never fewer than the pieces a model made of it."""
    return max(-(-chars // CHARS_PER_TOKEN), chunks)


def estimate_prompt(request: Request) -> int:
    """Tokens of all that a request has for the model to read, from the length of its texts."""
    chars = sum([len(t.text) for t in request.system])
    chars += sum([_chars(part) for message in request.messages for part in message.parts])
    chars += sum([len(t.name) + len(t.description or "") + len(str(t.parameters)) for t in request.tools])
    return estimate_tokens(chars) + TOKENS_PER_MESSAGE * len(request.messages)


def _chars(part: Any) -> int:
    text = getattr(part, "text", None) or getattr(part, "arguments", None) or ""
    content = getattr(part, "content", ())
    return len(text) + sum([len(getattr(c, "text", None) or "") for c in content])

"""What the scripted model says: texts, their tokens, and the marks that it derives from a request.  Pure."""

from __future__ import annotations

import base64
import hashlib
import re
from itertools import cycle, islice, takewhile
from typing import Final

import msgspec

from rivermouth.ir.request import (
    Audio,
    File,
    Image,
    Part,
    Reasoning,
    Refusal,
    Request,
    Role,
    Text,
    ToolCall,
    ToolResult,
)
from rivermouth.wire import json

_TOKEN: Final = re.compile(r"\s*\S{1,8}|\s+")
_RIVER: Final = "the river finds its mouths 🌊 and every mouth says the same words ✓ déjà vu"
_SIGNED: Final = "This is the scripted model: the same words for the same request, déjà vu ✓ 🌊."

QUOTE_CHARACTERS: Final = 80
RESULT_CHARACTERS: Final = 400


def tokens_of(text: str) -> list[str]:
    """The text as tokens: up to eight visible characters each, with the space before them.  Joined, it is the text."""
    return _TOKEN.findall(text)


def count_tokens(text: str) -> int:
    return sum(1 for _ in _TOKEN.finditer(text))


def count_prompt(request: Request) -> int:
    """The tokens of all that the model reads: every text, call and result; each image, file and sound is one."""
    parts = [part for message in request.messages for part in message.parts]
    return sum(_part_tokens(part) for part in [*request.system, *parts])


def _part_tokens(part: Part) -> int:
    match part:
        case Text() | Refusal() | Reasoning():
            return count_tokens(part.text)
        case ToolCall():
            return count_tokens(part.name) + count_tokens(part.arguments)
        case ToolResult():
            return sum(map(_part_tokens, part.content))
        case File() if part.text is not None:
            return count_tokens(part.text)
        case Image() | File() | Audio():
            return 1


def mark_of(request: Request, model: str) -> str:
    """64 hex digits that are the same for the same request, however it was sent and by whom."""
    core = msgspec.structs.replace(
        request, stream=False, include_usage=False, user=None, metadata=None, original=None, kept=None, model=model
    )
    return hashlib.sha256(json.encode(core)).hexdigest()


def signature_of(mark: str) -> str:
    """The signature of the reasoning in the answer with this mark: base64, as the vendors' are."""
    return base64.b64encode(hashlib.sha256(f"reasoning {mark}".encode()).digest()).decode()


def thoughts(request: Request) -> str:
    quote = _quote(last_user_text(request), QUOTE_CHARACTERS)
    return f'The last message reads "{quote}". → I only have to repeat it, and the same request gets the same words ✓.'


def river(count: int) -> str:
    """A text of exactly `count` tokens."""
    return " ".join(islice(cycle(_RIVER.split()), count))


def echo(request: Request, choice: int) -> str:
    """Quotes the tool results that came last, else the user's last message; says how many media it was given."""
    results = trailing_results(request)
    said = _results_text(request, results) if results else _user_text(request)
    which = [f"(Choice {choice + 1} of {request.n}.)"] if request.n > 1 else []
    return " ".join([said, *_media_text(request), _SIGNED, *which])


def last_user_text(request: Request) -> str:
    """The text of the user's last message; "" if there is none."""
    return next((m.text for m in reversed(request.messages) if m.role is Role.USER), "")


def trailing_results(request: Request) -> list[ToolResult]:
    """The tool results since the model spoke last."""
    since = takewhile(lambda message: message.role is not Role.ASSISTANT, reversed(request.messages))
    return [p for message in reversed(list(since)) for p in message.parts if isinstance(p, ToolResult)]


def _user_text(request: Request) -> str:
    text = _quote(last_user_text(request), QUOTE_CHARACTERS)
    return f'You said: "{text}".' if text else "You said nothing."


def _results_text(request: Request, results: list[ToolResult]) -> str:
    names = {p.id: p.name for m in request.messages for p in m.parts if isinstance(p, ToolCall)}
    lines = []
    for result in results:
        text = "".join(p.text or "" for p in result.content if isinstance(p, Text | File))
        verb = "failed with" if result.is_error else "answered"
        lines.append(f'{result.name or names.get(result.id, "The tool")} {verb} "{_quote(text, RESULT_CHARACTERS)}".')
    return " ".join(lines)


def _media_text(request: Request) -> list[str]:
    counts = {"image": 0, "file": 0, "sound": 0}
    for message in request.messages:
        for part in message.parts:
            for item in part.content if isinstance(part, ToolResult) else (part,):
                match item:
                    case Image():
                        counts["image"] += 1
                    case File():
                        counts["file"] += 1
                    case Audio():
                        counts["sound"] += 1
                    case _:
                        pass
    return [f"I was given {n} {name}{'s' if n > 1 else ''}." for name, n in counts.items() if n]


def _quote(text: str, limit: int) -> str:
    """The beginning of the text on one line."""
    line = " ".join(text[: 4 * limit].split())
    return line if len(line) <= limit and len(text) <= 4 * limit else line[:limit] + "…"

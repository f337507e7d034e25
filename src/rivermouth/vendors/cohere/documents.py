"""Documents to ground an answer on: a string, or members that are shown to the model as lines of `name: value`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rivermouth.ir.request import File, Message, Role
from rivermouth.wire import json

_ABOUT = frozenset({"id", "_excludes"})


def document(data: Any, identity: str | None) -> File:
    """The document as a file of text, named by its title or its id."""
    if not isinstance(data, dict):
        return File(media_type="text/plain", text=data if isinstance(data, str) else _value(data), name=identity)
    hidden = _ABOUT | {name for name in _excluded(data.get("_excludes")) if isinstance(name, str)}
    shown = {name: value for name, value in data.items() if name not in hidden}
    title = shown.get("title")
    name = title if isinstance(title, str) and title else identity
    if len(shown) == 1:
        return File(media_type="text/plain", text=_value(next(iter(shown.values()))), name=name)
    lines = "\n".join(f"{member}: {_value(value)}" for member, value in shown.items())
    return File(media_type="text/plain", text=lines, name=name)


def grounded(messages: Sequence[Message], files: Iterable[File]) -> tuple[Message, ...]:
    """The talk with the documents before what the user said last; a talk without a user gets a turn that shows them."""
    given = tuple(files)
    if not given:
        return tuple(messages)
    at = next((i for i in reversed(range(len(messages))) if messages[i].role is Role.USER), None)
    if at is None:
        return (Message(Role.USER, given), *messages)
    asked = messages[at]
    shown = Message(Role.USER, (*given, *asked.parts), asked.name)
    return (*messages[:at], shown, *messages[at + 1 :])


def _excluded(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.encode(value).decode()

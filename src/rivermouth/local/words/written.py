"""Tool calls as models write them, read from text.

Two readers of the same text.  `head` knows a call by its beginning, so that its arguments can be passed on while they
are written; `calls_in` reads text that is whole, in all the forms that were seen.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from rivermouth.ir.errors import WireError
from rivermouth.local.words.families import (
    HERMES_CLOSE,
    HERMES_OPEN,
    LLAMA_TAG,
    MISTRAL_ARGS,
    MISTRAL_ID,
    MISTRAL_OPEN,
    Calls,
)
from rivermouth.wire import json

OPENS: Final = {Calls.HERMES: HERMES_OPEN, Calls.MISTRAL: MISTRAL_OPEN, Calls.LLAMA3: LLAMA_TAG}
"""The mark that begins calls.  A family that is not here writes them without."""

_NAME: Final = r'\{\s*(?:"(?:type|id)"\s*:\s*"[^"\\]*"\s*,\s*)*"name"\s*:\s*"(?P<name>[^"\\]+)"'
_OBJECT: Final = _NAME + r'\s*,\s*"(?:arguments|parameters)"\s*:\s*(?=\{)'
_BARE: Final = r"(?P<bare>[^\s\[{]+)\s*(?:\[CALL_ID\][^\[]*)?\[ARGS\]\s*(?=\{)"
_HEADS: Final[dict[Calls, re.Pattern[str]]] = {
    Calls.HERMES: re.compile(rf"\s*{re.escape(HERMES_OPEN)}\s*{_OBJECT}"),
    Calls.LLAMA3: re.compile(rf"\s*(?:{re.escape(LLAMA_TAG)})?\s*{_OBJECT}"),
    Calls.MISTRAL: re.compile(rf"\s*(?:{re.escape(MISTRAL_OPEN)})?\s*(?:\[?\s*{_OBJECT}|{_BARE})"),
    Calls.FORCED: re.compile(rf"\s*{_OBJECT}"),
}
# What stands between a call's arguments and what follows it, and says nothing: the end of its object, and of a list.
_LAYOUT: Final[dict[Calls, str]] = {
    Calls.HERMES: " \t\r\n}",
    Calls.LLAMA3: " \t\r\n};",
    Calls.MISTRAL: " \t\r\n},]",
    Calls.FORCED: " \t\r\n}",
}
_FIRST: Final = re.compile(r'\{\s*(?:"(?P<key>[^"\\]*)"|[^\s"])')
_NAMED: Final = re.compile(_NAME)
_KEYS: Final = frozenset({"name", "type", "id", "arguments", "parameters"})
_MEMBER: Final = re.compile(r'"\w*"\s*:\s*"[^"\\]*"')
_MEMBER_CAP_CHARS: Final = 200


class Head(NamedTuple):
    """The beginning of a call: the tool's name, and how much text comes before its arguments."""

    name: str
    length: int


def head(calls: Calls, text: str) -> Head | None:
    """The call that `text` begins with, if it has come as far as its arguments, and they are an object."""
    found = _HEADS[calls].match(text)
    if found is None:
        return None
    return Head(found["name"] or found["bare"], found.end())


def is_no_call(calls: Calls, text: str, tools: frozenset[str]) -> bool:
    """True when an answer that begins like a call without a mark is sure to be something else."""
    if calls is not Calls.LLAMA3 or text[:1] != "{":
        return False
    first, named = _FIRST.match(text), _NAMED.match(text)
    return (first is not None and first["key"] not in _KEYS) or (named is not None and named["name"] not in tools)


class Next(NamedTuple):
    """What follows a call's arguments.  rest: the text without the layout.  again: another call, which `head` reads.

    again is None while it is not clear.
    """

    rest: str
    again: bool | None


def after(calls: Calls, text: str) -> Next:
    """What to make of the text behind a call's arguments."""
    rest = text.lstrip(_LAYOUT[calls])
    if calls is Calls.MISTRAL and rest[:1] == '"':  # another member of the call, such as its id
        member = _MEMBER.match(rest)
        if member is not None:
            return after(calls, rest[member.end() :])
        return Next(rest, None if len(rest) < _MEMBER_CAP_CHARS else False)
    mark = HERMES_CLOSE if calls is Calls.HERMES else OPENS.get(calls, "")
    if not rest or (len(rest) < len(mark) and mark.startswith(rest)):
        return Next(rest, None)
    if calls is Calls.HERMES:
        return Next(rest.removeprefix(HERMES_CLOSE), again=False)
    return Next(rest, again=calls is not Calls.FORCED and (rest[0] == "{" or rest.startswith(mark)))


class ArgumentsScan:
    """Finds the end of a JSON object in text that comes in pieces."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_text = False
        self._escaped = False

    def feed(self, text: str) -> int | None:
        """How much of the piece belongs to the object, when it ends in it; None when it goes on."""
        for at, char in enumerate(text):
            if self._escaped:
                self._escaped = False
            elif self._in_text:
                self._escaped = char == "\\"
                self._in_text = char != '"'
            elif char == '"':
                self._in_text = True
            elif char in "{[":
                self._depth += 1
            elif char in "}]":
                self._depth -= 1
                if self._depth == 0:
                    return at + 1
        return None


def calls_in(calls: Calls, written: str, tools: frozenset[str]) -> list[tuple[str, str]]:
    """Names and arguments (JSON text) of the calls that `written` is, all or none."""
    text = written.strip()
    if calls is Calls.MISTRAL:
        found = _mistral(text.removeprefix(MISTRAL_OPEN).strip())
    elif calls is Calls.HERMES:
        found = _objects(text.removeprefix(HERMES_OPEN).removesuffix(HERMES_CLOSE))
    else:
        found = _objects(text.removeprefix(LLAMA_TAG))
    return found if found and all(name in tools for name, _ in found) else []


def _mistral(text: str) -> list[tuple[str, str]]:
    """A list of objects, or name[ARGS]{...} as often as there are calls."""
    if MISTRAL_ARGS not in text:
        return _objects(text)
    found: list[tuple[str, str]] = []
    for piece in text.split(MISTRAL_OPEN):
        name, _, arguments = piece.partition(MISTRAL_ARGS)
        value = _decoded(arguments)
        if not isinstance(value, dict):
            return []
        found.append((name.partition(MISTRAL_ID)[0].strip(), arguments.strip()))
    return found


def _objects(text: str) -> list[tuple[str, str]]:
    """{"name": ..., "arguments" or "parameters": ...}: one, a list of them, or several with ; or blanks between."""
    value = _decoded(text)
    values = value if isinstance(value, list) else [value] if isinstance(value, dict) else _several(text)
    found = [_call(value) for value in values]
    return [] if None in found else [call for call in found if call is not None]


def _several(text: str) -> list[Any]:
    """The objects on lines, or between semicolons; [None] if that is not what it is."""
    pieces = [piece for line in text.splitlines() for piece in line.split(";") if piece.strip()]
    return [_decoded(piece) for piece in pieces]


def _call(value: Any) -> tuple[str, str] | None:
    if not isinstance(value, dict):
        return None
    name, arguments = value.get("name"), value.get("arguments", value.get("parameters", {}))
    if not isinstance(name, str) or not isinstance(arguments, dict | str):
        return None
    text = arguments if isinstance(arguments, str) else json.encode(arguments).decode()
    return (name, text) if isinstance(_decoded(text or "{}"), dict) else None


def _decoded(text: str) -> Any:
    """Any JSON value; None when it is no JSON."""
    try:
        return json.decode(text.strip().encode(errors="replace"))
    except WireError:
        return None

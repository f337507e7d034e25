"""Tools that take text instead of arguments, as functions of one text, and their calls out of that wrapping."""

from __future__ import annotations

import re
from typing import Final

from rivermouth.ir.errors import WireError
from rivermouth.ir.request import FreeForm, Inside, Tool
from rivermouth.wire import json

PARAMETERS: Final = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
    "additionalProperties": False,
}
HEAD: Final = '{"input":"'
TAIL: Final = '"}'


def as_function(name: str, form: FreeForm, inside: Inside | None = None) -> Tool:
    """The tool for targets that have nothing but functions; its description says what the grammar demands."""
    words = [form.description] if form.description else []
    if form.definition:
        words.append(f"The input must match this {form.syntax or ''} grammar:\n{form.definition}")
    return Tool(name, "\n\n".join(words) or None, dict(PARAMETERS), free_form=form, inside=inside)


def wrap(text: str) -> str:
    """The arguments of a call whose input is this text."""
    return json.encode({"input": text}).decode()


def inner(text: str) -> str:
    """A piece of the text as it stands between `HEAD` and `TAIL`."""
    return json.encode(text).decode()[1:-1]


def unwrap(arguments: str) -> str:
    """The text of a call out of its wrapping; what the model wrote instead, if it broke the wrapping."""
    try:
        value = json.decode(arguments.encode("utf-8", "replace"))
    except WireError:
        return arguments
    text = value.get("input") if isinstance(value, dict) else None
    return text if isinstance(text, str) else arguments


class Unwrapping:
    """The text of a call while its arguments still arrive: together it is what `unwrap` makes of the whole, and of
    arguments that were cut off in the text what was there.

    What a model wrote instead of the wrapping is held, and comes whole at the end.
    """

    __slots__ = ("_held", "_inside", "_over", "_rest")

    def __init__(self) -> None:
        self._held = ""  # what cannot be read yet: a beginning, or half an escape; short
        self._rest: list[str] = []  # all that comes after something that is none
        self._inside = False
        self._over = False

    def feed(self, arguments: str) -> str:
        """The text in one more piece of the arguments."""
        if self._over:
            return ""
        if self._rest:
            self._rest.append(arguments)
            return ""
        self._held += arguments
        if not self._inside:
            opening = _OPENING.match(self._held)
            if opening is None:
                return self._keep(_OPENING_CHARS)
            self._inside = True
            self._held = self._held[opening.end() :]
        found = _INNER.match(self._held)
        assert found is not None  # it matches the empty text
        body, self._held = self._held[: found.end()], self._held[found.end() :]
        self._over = self._held[:1] == '"'
        if not self._over:
            self._keep(_ESCAPE_CHARS)
        return _spelled_out(body)

    def end(self) -> str:
        """The text that was held back."""
        held = "" if self._over else self._held + "".join(self._rest)
        return held if self._inside else unwrap(held)

    def _keep(self, most_chars: int) -> str:
        """What is longer than that will never be read."""
        if len(self._held) > most_chars:
            self._rest, self._held = [self._held], ""
        return ""


def _spelled_out(body: str) -> str:
    text = json.text(b'"' + body.encode("utf-8", "replace") + b'"')
    return body if text is None else text


_OPENING: Final = re.compile(r'\s*\{\s*"input"\s*:\s*"')
_OPENING_CHARS: Final = 256
# Whole characters and whole escapes; the first half of a pair waits for the second.
_INNER: Final = re.compile(
    r'(?:[^"\\]|\\["\\/bfnrt]|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[0-9a-fA-F]{4}'
    r"|\\u(?:[0-9a-ce-fA-CE-F][0-9a-fA-F]{3}|[dD][0-7c-fC-F][0-9a-fA-F]{2}))*"
)
_ESCAPE_CHARS: Final = 12

"""Tools that take text instead of arguments, as functions of one text, and their calls out of that wrapping."""

from __future__ import annotations

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

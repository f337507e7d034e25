"""What a value did not keep, said to a person: the words that there are, and not an expression or the name of a type.

msgspec says `Invalid enum value 'king'` and `Expected ... matching regex '^[A-Z]{3}$'`.  Which words there are, and
what such a text has to be, stands in the types.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, Final, Literal, NamedTuple, get_args, get_origin

import msgspec

_NO_WORD: Final = re.compile(r"Invalid enum value ('.*'|\".*\"|\d+)", re.DOTALL)
_NO_SHAPE: Final = re.compile(r"Expected `str` matching regex (.+)", re.DOTALL)


class Sayings(NamedTuple):
    """sentences: what is said of a text that does not keep a pattern, by the pattern.  choices: the words of a field,
    by its name.
    """

    sentences: Mapping[str, str]
    choices: Mapping[str, tuple[str, ...]]


def sayings_of(*shapes: type[msgspec.Struct], **parameters: Any) -> Sayings:
    """Of these structs with all that is in them, and of parameters of these types."""
    sentences: dict[str, str] = {}
    choices: dict[str, tuple[str, ...]] = {}
    for name, wanted in [*parameters.items(), *(field for shape in shapes for field in _fields(shape))]:
        sentences |= _sentences(wanted)
        if words := tuple(_words(wanted)):
            choices[name] = words
    return Sayings(sentences, choices)


def plainly(message: str, param: str | None, known: Sayings) -> str:
    """The message of msgspec about this parameter or field, as in `budget.period` and `scopes[0]`; else as it is."""
    no_word = _NO_WORD.match(message)
    words = known.choices.get((param or "").rpartition(".")[2].partition("[")[0])
    if no_word is not None and words is not None:
        return f"expected one of {', '.join(words)}, not {no_word[1]}"
    no_shape = _NO_SHAPE.match(message)
    said = next((s for pattern, s in known.sentences.items() if no_shape and no_shape[1] == repr(pattern)), None)
    return said or message


def _fields(shape: type[msgspec.Struct]) -> Iterator[tuple[str, Any]]:
    for field in msgspec.structs.fields(shape):
        yield field.encode_name, field.type
        for inner in _inner(field.type):
            if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
                yield from _fields(inner)


def _inner(wanted: Any) -> Iterator[Any]:
    """The type and all that it is made of."""
    yield wanted
    if get_origin(wanted) is not Literal:
        for each in get_args(wanted):
            yield from _inner(each)


def _words(wanted: Any) -> Iterator[str]:
    for inner in _inner(wanted):
        if get_origin(inner) is Literal:
            yield from map(str, get_args(inner))
        elif isinstance(inner, type) and issubclass(inner, Enum):
            yield from (str(member.value) for member in inner)


def _sentences(wanted: Any) -> dict[str, str]:
    metas = [m for inner in _inner(wanted) for m in getattr(inner, "__metadata__", ()) if isinstance(m, msgspec.Meta)]
    return {meta.pattern: meta.description for meta in metas if meta.pattern is not None and meta.description}

"""Whether a JSON value conforms to a JSON schema: the part of the language that clients of LLM servers use.

One small function for each keyword, in a table.  Keywords outside the table say nothing about validity here (`title`,
`format`), nor does `pattern`: a client's regular expression can run for ever, so it is never run.  `REFUSED` are
those that assert something we cannot judge: a value that they apply to is reported, never passed over.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

Schema = dict[str, Any] | bool

REFUSED: Final[dict[str, Callable[[Any], bool]]] = {
    "not": lambda v: True,
    "if": lambda v: True,
    "$dynamicRef": lambda v: True,
    "$recursiveRef": lambda v: True,
    "contains": lambda v: isinstance(v, list),
    "unevaluatedItems": lambda v: isinstance(v, list) and bool(v),
    "patternProperties": lambda v: isinstance(v, dict) and bool(v),
    "propertyNames": lambda v: isinstance(v, dict) and bool(v),
    "dependentRequired": lambda v: isinstance(v, dict) and bool(v),
    "dependentSchemas": lambda v: isinstance(v, dict) and bool(v),
    "dependencies": lambda v: isinstance(v, dict) and bool(v),
}

# A schema may refer to itself; past this depth it is taken for endless.
DEPTH: Final = 40
STEPS: Final = 20_000


class Unsatisfiable(Exception):
    """No document can be made for this schema, or none that we know to be valid."""


class Judge:
    """Judges values by the schemas of one document, in a bounded number of steps."""

    def __init__(self, root: Schema) -> None:
        self.root = root
        self._left = STEPS

    def conforms(self, schema: Schema, value: Any, depth: int = 0) -> bool:
        """True when `value` is valid for `schema`.  Raises `Unsatisfiable` when that cannot be told."""
        self._left -= 1
        if self._left < 0 or depth > DEPTH:
            raise Unsatisfiable("the schema is too large or endless")
        if isinstance(schema, bool):
            return schema
        if schema.get("nullable") is True and value is None:
            return True
        return all(check(self, schema, value, depth + 1) for name, check in CHECKS.items() if name in schema)


def conforms(schema: Schema, value: Any) -> bool:
    """True when `value` is valid for the whole document `schema`."""
    return Judge(schema).conforms(schema, value)


def resolve(reference: str, root: Schema) -> Schema:
    """What a `$ref` points at.  Only references into the same document exist here."""
    if not reference.startswith("#"):
        raise Unsatisfiable(f"$ref {reference!r} leaves the document")
    here: Any = root
    for token in reference[1:].split("/")[1:]:
        name = token.replace("~1", "/").replace("~0", "~")
        if isinstance(here, list) and name.isascii() and name.isdigit() and int(name) < len(here):
            here = here[int(name)]
        elif isinstance(here, dict) and name in here:
            here = here[name]
        else:
            raise Unsatisfiable(f"$ref {reference!r} points at nothing")
    if not isinstance(here, dict | bool):
        raise Unsatisfiable(f"$ref {reference!r} does not point at a schema")
    return here


def same(a: Any, b: Any) -> bool:
    """Equal as JSON: 1 equals 1.0, and True is not 1."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(v, b[k]) for k, v in a.items())
    return bool(a == b)


def type_names(schema: dict[str, Any]) -> list[str]:
    """The types a schema allows, in lower case (one vendor writes them in capitals); [] when it does not say."""
    said = schema.get("type", [])
    return [str(t).lower() for t in (said if isinstance(said, list) else [said])]


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


TYPES: Final[dict[str, Callable[[Any], bool]]] = {
    "null": lambda v: v is None,
    "boolean": lambda v: isinstance(v, bool),
    "integer": lambda v: is_number(v) and v == int(v),
    "number": is_number,
    "string": lambda v: isinstance(v, str),
    "array": lambda v: isinstance(v, list),
    "object": lambda v: isinstance(v, dict),
}

Check = Callable[[Judge, dict[str, Any], Any, int], bool]


def _type(judge: Judge, schema: dict[str, Any], value: Any, depth: int) -> bool:
    return any(TYPES[t](value) for t in type_names(schema) if t in TYPES)


def _properties(judge: Judge, schema: dict[str, Any], value: Any, depth: int) -> bool:
    known = schema["properties"]
    return not isinstance(value, dict) or all(
        judge.conforms(known[k], v, depth) for k, v in value.items() if k in known
    )


def _additional(judge: Judge, schema: dict[str, Any], value: Any, depth: int) -> bool:
    rest, known = schema["additionalProperties"], schema.get("properties", {})
    return not isinstance(value, dict) or all(
        judge.conforms(rest, v, depth) for k, v in value.items() if k not in known
    )


def _items(judge: Judge, schema: dict[str, Any], value: Any, depth: int) -> bool:
    first = len(schema.get("prefixItems", ()))
    return not isinstance(value, list) or all(judge.conforms(schema["items"], v, depth) for v in value[first:])


def _prefix(judge: Judge, schema: dict[str, Any], value: Any, depth: int) -> bool:
    if not isinstance(value, list):
        return True
    return all(judge.conforms(s, v, depth) for s, v in zip(schema["prefixItems"], value, strict=False))


def _unique(judge: Judge, schema: dict[str, Any], value: Any, depth: int) -> bool:
    if schema["uniqueItems"] is not True or not isinstance(value, list):
        return True
    return not any(same(a, b) for i, a in enumerate(value) for b in value[:i])


def _exclusive(name: str, base: str, above: bool) -> Check:
    """Both spellings: a number of its own, or (in old drafts) True beside `minimum` or `maximum`."""

    def check(judge: Judge, schema: dict[str, Any], value: Any, depth: int) -> bool:
        said = schema[name]
        limit = schema.get(base) if said is True else said
        if not is_number(value) or not is_number(limit):
            return True
        return bool(value > limit if above else value < limit)

    return check


def _multiple(judge: Judge, schema: dict[str, Any], value: Any, depth: int) -> bool:
    return not is_number(value) or exact(value) % exact(schema["multipleOf"]) == 0


def _measure(name: str, kind: type, at_least: bool) -> Check:
    def check(judge: Judge, schema: dict[str, Any], value: Any, depth: int) -> bool:
        if not isinstance(value, kind):
            return True
        size = len(value)  # type: ignore[arg-type]
        return bool(size >= schema[name] if at_least else size <= schema[name])

    return check


def _one_of(judge: Judge, schema: dict[str, Any], value: Any, depth: int) -> bool:
    return sum(judge.conforms(s, value, depth) for s in schema["oneOf"]) == 1


def _refuse(name: str) -> Check:
    def check(judge: Judge, schema: dict[str, Any], value: Any, depth: int) -> bool:
        if REFUSED[name](value):
            raise Unsatisfiable(f"the keyword {name!r} is not understood here")
        return True

    return check


def exact(number: float) -> Fraction:
    """The number as it is written: 0.1 is one tenth.  Raises `Unsatisfiable` for what is no finite number."""
    try:
        return Fraction(repr(number))
    except (ValueError, OverflowError):
        raise Unsatisfiable(f"{number!r} is no finite number") from None


CHECKS: Final[dict[str, Check]] = {
    "$ref": lambda j, s, v, d: j.conforms(resolve(s["$ref"], j.root), v, d),
    "type": _type,
    "const": lambda j, s, v, d: same(s["const"], v),
    "enum": lambda j, s, v, d: any(same(option, v) for option in s["enum"]),
    "allOf": lambda j, s, v, d: all(j.conforms(inner, v, d) for inner in s["allOf"]),
    "anyOf": lambda j, s, v, d: any(j.conforms(inner, v, d) for inner in s["anyOf"]),
    "oneOf": _one_of,
    "required": lambda j, s, v, d: not isinstance(v, dict) or all(k in v for k in s["required"]),
    "properties": _properties,
    "additionalProperties": _additional,
    "minProperties": _measure("minProperties", dict, at_least=True),
    "maxProperties": _measure("maxProperties", dict, at_least=False),
    "items": _items,
    "prefixItems": _prefix,
    "minItems": _measure("minItems", list, at_least=True),
    "maxItems": _measure("maxItems", list, at_least=False),
    "uniqueItems": _unique,
    "minLength": _measure("minLength", str, at_least=True),
    "maxLength": _measure("maxLength", str, at_least=False),
    "minimum": lambda j, s, v, d: not is_number(v) or v >= s["minimum"],
    "maximum": lambda j, s, v, d: not is_number(v) or v <= s["maximum"],
    "exclusiveMinimum": _exclusive("exclusiveMinimum", "minimum", above=True),
    "exclusiveMaximum": _exclusive("exclusiveMaximum", "maximum", above=False),
    "multipleOf": _multiple,
    **{name: _refuse(name) for name in REFUSED},
}

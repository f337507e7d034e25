"""The smallest valid document for a JSON schema: nothing optional, shortest texts, fewest items, numbers nearest to 0.

    smallest(schema)  ->  a value that `conform.conforms`, or `Unsatisfiable`

Theory of operation.  `Maker` first makes a schema flat: references are followed and `allOf` is merged into one schema
(`MERGE` says how two values of a keyword combine), while each `anyOf` and `oneOf` becomes a group of alternatives.  It
then tries one alternative of each group, builds a value by the schema's type, and keeps the shortest that conforms.  A
recursive schema ends where an alternative does without the recursion.  Work is bounded by `BUDGET` steps, and texts and
lists by `LIMIT`, so a hostile schema is refused and not slow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import islice
from typing import Any, Final

from rivermouth.providers.scripted.conform import (
    DEPTH,
    TYPES,
    Judge,
    Schema,
    Unsatisfiable,
    is_number,
    resolve,
    same,
    type_names,
)
from rivermouth.providers.scripted.merge import merge
from rivermouth.providers.scripted.numbers import nearest_to_zero
from rivermouth.wire import json

BUDGET: Final = 4_000
LIMIT: Final = 4_096
TRIES: Final = 64

FORMATS: Final = {
    "date": "2000-01-01",
    "date-time": "2000-01-01T00:00:00Z",
    "time": "00:00:00Z",
    "duration": "P0D",
    "email": "a@example.com",
    "idn-email": "a@example.com",
    "hostname": "a",
    "idn-hostname": "a",
    "ipv4": "0.0.0.0",  # noqa: S104  a text, not an address to bind
    "ipv6": "::",
    "uri": "a:",
    "uri-reference": "",
    "iri": "a:",
    "iri-reference": "",
    "uuid": "00000000-0000-0000-0000-000000000000",
    "json-pointer": "",
    "relative-json-pointer": "0",
    "regex": "",
    "byte": "",
}

# What a schema without a type is most likely about, by the keywords it uses.
HINTS: Final[dict[str, tuple[str, ...]]] = {
    "object": ("properties", "required", "additionalProperties", "minProperties"),
    "array": ("items", "prefixItems", "minItems", "maxItems", "uniqueItems"),
    "string": ("minLength", "maxLength", "pattern", "format"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}


def smallest(schema: Schema) -> Any:
    """A valid value that leaves out whatever may be left out.  Raises `Unsatisfiable`."""
    try:
        return Maker(schema).make(schema, 0)
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
        raise Unsatisfiable(f"the schema is malformed ({type(error).__name__})") from error


def size(value: Any) -> int:
    """How long the value is as JSON."""
    return len(json.encode(value))


class Maker:
    """Builds values for the schemas of one document, within one budget."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._judge = Judge(root)
        self._left = BUDGET

    def make(self, schema: Schema, depth: int) -> Any:
        """The smallest value for a schema.  Raises `Unsatisfiable`."""
        self._spend(depth)
        flat, groups = self._flatten(schema, depth)
        if groups:
            return self._shortest(self._alternatives(flat, groups, depth), schema)
        return self._shortest(self._candidates(flat, depth), schema)

    def _spend(self, depth: int) -> None:
        self._left -= 1
        if self._left < 0 or depth > DEPTH:
            raise Unsatisfiable("the schema is too large or endless")

    def _shortest(self, tries: Iterator[Callable[[], Any]], schema: Schema) -> Any:
        """The shortest of the values that can be made and conform; the first of those that are equally short."""
        best: list[Any] = []
        why = "nothing is valid for it"
        for attempt in tries:
            try:
                value = attempt()
                if self._judge.conforms(schema, value) and (not best or size(value) < size(best[0])):
                    best = [value]
            except Unsatisfiable as error:
                why = str(error)
        if not best:
            raise Unsatisfiable(why)
        return best[0]

    def _flatten(self, schema: Schema, depth: int) -> tuple[dict[str, Any], list[list[Schema]]]:
        """One schema without references and `allOf`, and the groups of which one alternative each must hold."""
        self._spend(depth)
        if schema is True:
            return {}, []
        if schema is False:
            raise Unsatisfiable("the schema is false")
        flat = {k: v for k, v in schema.items() if k not in ("$ref", "allOf", "anyOf", "oneOf")}
        groups: list[list[Schema]] = [schema[k] for k in ("anyOf", "oneOf") if k in schema]
        inner: list[Schema] = list(schema.get("allOf", ()))
        if "$ref" in schema:
            inner.append(resolve(schema["$ref"], self._root))
        for part in inner:
            merged, more = self._flatten(part, depth + 1)
            flat = merge(flat, merged)
            groups += more
        return flat, groups

    def _alternatives(
        self, flat: dict[str, Any], groups: list[list[Schema]], depth: int
    ) -> Iterator[Callable[[], Any]]:
        first, rest = groups[0], [{"anyOf": group} for group in groups[1:]]
        for option in first:
            yield lambda option=option: self.make({"allOf": [flat, option, *rest]}, depth + 1)  # type: ignore[misc]

    def _candidates(self, flat: dict[str, Any], depth: int) -> Iterator[Callable[[], Any]]:
        """Values the schema names itself, else one of each type that it allows."""
        named = [flat["const"]] if "const" in flat else flat.get("enum")
        if named is not None:
            allowed = likely_types(flat)
            fitting = (v for v in named if any(TYPES[t](v) for t in allowed))
            yield from ((lambda v=v: v) for v in islice(fitting, TRIES))
            return
        for name in likely_types(flat):
            build = BUILDERS[name]
            yield lambda build=build: build(self, flat, depth)  # type: ignore[misc]

    def array(self, flat: dict[str, Any], depth: int) -> list[Any]:
        count = flat.get("minItems", 0)
        _bound(count)
        prefix = flat.get("prefixItems", [])[:count]
        values = [self.make(s, depth + 1) for s in prefix]
        while len(values) < count:
            values.append(self._another(flat, values, depth))
        return values

    def _another(self, flat: dict[str, Any], before: list[Any], depth: int) -> Any:
        """One more item; where items must differ, the first of some variations that is new."""
        items = flat.get("items", True)
        value = self.make(items, depth + 1)
        if flat.get("uniqueItems") is not True:
            return value
        _bound(len(before), TRIES)
        for new in islice(variations(self._flatten(items, depth + 1)[0], value, len(before)), 4 * TRIES):
            if not any(same(new, old) for old in before) and self._judge.conforms(items, new):
                return new
        raise Unsatisfiable("not enough different items")

    def object(self, flat: dict[str, Any], depth: int) -> dict[str, Any]:
        known: dict[str, Schema] = flat.get("properties", {})
        rest: Schema = flat.get("additionalProperties", True)
        names = list(dict.fromkeys(flat.get("required", ())))
        lacking = flat.get("minProperties", 0) - len(names)
        _bound(lacking)
        if lacking > 0:
            spare = [k for k in known if k not in names] + [f"p{i}" for i in range(lacking)]
            names += [k for k in spare if k not in names][:lacking]
        return {name: self.make(known.get(name, rest), depth + 1) for name in names}

    def string(self, flat: dict[str, Any], depth: int) -> str:
        if "pattern" in flat:
            return _authors_word(flat)
        least: int = flat.get("minLength", 0)
        _bound(least)
        form = flat.get("format")
        text = FORMATS.get(form, "") if isinstance(form, str) else ""
        return text + "a" * (least - len(text))

    def number(self, flat: dict[str, Any], depth: int) -> float:
        return nearest_to_zero(flat, Fraction(0))

    def integer(self, flat: dict[str, Any], depth: int) -> int:
        return int(nearest_to_zero(flat, Fraction(1)))


BUILDERS: Final[dict[str, Callable[[Maker, dict[str, Any], int], Any]]] = {
    "null": lambda maker, flat, depth: None,
    "boolean": lambda maker, flat, depth: True,
    "integer": Maker.integer,
    "number": Maker.number,
    "string": Maker.string,
    "array": Maker.array,
    "object": Maker.object,
}


def likely_types(flat: dict[str, Any]) -> list[str]:
    """The types to try: those the schema names, else what its keywords are about, else all."""
    if "type" in flat:
        said = [t for t in type_names(flat) if t in TYPES]
        return [*said, "null"] if flat.get("nullable") is True and "null" not in said else said
    hinted = [name for name, words in HINTS.items() if any(w in flat for w in words)]
    return hinted or list(BUILDERS)


def variations(flat: dict[str, Any], value: Any, tries: int) -> Iterator[Any]:
    """The value and others near it, enough to find one that is not among `tries` earlier ones."""
    yield value
    yield from flat.get("enum", ())
    yield from (None, True, False)
    step = flat.get("multipleOf", 1)
    for i in range(1, tries + 2):
        if is_number(value):
            yield from (value + i * step, value - i * step)
        elif isinstance(value, str):
            yield from (value + "a" * i, value[: len(value) - len(str(i))] + str(i))
        elif isinstance(value, list):
            yield [*value, *[0] * i]
        elif isinstance(value, dict):
            yield from ({**value, name: new} for name, old in value.items() for new in variations({}, old, i))
            yield {**value, f"p{i}": 0}


def _authors_word(flat: dict[str, Any]) -> str:
    """A text for a pattern: only one that the schema itself offers, since patterns are not run here."""
    offered = [*flat.get("examples", ()), flat.get("example"), flat.get("default")]
    for text in offered:
        if isinstance(text, str):
            return text
    raise Unsatisfiable("a text for a pattern can only be taken from the schema's own examples or default")


def _bound(count: int, limit: int = LIMIT) -> None:
    if count > limit:
        raise Unsatisfiable(f"more than {limit} characters or items")

"""Which JSON schemas may reach the engine.

Its grammar compiler raises in the middle of a step for a schema that it does not know, and that ends the process for
everyone.  So only what is known to compile goes in; the rest is refused, with the place that is at fault.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from rivermouth.ir.errors import ApiError, invalid
from rivermouth.ir.request import Format, ResponseFormat
from rivermouth.wire import json

DEPTH_CAP: Final = 32
NODES_CAP: Final = 2_000
TYPES: Final = frozenset({"string", "number", "integer", "boolean", "null", "array", "object"})
# Marked groups, look-arounds, back-references, word borders, lazy and possessive repetition: not regular, or unknown.
_IRREGULAR: Final = re.compile(r"\(\?|\\[0-9bBAZpPk]|[*+?}][+?]")
ANY_OBJECT: Final = '{"type":"object"}'


def schema_text(wanted: ResponseFormat | None) -> str | None:
    """The schema to force, as JSON text; None for free text.  Raises `ApiError`."""
    if wanted is None or wanted.kind is Format.TEXT:
        return None
    if wanted.kind is Format.JSON:
        return ANY_OBJECT
    schema = wanted.schema if wanted.schema is not None else {}
    _Check(schema).node(schema, "schema", 0)
    return json.encode(schema).decode()


class _Check:
    """Walks one schema; raises at the first thing that is not known to compile."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._nodes = 0

    def node(self, schema: object, where: str, depth: int) -> None:
        self._nodes += 1
        if depth > DEPTH_CAP or self._nodes > NODES_CAP:
            raise _refused(where, "is nested too deep or too large")
        if isinstance(schema, bool):
            return
        if not isinstance(schema, dict):
            raise _refused(where, "is not a schema")
        for key, value in schema.items():
            check = KEYWORDS.get(key)
            if check is None:
                raise _refused(f"{where}.{key}"[:200], "is not supported")
            check(self, value, f"{where}.{key}"[:200], depth + 1)

    def note(self, value: object, where: str, depth: int) -> None:
        """Anything: it changes nothing."""

    def type(self, value: object, where: str, depth: int) -> None:
        kinds = value if isinstance(value, list) else [value]
        if not kinds or not all(isinstance(kind, str) and kind in TYPES for kind in kinds):
            raise _refused(where, f"is not among {', '.join(sorted(TYPES))}")

    def children(self, value: object, where: str, depth: int) -> None:
        if not isinstance(value, dict):
            raise _refused(where, "is not an object")
        for key, child in value.items():
            self.node(child, f"{where}.{key}", depth)

    def nodes(self, value: object, where: str, depth: int) -> None:
        if not isinstance(value, list) or not value:
            raise _refused(where, "is not a list of schemas")
        for index, child in enumerate(value):
            self.node(child, f"{where}[{index}]", depth)

    def names(self, value: object, where: str, depth: int) -> None:
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            raise _refused(where, "is not a list of names")

    def values(self, value: object, where: str, depth: int) -> None:
        if not isinstance(value, list) or not value:
            raise _refused(where, "is not a list of values")

    def count(self, value: object, where: str, depth: int) -> None:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 1_000_000:
            raise _refused(where, "is not a count")

    def bound(self, value: object, where: str, depth: int) -> None:
        if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 10**15:
            raise _refused(where, "is not a number the engine can bound")

    def pattern(self, value: object, where: str, depth: int) -> None:
        if not isinstance(value, str) or len(value) > 1_000 or _IRREGULAR.search(value):
            raise _refused(where, "is not a plain regular expression")
        try:
            re.compile(value)
        except re.error as error:
            raise _refused(where, f"does not compile: {error}") from error

    def ref(self, value: object, where: str, depth: int) -> None:
        """Only to a definition of this document, by name."""
        head, _, name = value.rpartition("/") if isinstance(value, str) else ("", "", "")
        definitions = self._root.get(head.removeprefix("#/")) if head in ("#/$defs", "#/definitions") else None
        if value != "#" and (not isinstance(definitions, dict) or name not in definitions):
            raise _refused(where, "does not name a definition of this schema")


_Keyword = Callable[[_Check, object, str, int], None]

KEYWORDS: Final[dict[str, _Keyword]] = {
    **dict.fromkeys(("title", "description", "default", "examples", "$schema", "$id", "$comment"), _Check.note),
    "type": _Check.type,
    "properties": _Check.children,
    "$defs": _Check.children,
    "definitions": _Check.children,
    "required": _Check.names,
    "additionalProperties": _Check.node,
    "items": _Check.node,
    "prefixItems": _Check.nodes,
    "anyOf": _Check.nodes,
    "oneOf": _Check.nodes,
    "allOf": _Check.nodes,
    "enum": _Check.values,
    "const": _Check.note,
    "minItems": _Check.count,
    "maxItems": _Check.count,
    "minLength": _Check.count,
    "maxLength": _Check.count,
    "minimum": _Check.bound,
    "maximum": _Check.bound,
    "exclusiveMinimum": _Check.bound,
    "exclusiveMaximum": _Check.bound,
    "pattern": _Check.pattern,
    "$ref": _Check.ref,
}


def _refused(where: str, why: str) -> ApiError:
    return invalid(f"response_format: {where} {why}", param="response_format", code="unsupported_schema")

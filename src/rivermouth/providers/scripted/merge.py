"""Two JSON schemas as one: `allOf`, made flat.  `MERGE` says for each keyword how two demands become one."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

from rivermouth.providers.scripted.conform import Schema, Unsatisfiable, exact, same, type_names


def merge(a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
    """One schema that demands what both demand."""
    both = {**a, **b}
    for key in a.keys() & b.keys():
        if key in MERGE:
            both[key] = MERGE[key](a[key], b[key])
    return both


def _both_types(a: Any, b: Any) -> list[str]:
    """The types that both allow; an integer is a number."""
    left, right = type_names({"type": a}), type_names({"type": b})
    common = [t for t in left if t in right]
    if "integer" in left + right and "number" in left + right and "integer" not in common:
        common.append("integer")
    if not common:
        raise Unsatisfiable(f"nothing is both {a} and {b}")
    return common


def _both_properties(a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
    return {**a, **b, **{k: {"allOf": [a[k], b[k]]} for k in a.keys() & b.keys()}}


def _both_schemas(a: Schema, b: Schema) -> Schema:
    return {"allOf": [a, b]}


def _both_prefixes(a: list[Schema], b: list[Schema]) -> list[Schema]:
    longer = a if len(a) > len(b) else b
    return [{"allOf": [x, y]} for x, y in zip(a, b, strict=False)] + longer[min(len(a), len(b)) :]


def _common_multiple(a: float, b: float) -> float:
    """The least number that is a multiple of both fractions."""
    x, y = exact(a), exact(b)
    found = Fraction(math.lcm(x.numerator, y.numerator), math.gcd(x.denominator, y.denominator))
    return int(found) if found.denominator == 1 else float(found)


MERGE: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "type": _both_types,
    "enum": lambda a, b: [v for v in a if any(same(v, w) for w in b)],
    "nullable": lambda a, b: a and b,
    "properties": _both_properties,
    "required": lambda a, b: [*a, *b],
    "additionalProperties": _both_schemas,
    "minProperties": max,
    "maxProperties": min,
    "items": _both_schemas,
    "prefixItems": _both_prefixes,
    "minItems": max,
    "maxItems": min,
    "uniqueItems": lambda a, b: a or b,
    "minLength": max,
    "maxLength": min,
    "minimum": max,
    "maximum": min,
    "exclusiveMinimum": max,
    "exclusiveMaximum": min,
    "multipleOf": _common_multiple,
}

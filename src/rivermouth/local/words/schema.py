"""Which JSON schemas may reach the engine.

Its grammar compiler raises in the middle of a step for a schema that it cannot compile, which ends the process for
everyone; and some constraints it compiles wrongly (a bounded string may hold raw control characters, a bounded decimal
any character for its point, an alternative hides what stands beside it).  So only what is known to come out right goes
in; the rest is refused, with the place that is at fault.

A node has one head, and beside it only notes:

    $ref | anyOf | oneOf | allOf (of one) | const | enum | type, with the constraints of that type | nothing (any value)

Compiling happens in that same step, so a schema that is slow to compile stalls every call of the model.  The walk adds
up what each construct was measured to cost, and refuses what would take more than about 0.3 s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rivermouth.ir.errors import ApiError, invalid
from rivermouth.ir.names import quoted
from rivermouth.ir.request import Format, ResponseFormat, Tool
from rivermouth.local.words.protocol import CallSchema
from rivermouth.wire import json

DEPTH_CAP: Final = 32
# One unit is about 0.2 ms of the compiler's time.
COST_CAP: Final = 1_500
REF_COST: Final = 15
ALTERNATIVE_COST: Final = 5
PROPERTY_COST: Final = 2
# Long texts cost by the square of their length, the properties of an object that may have others by their number's,
# and an array by how far it must count.
TEXT_SQUARE: Final = 250
OPEN_SHARE: Final = 10
COUNT_SHARE: Final = 100
COUNT_CAP: Final = 10_000
TEXT_CAP_BYTES: Final = 256 * 1024
BOUND_CAP: Final = 10**15
WHERE_CHARS: Final = 200
ANY_OBJECT: Final = '{"type":"object"}'

NOTES: Final = frozenset({"title", "description", "default", "examples", "$schema", "$id", "$comment"})
DEFINITIONS: Final = ("$defs", "definitions")
UNIONS: Final = ("anyOf", "oneOf", "allOf")
HEADS: Final = ("$ref", *UNIONS, "const", "enum")
# Each type with the keywords that the engine enforces for it.
TYPES: Final[dict[str, frozenset[str]]] = {
    "null": frozenset(),
    "boolean": frozenset(),
    "number": frozenset(),
    "integer": frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}),
    "string": frozenset({"format"}),
    "array": frozenset({"items", "prefixItems", "minItems", "maxItems"}),
    "object": frozenset({"properties", "required", "additionalProperties"}),
}
FORMATS: Final = frozenset({"date", "time", "date-time", "uuid"})


class Unfit(Exception):
    """A schema that may not reach the engine: where it is wrong, and why."""

    def __init__(self, where: str, why: str) -> None:
        super().__init__(f"{where[:WHERE_CHARS]} {why}")


def schema_text(wanted: ResponseFormat | None) -> str | None:
    """The schema to force, as JSON text; None for free text.  Raises `ApiError`."""
    if wanted is None or wanted.kind is Format.TEXT:
        return None
    if wanted.kind is Format.JSON:
        return ANY_OBJECT
    schema = wanted.schema if wanted.schema is not None else {}
    try:
        return _checked(_Check(schema), schema)
    except Unfit as unfit:
        raise _refusal("response_format", "response_format", unfit) from None


def call_schemas(tools: Sequence[Tool]) -> tuple[CallSchema, ...]:
    """What each of these tools may be called with, of which one is to be forced.  Raises `ApiError`.

    Arguments are an object, and hold nothing that the schema does not name, unless it says that they may.
    """
    made: list[CallSchema] = []
    spent = 0
    for tool in tools:
        parameters = _arguments(tool.parameters)
        check = _Check(parameters, spent)
        try:
            made.append(CallSchema(tool.name, _checked(check, parameters)))
            if parameters.get("type") != "object":
                raise Unfit("schema.type", "must be object")
        except Unfit as unfit:
            raise _refusal(f"the parameters of tool {quoted(tool.name)}", "tools", unfit) from None
        spent = check.spent + ALTERNATIVE_COST
    return tuple(made)


def _arguments(parameters: dict[str, Any]) -> dict[str, Any]:
    typed = parameters if any(head in parameters for head in (*HEADS, "type")) else {"type": "object", **parameters}
    if "properties" in typed and "additionalProperties" not in typed:
        return {**typed, "additionalProperties": False}
    return typed


def _checked(check: _Check, schema: dict[str, Any]) -> str:
    check.node(schema, "schema", 0)
    made = json.encode(schema)
    if len(made) > TEXT_CAP_BYTES:
        raise Unfit("schema", f"has {len(made)} bytes, and may have {TEXT_CAP_BYTES}")
    return made.decode()


def _refusal(what: str, param: str, unfit: Unfit) -> ApiError:
    return invalid(f"{what}: {unfit}", param=param, code="unsupported_schema")


class _Check:
    """Walks one schema; raises at the first thing that is not known to come out right."""

    def __init__(self, root: Mapping[str, Any], spent: int = 0) -> None:
        self._root = root
        self.spent = spent

    def node(self, schema: object, where: str, depth: int) -> None:
        if depth > DEPTH_CAP:
            raise Unfit(where, "is nested too deep")
        self._spend(1, where)
        if schema is True:
            return
        if not isinstance(schema, dict):
            raise Unfit(where, "is not a schema that anything can meet")
        for name in DEFINITIONS:
            if name in schema:
                self._children(schema[name], f"{where}.{name}", depth)
        words = schema.keys() - NOTES - set(DEFINITIONS)
        head = next((head for head in HEADS if head in schema), None)
        if head is None:
            self._typed(schema, words, where, depth)
            return
        beside = words - {head, "type"} if head in ("const", "enum") else words - {head}
        _nothing(beside, where, f"does not go with {head}")
        if head == "$ref":
            self._ref(schema, where)
        elif head in UNIONS:
            self._union(head, schema[head], f"{where}.{head}", depth)
        else:
            self._values([schema["const"]] if head == "const" else schema["enum"], f"{where}.{head}")

    def _spend(self, cost: int, where: str) -> None:
        self.spent += cost
        if self.spent > COST_CAP:
            raise Unfit(where, "is where the schema becomes too large or too complex")

    def _values(self, values: object, where: str) -> None:
        if not isinstance(values, list) or not values:
            raise Unfit(where, "is not a list of values")
        for value in values:
            self._spend(_text_cost(len(json.encode(value))), where)

    def _typed(self, schema: dict[str, Any], words: set[str], where: str, depth: int) -> None:
        named = schema.get("type", [])
        kinds = named if isinstance(named, list) else [named]
        self._spend(len(kinds), where)
        unknown = [kind for kind in kinds if not isinstance(kind, str) or kind not in TYPES]
        if unknown or ("type" in schema and not kinds):
            raise Unfit(f"{where}.type", f"is not among {', '.join(TYPES)}")
        allowed = frozenset({"type"}).union(*(TYPES[kind] for kind in kinds))
        _nothing(words - allowed, where, "is not supported with this type" if kinds else "is not supported here")
        if "integer" in kinds:
            self._spend(_check_bounds(schema, where), where)
        if "format" in schema and not (isinstance(schema["format"], str) and schema["format"] in FORMATS):
            raise Unfit(f"{where}.format", f"is not among {', '.join(sorted(FORMATS))}")
        if "array" in kinds:
            self._array(schema, where, depth)
        if "object" in kinds:
            self._object(schema, where, depth)

    def _array(self, schema: dict[str, Any], where: str, depth: int) -> None:
        first = schema.get("prefixItems", [])
        if not isinstance(first, list):
            raise Unfit(f"{where}.prefixItems", "is not a list of schemas")
        for index, child in enumerate(first):
            self.node(child, f"{where}.prefixItems[{index}]", depth + 1)
        more = schema.get("items", False)
        if more is not False:
            self.node(more, f"{where}.items", depth + 1)
        least = _count(schema, "minItems", where, 0)
        most = _count(schema, "maxItems", where, COUNT_CAP)
        self._spend((least + (most if "maxItems" in schema else 0)) // COUNT_SHARE, where)
        if not len(first) <= most or least > (most if more is not False else min(most, len(first))):
            raise Unfit(f"{where}.minItems", "and what stands beside it cannot both be met")

    def _object(self, schema: dict[str, Any], where: str, depth: int) -> None:
        properties = schema.get("properties", {})
        more = schema.get("additionalProperties", True)
        if isinstance(properties, dict):
            each = PROPERTY_COST + (len(properties) // OPEN_SHARE if more is not False else 0)
            self._spend(each * len(properties), f"{where}.properties")
        self._children(properties, f"{where}.properties", depth)
        for name in properties:
            if not name.isprintable() or '"' in name or "\\" in name:
                raise Unfit(f"{where}.properties", "has a name that the engine cannot spell")
        required = schema.get("required", [])
        if not isinstance(required, list) or any(not isinstance(n, str) or n not in properties for n in required):
            raise Unfit(f"{where}.required", "names what is not among the properties")
        self._spend(len(required), f"{where}.required")
        if more is not False:
            self.node(more, f"{where}.additionalProperties", depth + 1)

    def _children(self, value: object, where: str, depth: int) -> None:
        if not isinstance(value, dict):
            raise Unfit(where, "is not an object")
        for key, child in value.items():
            self._spend(_text_cost(len(key)), where)
            self.node(child, f"{where}.{key}", depth + 1)

    def _union(self, head: str, value: object, where: str, depth: int) -> None:
        if not isinstance(value, list) or not value or (head == "allOf" and len(value) > 1):
            raise Unfit(where, "must hold exactly one schema" if head == "allOf" else "is not a list of schemas")
        for index, child in enumerate(value):
            self._spend(ALTERNATIVE_COST, where)
            self.node(child, f"{where}[{index}]", depth + 1)

    def _ref(self, schema: dict[str, Any], where: str) -> None:
        """Only to a definition of this document, by name, and to one that says something in the end."""
        self._spend(REF_COST, where)
        seen: set[str] = set()
        target: object = schema
        while isinstance(target, dict) and "$ref" in target:
            name = target["$ref"]
            if not isinstance(name, str):
                raise Unfit(f"{where}.$ref", "is not a text")
            if name in seen:
                raise Unfit(f"{where}.$ref", "leads back to itself")
            if len(seen) == DEPTH_CAP:
                raise Unfit(f"{where}.$ref", "leads on too far")
            seen.add(name)
            target = self._target(name, where)

    def _target(self, name: str, where: str) -> object:
        if name == "#":
            return self._root
        head, _, last = name.rpartition("/")
        definitions = self._root.get(head.removeprefix("#/")) if head in {f"#/{d}" for d in DEFINITIONS} else None
        if not isinstance(definitions, dict) or last not in definitions:
            raise Unfit(f"{where}.$ref", "does not name a definition of this schema")
        return definitions[last]


def _text_cost(length: int) -> int:
    return 1 + length**2 // TEXT_SQUARE


def _check_bounds(schema: dict[str, Any], where: str) -> int:
    """What the bounds cost: each of their digits, for the compiler spells out a range digit by digit."""
    lows = [_whole(schema, "minimum", where, -BOUND_CAP), _whole(schema, "exclusiveMinimum", where, -BOUND_CAP) + 1]
    highs = [_whole(schema, "maximum", where, BOUND_CAP), _whole(schema, "exclusiveMaximum", where, BOUND_CAP) - 1]
    if max(lows) > min(highs):
        raise Unfit(f"{where}.minimum", "is above the maximum")
    return sum(len(str(schema[name])) for name in TYPES["integer"] if name in schema)


def _whole(schema: dict[str, Any], name: str, where: str, default: int) -> int:
    value = schema.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > BOUND_CAP:
        raise Unfit(f"{where}.{name}", f"is not a whole number within {BOUND_CAP}")
    return value


def _count(schema: dict[str, Any], name: str, where: str, default: int) -> int:
    value = schema.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= COUNT_CAP:
        raise Unfit(f"{where}.{name}", f"is not a count up to {COUNT_CAP}")
    return value


def _nothing(words: set[str], where: str, why: str) -> None:
    if words:
        raise Unfit(f"{where}.{min(words)}", why)

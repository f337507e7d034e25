"""The smallest valid document: a table of schemas, random schemas judged by a second checker, and hostile ones."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rivermouth.providers.scripted.conform import CHECKS, REFUSED, Unsatisfiable, conforms
from rivermouth.providers.scripted.merge import MERGE, merge
from rivermouth.providers.scripted.smallest import BUILDERS, FORMATS, smallest
from rivermouth.wire import json
from tests.in_turn import in_turn

TREE: dict[str, Any] = {
    "$ref": "#/$defs/node",
    "$defs": {
        "node": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
            "required": ["name", "next"],
            "additionalProperties": False,
        }
    },
}

SMALLEST: list[tuple[Any, Any]] = [
    (True, 0),
    ({}, 0),
    ({"type": "null"}, None),
    ({"type": "boolean"}, True),
    ({"type": "string"}, ""),
    ({"type": "string", "minLength": 3}, "aaa"),
    ({"type": "string", "format": "date"}, "2000-01-01"),
    ({"type": "string", "format": "uuid", "minLength": 40}, "00000000-0000-0000-0000-000000000000aaaa"),
    ({"type": "string", "format": "a-format-of-their-own"}, ""),
    ({"type": "string", "pattern": "^x+$", "examples": ["xx"]}, "xx"),
    ({"type": "string", "pattern": "^x+$", "default": "x"}, "x"),
    ({"type": "STRING"}, ""),
    ({"type": "string", "nullable": True}, ""),
    ({"type": ["string", "null"]}, ""),
    ({"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}, "nullable": True}, None),
    ({"type": "integer"}, 0),
    ({"type": "integer", "minimum": 3}, 3),
    ({"type": "integer", "exclusiveMinimum": 3}, 4),
    ({"type": "integer", "minimum": 3, "exclusiveMinimum": True}, 4),
    ({"type": "integer", "maximum": -3}, -3),
    ({"type": "integer", "exclusiveMaximum": -3}, -4),
    ({"type": "integer", "minimum": 2.5}, 3),
    ({"type": "integer", "minimum": 4, "multipleOf": 3}, 6),
    ({"type": "integer", "minimum": 1, "multipleOf": 1.5}, 3),
    ({"type": "number", "minimum": 0.25, "multipleOf": 0.1}, 0.3),
    ({"type": "number", "exclusiveMinimum": 0, "maximum": 0.5}, 0.5),
    ({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}, 0.5),
    ({"type": "number", "exclusiveMinimum": 0}, 1),
    ({"type": "number", "exclusiveMaximum": 0}, -1),
    ({"minimum": 7}, 7),
    ({"const": {"a": [1]}}, {"a": [1]}),
    ({"enum": ["green", "red", None]}, None),
    ({"type": "string", "enum": [1, None, "green"]}, "green"),
    ({"enum": [1, 5, 9], "minimum": 3}, 5),
    ({"type": "array", "items": {"type": "integer"}}, []),
    ({"type": "array", "items": {"type": "integer"}, "minItems": 2}, [0, 0]),
    ({"type": "array", "items": {"type": "integer"}, "minItems": 3, "uniqueItems": True}, [0, 1, -1]),
    ({"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 2, "uniqueItems": True}, ["a", "b"]),
    ({"type": "array", "prefixItems": [{"type": "string"}, {"type": "null"}], "minItems": 3}, ["", None, 0]),
    ({"type": "object"}, {}),
    ({"type": "object", "properties": {"a": {"type": "string"}}}, {}),
    ({"properties": {"a": {"type": "string"}}, "required": ["a"]}, {"a": ""}),
    ({"type": "object", "required": ["x"], "additionalProperties": {"type": "boolean"}}, {"x": True}),
    ({"type": "object", "minProperties": 2, "properties": {"a": {"type": "null"}}}, {"a": None, "p0": 0}),
    ({"type": "object", "patternProperties": {"^x": {}}, "propertyNames": {"maxLength": 3}}, {}),
    ({"anyOf": [{"type": "string", "minLength": 9}, {"type": "integer"}]}, 0),
    ({"anyOf": [False, {"type": "string"}]}, ""),
    ({"oneOf": [{"type": "string", "pattern": "x"}, {"type": "null"}]}, None),
    ({"allOf": [{"type": "integer", "minimum": 2}, {"minimum": 5, "maximum": 9}]}, 5),
    ({"allOf": [{"type": "number"}, {"type": "integer"}]}, 0),
    ({"allOf": [{"type": ["string", "null"]}, {"type": ["null", "object"]}]}, None),
    ({"allOf": [{"enum": [1, 2, 3]}, {"enum": [3, 4]}]}, 3),
    ({"allOf": [{"multipleOf": 4}, {"multipleOf": 6}], "minimum": 1, "type": "integer"}, 12),
    (
        {
            "allOf": [{"properties": {"a": {"type": "integer"}}}, {"properties": {"a": {"minimum": 2}}}],
            "required": ["a"],
        },
        {"a": 2},
    ),
    ({"minLength": 2, "anyOf": [{"type": "string"}, {"type": "string", "minLength": 9}]}, "aa"),
    (
        {
            "type": "object",
            "required": ["kind"],
            "properties": {"kind": {"type": "string"}},
            "oneOf": [
                {"properties": {"kind": {"const": "a very long word"}}},
                {"properties": {"kind": {"const": "word"}, "n": {"type": "integer"}}, "required": ["n"]},
            ],
        },
        {"kind": "word", "n": 0},
    ),
    (TREE, {"name": "", "next": None}),
    ({"$ref": "#/definitions/a~1b", "definitions": {"a/b": {"type": "boolean"}}}, True),
    ({"$ref": "#/anyOf/1", "anyOf": [{"type": "string"}, {"type": "integer"}]}, 0),
    ({"$ref": "#/$defs/t", "minLength": 1, "$defs": {"t": {"type": "string"}}}, "a"),
]


@in_turn(("schema", "want"), SMALLEST)
def test_the_smallest_document(schema: Any, want: Any) -> None:
    got = smallest(schema)
    assert json.encode(got) == json.encode(want)
    assert valid(schema, got, schema)


LOOP: dict[str, Any] = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}
ENDLESS: dict[str, Any] = {"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#"}}}
TWICE: dict[str, Any] = {"type": "array", "minItems": 2, "items": {"$ref": "#"}}
DOUBLING: dict[str, Any] = {
    "$defs": {
        f"d{i}": {"anyOf": [{"$ref": f"#/$defs/d{i + 1}"}, {"$ref": f"#/$defs/d{i + 1}", "title": "again"}]}
        for i in range(30)
    }
    | {"d30": {"type": "null"}},
    "$ref": "#/$defs/d0",
}

IMPOSSIBLE: list[tuple[Any, str]] = [
    (False, "false"),
    ({"type": "no such type"}, "nothing is valid"),
    ({"type": "string", "pattern": "^x$"}, "pattern"),
    ({"type": "integer", "minimum": 3, "maximum": 2}, "no number"),
    ({"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 1}, "no number"),
    ({"type": "integer", "minimum": 10**30}, "too large"),
    ({"type": "number", "minimum": float("inf")}, "finite"),
    ({"type": "string", "minLength": 10**9}, "more than"),
    ({"type": "array", "minItems": 10**9}, "more than"),
    ({"type": "object", "minProperties": 10**9}, "more than"),
    ({"type": "array", "minItems": 200, "uniqueItems": True}, "more than"),
    ({"type": "array", "items": {"enum": [1, 2]}, "minItems": 3, "uniqueItems": True}, "different"),
    ({"type": "object", "required": ["a"], "additionalProperties": False}, "false"),
    ({"allOf": [{"type": "string"}, {"type": "integer"}]}, "nothing is both"),
    ({"enum": []}, "nothing is valid"),
    ({"not": {"type": "string"}}, "'not'"),
    ({"$ref": "https://example.com/schema"}, "leaves the document"),
    ({"$ref": "#/absent"}, "points at nothing"),
    ({"$ref": "#/title", "title": "x"}, "does not point at a schema"),
    ({"type": "object", "required": 5}, "malformed"),
    ({"type": "object", "properties": [1], "required": ["a"]}, "malformed"),
    ({"type": "string", "minLength": "many"}, "malformed"),
    ({"anyOf": [5]}, "malformed"),
    (LOOP, "endless"),
    (ENDLESS, "endless"),
    (TWICE, "endless"),
]


@pytest.mark.parametrize(("schema", "why"), IMPOSSIBLE, ids=[repr(s)[:60] for s, _ in IMPOSSIBLE])
def test_what_cannot_be_written_is_refused_with_the_reason(schema: Any, why: str) -> None:
    with pytest.raises(Unsatisfiable, match=re.escape(why)):
        smallest(schema)


@pytest.mark.fault("F34")
@pytest.mark.timeout(5)
def test_a_hostile_schema_is_refused_in_bounded_time() -> None:
    for hostile in (
        DOUBLING,
        {"enum": list(range(100_000))},
        {"type": "string", "pattern": "(a+)+$", "minLength": 4000},
    ):
        try:
            value = smallest(hostile)
        except Unsatisfiable:
            continue
        assert valid(hostile, value, hostile)


@pytest.mark.parametrize("keyword", REFUSED)
def test_a_keyword_that_cannot_be_judged_is_never_passed_over(keyword: str) -> None:
    with pytest.raises(Unsatisfiable, match=re.escape(repr(keyword))):
        conforms({keyword: {}}, {"a": 1}) and conforms({keyword: {}}, [1])


def test_every_type_has_a_builder_and_every_format_is_a_text() -> None:
    assert set(BUILDERS) == set(TYPES)
    assert all(isinstance(text, str) for text in FORMATS.values())


# A second opinion: plain code, apart from the product's tables.

TYPES: dict[str, Any] = {
    "null": type(None),
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "string": str,
    "array": list,
    "object": dict,
}


def valid(schema: Any, value: Any, root: Any) -> bool:  # noqa: C901  plain on purpose
    """A checker for the keywords that `schemas` draws and the table above uses; format and pattern are not judged."""
    if isinstance(schema, bool):
        return schema
    if schema.get("nullable") and value is None:
        return True
    if "$ref" in schema:
        target = root
        for token in schema["$ref"].split("/")[1:]:
            name = token.replace("~1", "/")
            target = target[int(name)] if isinstance(target, list) else target[name]
        if not valid(target, value, root):
            return False
    text = json.encode(value)
    if "const" in schema and json.encode(schema["const"]) != text:
        return False
    if "enum" in schema and text not in [json.encode(v) for v in schema["enum"]]:
        return False
    if "type" in schema:
        names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        fits = [n.lower() for n in names if isinstance(value, TYPES[n.lower()])]
        if isinstance(value, bool):
            fits = [n for n in fits if n == "boolean"]
        if not fits:
            return False
    if not all(valid(s, value, root) for s in schema.get("allOf", ())):
        return False
    if "anyOf" in schema and not any(valid(s, value, root) for s in schema["anyOf"]):
        return False
    if "oneOf" in schema and sum(valid(s, value, root) for s in schema["oneOf"]) != 1:
        return False
    if isinstance(value, int | float) and not isinstance(value, bool):
        if not schema.get("minimum", value) <= value <= schema.get("maximum", value):
            return False
        low, high = schema.get("exclusiveMinimum", value - 1), schema.get("exclusiveMaximum", value + 1)
        low = schema["minimum"] if low is True else low
        if not low < value < high:
            return False
        step = schema.get("multipleOf")
        if step is not None and abs(value / step - round(value / step)) > 1e-9:
            return False
    if isinstance(value, str) and not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", 10**9):
        return False
    if isinstance(value, list):
        prefix = schema.get("prefixItems", [])
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", 10**9):
            return False
        if schema.get("uniqueItems") and len({json.encode(v) for v in value}) != len(value):
            return False
        if not all(valid(s, v, root) for s, v in zip(prefix, value, strict=False)):
            return False
        if not all(valid(schema.get("items", True), v, root) for v in value[len(prefix) :]):
            return False
    if isinstance(value, dict):
        if not all(name in value for name in schema.get("required", ())):
            return False
        if not schema.get("minProperties", 0) <= len(value) <= schema.get("maxProperties", 10**9):
            return False
        known = schema.get("properties", {})
        rest = schema.get("additionalProperties", True)
        return all(valid(known.get(name, rest), v, root) for name, v in value.items())
    return True


names = st.sampled_from(("a", "b", "c"))
numbers = st.integers(-20, 20) | st.sampled_from((0.5, -2.25, 7.1))
values = st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3) | st.lists(st.integers(0, 3), max_size=2)

leaves = st.one_of(
    st.just(True),
    st.just({}),
    st.fixed_dictionaries({"type": st.sampled_from(("null", "boolean"))}),
    st.fixed_dictionaries({"const": values}),
    st.fixed_dictionaries({"enum": st.lists(values, min_size=1, max_size=4)}),
    st.fixed_dictionaries(
        {"type": st.just("string")},
        optional={
            "minLength": st.integers(0, 5),
            "maxLength": st.integers(3, 9),
            "format": st.sampled_from(("date", "uuid", "own")),
        },
    ),
    st.fixed_dictionaries(
        {"type": st.sampled_from(("integer", "number"))},
        optional={
            "minimum": numbers,
            "maximum": numbers,
            "exclusiveMinimum": numbers,
            "exclusiveMaximum": numbers,
            "multipleOf": st.sampled_from((1, 2, 5, 0.5, 0.1, 3)),
        },
    ),
    st.just({"$ref": "#/$defs/leaf"}),
    st.just({"$ref": "#/$defs/tree"}),
)


def compound(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        st.fixed_dictionaries(
            {"type": st.just("object")},
            optional={
                "properties": st.dictionaries(names, inner, max_size=3),
                "required": st.lists(names, max_size=3, unique=True),
                "additionalProperties": inner | st.just(False),
                "minProperties": st.integers(0, 4),
            },
        ),
        st.fixed_dictionaries(
            {"type": st.just("array")},
            optional={
                "items": inner,
                "prefixItems": st.lists(inner, max_size=2),
                "minItems": st.integers(0, 4),
                "maxItems": st.integers(2, 5),
                "uniqueItems": st.booleans(),
            },
        ),
        st.fixed_dictionaries({"anyOf": several}, optional={"minLength": st.integers(0, 3), "minimum": numbers}),
        st.fixed_dictionaries({"oneOf": several}),
        st.fixed_dictionaries({"allOf": several}),
    )


schemas = st.builds(
    lambda top, leaf: {
        "$defs": {
            "leaf": leaf,
            "tree": {
                "type": ["object", "null"],
                "properties": {"more": {"$ref": "#/$defs/tree"}},
                "required": ["more"],
            },
        },
        "allOf": [top],
    },
    st.recursive(leaves, compound, max_leaves=8),
    st.sampled_from(({"type": "string", "minLength": 1}, {"type": "integer", "minimum": 3})),
)


@given(schemas)
def test_whatever_the_schema_the_document_is_valid(schema: Any) -> None:
    try:
        value = smallest(schema)
    except Unsatisfiable:
        return
    assert valid(schema, value, schema), value


@given(schemas, st.recursive(values, lambda v: st.lists(v, max_size=3) | st.dictionaries(names, v, max_size=3)))
def test_the_two_checkers_agree(schema: Any, value: Any) -> None:
    assert conforms(schema, value) == valid(schema, value, schema)


satisfiable = st.recursive(
    st.sampled_from(
        ({"type": "string"}, {"type": "integer", "minimum": 2}, {"enum": ["x", 1]}, {"type": "null"}, True)
    ),
    lambda inner: st.one_of(
        st.builds(
            lambda known: {
                "type": "object",
                "properties": known,
                "required": list(known),
                "additionalProperties": False,
            },
            st.dictionaries(names, inner, max_size=3),
        ),
        st.builds(lambda items, n: {"type": "array", "items": items, "minItems": n}, inner, st.integers(0, 3)),
        st.builds(lambda options: {"anyOf": options}, st.lists(inner, min_size=1, max_size=3)),
    ),
    max_leaves=6,
)


@given(satisfiable)
def test_a_schema_of_the_usual_kind_always_gets_a_document(schema: Any) -> None:
    assert valid(schema, smallest(schema), schema)


plain_leaves = leaves.filter(lambda s: isinstance(s, dict) and not s.keys() & {"$ref", "const"})


@given(plain_leaves, plain_leaves, values)
def test_a_merged_schema_demands_what_both_demand(one: Any, two: Any, value: Any) -> None:
    try:
        both = merge(one, two)
    except Unsatisfiable:
        return
    assert valid(both, value, {}) == (valid(one, value, {}) and valid(two, value, {}))


def test_every_keyword_that_limits_is_merged() -> None:
    assert {"type", "enum", "properties", "required", "minimum", "maximum", "multipleOf"} <= MERGE.keys()
    assert merge({"title": "one", "minItems": 1}, {"title": "two", "minItems": 2}) == {"title": "two", "minItems": 2}


KEYWORDS = sorted({*CHECKS, "format", "pattern", "default", "example", "examples", "nullable"})
WORDS = st.sampled_from([*KEYWORDS, *BUILDERS, "#", "#/a", "a"])
LEAVES = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | WORDS
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4))


@given(st.sampled_from([None, *BUILDERS]), st.dictionaries(st.sampled_from(KEYWORDS), VALUES, max_size=4))
@example("number", {"multipleOf": 0})
@example("integer", {"multipleOf": 0, "enum": [1]})
@example(None, {"allOf": [{"multipleOf": 0}, {"multipleOf": 0}]})
def test_whatever_stands_at_a_keyword_only_unsatisfiable_is_raised(kind: str | None, words: dict[str, Any]) -> None:
    with suppress(Unsatisfiable):
        smallest({"type": kind, **words} if kind else words)

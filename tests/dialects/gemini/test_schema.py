from __future__ import annotations

from typing import Any

import pytest
from google.genai.types import Schema
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.dialects.gemini.schema import PARAMETERS, RESPONSE, to_json_schema, to_wire

OLDER = {
    "type": "OBJECT",
    "description": "a place",
    "properties": {
        "max_items": {"type": "STRING", "enum": ["a", "b"], "format": "enum"},
        "list": {"type": "ARRAY", "items": {"type": "INTEGER"}, "minItems": 1},
        "one": {"anyOf": [{"type": "STRING"}, {"type": "NUMBER"}]},
    },
    "required": ["list"],
}
NEWER = {
    "type": "object",
    "description": "a place",
    "properties": {
        "max_items": {"type": "string", "enum": ["a", "b"], "format": "enum"},
        "list": {"type": "array", "items": {"type": "integer"}, "minItems": 1},
        "one": {"anyOf": [{"type": "string"}, {"type": "number"}]},
    },
    "required": ["list"],
}


def test_types_are_in_upper_case_on_the_wire_and_names_of_properties_stay() -> None:
    assert to_json_schema(OLDER) == NEWER
    assert to_wire(NEWER, PARAMETERS) == {"parameters": OLDER}
    assert to_wire(NEWER, RESPONSE) == {"responseSchema": OLDER}


def test_what_json_schema_has_another_word_for() -> None:
    said = {
        "type": "STRING",
        "nullable": True,
        "min_length": "3",
        "max_length": 5,
        "propertyOrdering": ["a"],
        "example": "x",
        "any_of": [{"type": "TYPE_UNSPECIFIED"}],
    }
    assert to_json_schema(said) == {"type": ["string", "null"], "minLength": 3, "maxLength": 5, "anyOf": [{}]}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {}},
        {"type": "object", "properties": {"a": {"type": "object", "properties": {}}}},
        {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"type": "string"}}},
        {"type": ["string", "null"]},
        {"type": "array"},
        {"type": "string", "format": "uri"},
        {"type": "string", "enum": ["", "a"]},
        {"type": "integer", "enum": [1, 2]},
        {"properties": {"a": {}}},
        {},
    ],
)
def test_what_the_older_form_cannot_say_goes_as_json_schema(schema: dict[str, Any]) -> None:
    assert to_wire(schema, PARAMETERS) == {"parametersJsonSchema": schema}


def nested(depth: int) -> dict[str, Any]:
    return {"type": "array", "items": nested(depth - 1)} if depth else {"type": "string"}


def test_depth_is_bounded() -> None:
    assert "parameters" in to_wire(nested(20), PARAMETERS)
    assert "parametersJsonSchema" in to_wire(nested(100), PARAMETERS)


leaves = st.fixed_dictionaries(
    {"type": st.sampled_from(["string", "number", "integer", "boolean"])}, optional={"description": st.text(max_size=4)}
)
fitting = st.recursive(
    leaves,
    lambda inner: (
        st.builds(lambda i: {"type": "array", "items": i}, inner)
        | st.builds(
            lambda p: {"type": "object", "properties": p, "required": sorted(p)},
            st.dictionaries(st.sampled_from(["a", "b_c", "type", "properties"]), inner, min_size=1, max_size=3),
        )
    ),
    max_leaves=6,
)


@given(fitting)
def test_the_older_form_is_read_by_the_sdk_and_comes_back_as_itself(schema: dict[str, Any]) -> None:
    (older,) = to_wire(schema, PARAMETERS).values()
    Schema.model_validate(older)
    assert to_json_schema(older) == schema


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["OBJECT", "x", "3"]), st.lists, max_leaves=3
)
keys = st.sampled_from(["type", "properties", "items", "anyOf", "enum", "nullable", "minItems", "format", "required"])
anything = st.recursive(values, lambda inner: st.dictionaries(keys, inner, max_size=4), max_leaves=8)


@given(st.dictionaries(keys, anything, max_size=5))
def test_any_json_is_read_and_written_without_raising(schema: dict[str, Any]) -> None:
    read = to_json_schema(schema)
    (written,) = to_wire(read, PARAMETERS).values()
    assert to_json_schema(written) == read or "parameters" not in to_wire(read, PARAMETERS)

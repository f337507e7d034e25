"""A client's wishes in the engine's words: sampling, messages, schemas."""

from __future__ import annotations

from typing import Any

import pytest

from rivermouth.ir.errors import ApiError
from rivermouth.ir.request import (
    File,
    Format,
    Message,
    Reasoning,
    Refusal,
    Request,
    ResponseFormat,
    Role,
    Sampling,
    Text,
    ToolCall,
    ToolResult,
)
from rivermouth.local.words.prompt import PREFIXES, raw_prompt, role_prefixed, turns_of
from rivermouth.local.words.protocol import Decoding, Turn
from rivermouth.local.words.sampling import IGNORED, SEEDS, TOP_K_MAX, decoding_of
from rivermouth.local.words.schema import schema_text
from tests.in_turn import in_turn

SEED = 1234


def decoding(sampling: Sampling) -> Decoding:
    return decoding_of(sampling, lambda: SEED, [].append)


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(),
        Sampling(temperature=0.0),
        Sampling(temperature=-1.0, top_p=0.5),
        Sampling(seed=7),
        Sampling(top_p=1.0, top_k=0, min_p=0.0),
        Sampling(top_p=0.0, temperature=1.0),
        Sampling(top_p=1e-320, temperature=1.0),
        Sampling(min_p=1.0, temperature=1.0),
        Sampling(temperature=1e-40),
    ],
)
def test_greedy_unless_randomness_is_asked_for(sampling: Sampling) -> None:
    assert decoding(sampling) == Decoding()


@pytest.mark.promise(38)
def test_what_asks_for_sampling() -> None:
    assert decoding(Sampling(temperature=0.7)) == Decoding(do_sample=True, temperature=0.7, rng_seed=SEED)
    assert decoding(Sampling(top_p=0.9)) == Decoding(do_sample=True, temperature=1.0, top_p=0.9, rng_seed=SEED)
    assert decoding(Sampling(top_k=40, seed=-1)) == Decoding(
        do_sample=True, temperature=1.0, top_k=40, rng_seed=SEEDS - 1
    )
    assert decoding(Sampling(min_p=0.1, seed=5)).min_p == 0.1
    assert decoding(Sampling(top_k=10**30)).top_k == TOP_K_MAX


def test_penalties_reach_both_ways_of_decoding() -> None:
    for temperature in (0.0, 1.0):
        got = decoding(
            Sampling(temperature=temperature, repetition_penalty=1.1, presence_penalty=0.5, frequency_penalty=-0.5)
        )
        assert (got.repetition_penalty, got.presence_penalty, got.frequency_penalty) == (1.1, 0.5, -0.5)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("top_p", -0.1),
        ("top_p", 1.1),
        ("min_p", 2.0),
        ("presence_penalty", 3.0),
        ("frequency_penalty", -3.0),
        ("repetition_penalty", 0.0),
    ],
)
def test_a_value_out_of_range_names_its_field(field: str, value: float) -> None:
    with pytest.raises(ApiError) as refused:
        decoding(Sampling(**{field: value}))
    assert refused.value.param == field


def test_what_is_ignored_is_named() -> None:
    warned: list[str] = []
    decoding_of(Sampling(logit_bias={"1": 1.0}, logprobs=True, top_logprobs=3), lambda: 0, warned.append)
    assert tuple(warned) == IGNORED


def test_every_field_of_sampling_is_mapped_or_named() -> None:
    mapped = {"temperature", "top_p", "top_k", "min_p", "seed"} | {f for f in Decoding.__struct_fields__ if "pen" in f}
    assert mapped | set(IGNORED) == set(Sampling.__struct_fields__)


def request(*messages: Message, system: str = "") -> Request:
    return Request(model="m", messages=messages, system=(Text(system),) if system else ())


def test_messages_as_templates_know_them() -> None:
    warned: list[str] = []
    turns = turns_of(
        request(
            Message(Role.USER, (Text("a"), Text("b"), File(text="c"))),
            Message(Role.ASSISTANT, (Reasoning("hm"), Text("d"), ToolCall("1", "f", '{"x": 1}'))),
            Message(Role.TOOL, (ToolResult("1", (Text("e"),), name="f"),)),
            Message(Role.ASSISTANT, (Refusal("no"), ToolCall("2", "g", "not json"))),
            system="s",
        ),
        warned.append,
    )
    assert [(turn.role, turn.content) for turn in turns] == [
        ("system", "s"), ("user", "abc"), ("assistant", "d"), ("tool", "e"), ("assistant", "no"),
    ]  # fmt: skip
    assert turns[2].tool_calls[0]["function"] == {"name": "f", "arguments": {"x": 1}}
    assert turns[4].tool_calls[0]["function"] == {"name": "g", "arguments": "not json"}
    assert (turns[3].tool_call_id, turns[3].name) == ("1", "f")
    assert warned == ["reasoning"]


@pytest.mark.promise(23)
def test_the_legacy_form() -> None:
    assert set(PREFIXES) == {role.value for role in Role}
    turns = (Turn("system", "s"), Turn("user", "a"), Turn("assistant", "b"), Turn("tool", "c"), Turn("user", "d"))
    assert role_prefixed(turns) == "System: s\nUser: a\nAssistant: b\nTool: c\nUser: d\nAssistant:"
    called = Turn("assistant", "", tool_calls=({"function": {"name": "f", "arguments": {}}},))
    assert role_prefixed((called,)) == 'Assistant: {"name":"f","arguments":{}}\nAssistant:'


def test_a_raw_prompt_is_the_text() -> None:
    assert raw_prompt(request(Message(Role.USER, (Text("a "), Text("b")))), [].append) == "a b"


GOOD_SCHEMAS: list[dict[str, Any]] = [
    {},
    {"type": "object"},
    {"type": "object", "properties": {"a": {"type": "string"}, "é 漢.$ref/b": {}}, "required": ["a"]},
    {"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"], "additionalProperties": False},
    {"type": "object", "additionalProperties": {"type": "number"}},
    {"type": "object", "properties": {"a": {"$ref": "#"}}},
    {"type": "object", "properties": {"a": True}, "additionalProperties": True},
    {"type": ["string", "null"], "title": "t", "description": "d", "default": None},
    {"type": ["integer", "null"], "minimum": 5, "maximum": 7},
    {"type": ["object", "array"], "properties": {"a": {}}, "items": {"type": "boolean"}},
    {"$defs": {"n": {"type": "integer", "minimum": 0, "maximum": 9}}, "type": "array", "items": {"$ref": "#/$defs/n"}},
    {"definitions": {"x": {"type": "boolean"}}, "$ref": "#/definitions/x", "$comment": "c", "examples": [True]},
    {"anyOf": [{"const": 1}, {"enum": ["a", 2, None]}], "description": "d"},
    {"oneOf": [{"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 2}, {"type": "null"}]},
    {"allOf": [{"type": "object", "properties": {"a": {"type": "null"}}}]},
    {"type": "integer", "minimum": -(10**15), "maximum": 10**15},
    {"type": "array"},
    {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3},
    {"type": "array", "items": {"const": 1}, "minItems": 10_000},
    {"type": "array", "prefixItems": [{"type": "boolean"}], "items": False, "minItems": 1},
    {"type": "array", "prefixItems": [{"const": 1}], "items": {"const": 3}, "minItems": 2, "maxItems": 3},
    {"type": "array", "items": {}, "maxItems": 0},
    {"type": "string", "format": "date-time"},
    {"type": "string", "enum": ["a", '"\\\n\u0000']},
    {"enum": [{"a": [1]}, "\u2028"]},
    {"const": {"b": None}},
]
BAD_SCHEMAS: list[Any] = [
    3,
    False,
    {"type": "nonsense"},
    {"type": []},
    {"type": 3},
    {"type": "object", "properties": []},
    {"type": "object", "properties": {"a": 1}},
    {"type": "object", "properties": {"a": False}},
    {"type": "object", "properties": {'a"b': {}}},
    {"type": "object", "properties": {"a\nb": {}}},
    {"type": "object", "properties": {"a\\b": {}}},
    {"type": "object", "properties": {"a": {}}, "required": ["b"]},
    {"type": "object", "required": "a"},
    {"type": "object", "additionalProperties": 1},
    {"properties": {"a": {}}},
    {"items": {}},
    {"minimum": 0},
    {"type": "array", "items": "x"},
    {"type": "array", "prefixItems": {}},
    {"type": "array", "prefixItems": [{}, {}], "maxItems": 1},
    {"type": "array", "prefixItems": [{}], "items": False, "minItems": 2},
    {"type": "array", "minItems": 1},
    {"type": "array", "items": {}, "minItems": -1},
    {"type": "array", "items": {}, "minItems": True},
    {"type": "array", "items": {}, "minItems": 5, "maxItems": 2},
    {"type": "array", "items": {}, "maxItems": 1_000_000},
    {"type": "integer", "minimum": "0"},
    {"type": "integer", "minimum": 0.5},
    {"type": "integer", "minimum": 5, "maximum": 2},
    {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
    {"type": "integer", "minimum": 10**16},
    {"type": "integer", "multipleOf": 2},
    {"type": "number", "minimum": 0},
    {"type": "string", "minLength": 1},
    {"type": "string", "pattern": "a"},
    {"type": "string", "format": "uri"},
    {"anyOf": []},
    {"anyOf": [True, False]},
    {"anyOf": [{}], "type": "object"},
    {"allOf": [{}, {}]},
    {"enum": []},
    {"const": 1, "minimum": 0},
    {"$ref": "#/$defs/none"},
    {"$ref": "other.json"},
    {"$ref": "#/properties/here"},
    {"$ref": "#", "type": "object"},
    {"$ref": 1},
    {"not": {}},
    {"if": {}, "then": {}},
    {"type": "object", "unevaluatedProperties": False},
]


@pytest.mark.parametrize("schema", GOOD_SCHEMAS)
def test_known_schemas_pass(schema: dict[str, Any]) -> None:
    assert schema_text(ResponseFormat(Format.JSON_SCHEMA, schema=schema)) is not None


@in_turn("schema", BAD_SCHEMAS)
def test_unknown_schemas_are_refused_where_they_are_wrong(schema: dict[str, Any]) -> None:
    wrapped = {"type": "object", "properties": {"here": schema}}
    with pytest.raises(ApiError, match="here") as refused:
        schema_text(ResponseFormat(Format.JSON_SCHEMA, schema=wrapped))
    assert refused.value.param == "response_format"
    assert refused.value.code == "unsupported_schema"


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
        {"$defs": {"a": {"$ref": "#/$defs/a"}}},
    ],
)
def test_a_reference_that_says_nothing_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(ApiError, match="itself"):
        schema_text(ResponseFormat(Format.JSON_SCHEMA, schema=schema))


def test_a_schema_too_deep_is_refused() -> None:
    schema: dict[str, Any] = {}
    for _ in range(60):
        schema = {"type": "array", "items": schema}
    with pytest.raises(ApiError, match="deep"):
        schema_text(ResponseFormat(Format.JSON_SCHEMA, schema=schema))


def test_free_text_and_any_object() -> None:
    assert schema_text(None) is None
    assert schema_text(ResponseFormat(Format.TEXT)) is None
    assert schema_text(ResponseFormat(Format.JSON)) == '{"type":"object"}'

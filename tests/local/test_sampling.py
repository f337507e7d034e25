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
from rivermouth.local.prompt import PREFIXES, raw_prompt, role_prefixed, turns_of
from rivermouth.local.protocol import Decoding, Turn
from rivermouth.local.sampling import IGNORED, SEEDS, decoding_of
from rivermouth.local.schema import KEYWORDS, schema_text

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


def test_a_raw_prompt_is_the_text() -> None:
    assert raw_prompt(request(Message(Role.USER, (Text("a "), Text("b")))), [].append) == "a b"


GOOD_SCHEMAS: list[dict[str, Any]] = [
    {},
    {"type": "object", "properties": {"a": {"type": "string", "minLength": 1, "maxLength": 5}}, "required": ["a"]},
    {"type": ["string", "null"], "title": "t", "description": "d", "default": None},
    {"$defs": {"n": {"type": "integer", "minimum": 0, "maximum": 9}}, "type": "array", "items": {"$ref": "#/$defs/n"}},
    {"anyOf": [{"const": 1}, {"enum": ["a", 2, None]}]},
    {"type": "string", "pattern": "^[a-z]+$"},
    {"type": "object", "additionalProperties": {"type": "number"}},
    {"type": "array", "prefixItems": [{"type": "boolean"}], "items": False},
    {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3},
    {"type": "object", "properties": {"a": {"$ref": "#"}}},
    {"oneOf": [{"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 5}, {"type": "number", "maximum": 1.5}]},
    {"allOf": [{"type": "object", "properties": {"a": {"type": "null"}}}]},
    {"definitions": {"x": {"type": "boolean"}}, "$ref": "#/definitions/x", "$comment": "c", "examples": [True]},
    {"type": "string", "pattern": "[0-9]{3}(-|\\.)(a|b)*"},
    {"type": "object", "properties": {"a": True}, "required": ["a", "b"], "additionalProperties": True},
    {"type": "string", "minLength": 5, "maxLength": 2},
    {"type": "integer", "minimum": 5, "maximum": 2},
    {"type": "array", "minItems": 5, "maxItems": 2},
    {"anyOf": [True, False]},
    {"enum": [{"a": [1]}, '"\n']},
    {"const": {"b": None}},
]
BAD_SCHEMAS: list[Any] = [
    {"type": "nonsense"},
    {"type": []},
    {"type": 3},
    {"properties": []},
    {"properties": {"a": 1}},
    {"items": "x"},
    {"anyOf": []},
    {"enum": []},
    {"required": "a"},
    {"minItems": -1},
    {"minLength": True},
    {"minimum": "0"},
    {"pattern": "("},
    {"pattern": "(?=a)b"},
    {"pattern": r"(a)\1"},
    {"$ref": "#/$defs/none"},
    {"$ref": "other.json"},
    {"not": {}},
    {"if": {}, "then": {}},
    {"unevaluatedProperties": False},
]


@pytest.mark.parametrize("schema", GOOD_SCHEMAS)
def test_known_schemas_pass(schema: dict[str, Any]) -> None:
    assert schema_text(ResponseFormat(Format.JSON_SCHEMA, schema=schema)) is not None


@pytest.mark.parametrize("schema", BAD_SCHEMAS)
def test_unknown_schemas_are_refused_where_they_are_wrong(schema: dict[str, Any]) -> None:
    wrapped = {"type": "object", "properties": {"here": schema}}
    with pytest.raises(ApiError, match="here") as refused:
        schema_text(ResponseFormat(Format.JSON_SCHEMA, schema=wrapped))
    assert refused.value.param == "response_format"
    assert refused.value.code == "unsupported_schema"


def test_a_schema_too_deep_is_refused() -> None:
    schema: dict[str, Any] = {}
    for _ in range(60):
        schema = {"items": schema}
    with pytest.raises(ApiError, match="deep"):
        schema_text(ResponseFormat(Format.JSON_SCHEMA, schema=schema))


def test_free_text_and_any_object() -> None:
    assert schema_text(None) is None
    assert schema_text(ResponseFormat(Format.TEXT)) is None
    assert schema_text(ResponseFormat(Format.JSON)) == '{"type":"object"}'
    assert "type" in KEYWORDS

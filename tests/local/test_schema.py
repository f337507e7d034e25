"""What a hostile schema may cost: neither the event loop nor the engine's step, and never an error of our own."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rivermouth.ir.errors import ApiError
from rivermouth.ir.request import Format, ResponseFormat
from rivermouth.local.provider import LocalProvider
from rivermouth.local.words.schema import DEFINITIONS, DEPTH_CAP, HEADS, NOTES, TYPES, schema_text
from tests.cost import assert_linear
from tests.local.asking import ask, asking, text_of

Schema = dict[str, Any]


def checked(schema: Schema) -> str | None:
    return schema_text(ResponseFormat(Format.JSON_SCHEMA, schema=schema))


def bounded(i: int) -> Schema:
    return {"type": "integer", "minimum": -i, "maximum": 10**15 - i}


def of(count: int, child: Callable[[int], Schema], **more: Any) -> Schema:
    return {"type": "object", "properties": {f"k{i}": child(i) for i in range(count)}, **more}


def chain(length: int) -> Schema:
    links: Schema = {f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(length)}
    return {"$defs": {**links, f"d{length}": {"type": "null"}}, "$ref": "#/$defs/d0"}


def long_values(count: int, length: int) -> Schema:
    return {"enum": [f"{i}{'v' * length}" for i in range(count)]}


def test_a_chain_of_references_costs_no_more_than_its_length() -> None:
    def walk(length: int) -> Callable[[], object]:
        schema = chain(length)

        def work() -> None:
            with suppress(ApiError):
                checked(schema)

        return work

    assert_linear(walk, 100)


def test_a_chain_of_references_has_an_end() -> None:
    assert checked(chain(DEPTH_CAP - 1))
    with pytest.raises(ApiError, match="too far") as refused:
        checked(chain(DEPTH_CAP))
    assert refused.value.code == "unsupported_schema"


# Each took the engine from 0.4 to 23 s.
SLOW: dict[str, Schema] = {
    "bounded integers in unions": {"oneOf": [of(1, lambda _: {"oneOf": [bounded(i) for i in range(100)]})] * 15},
    "bounded integers": of(100, bounded),
    "one bounded integer, everywhere": {
        "$defs": {"d": bounded(7)},
        "oneOf": [of(10, lambda _: {"$ref": "#/$defs/d"}) for _ in range(10)],
    },
    "long values": long_values(10, 2_000),
    "many values": {"enum": [f"value {i}" for i in range(5_000)]},
    "long names": {"type": "object", "properties": {f"{i}{'v' * 500}": {} for i in range(10)}},
    "many properties among others": of(200, lambda _: {"type": "string"}),
    "long counts": of(40, lambda i: {"type": "array", "items": {}, "minItems": 9_000 + i}),
    "types without end": {"type": ["string"] * 5_000},
}


@pytest.mark.parametrize("schema", SLOW.values(), ids=SLOW)
def test_a_schema_that_is_slow_to_compile_is_refused(schema: Schema) -> None:
    with pytest.raises(ApiError, match="complex") as refused:
        checked(schema)
    assert refused.value.code == "unsupported_schema"


# Near the cap, so these are the slowest that pass.
DEAR: dict[str, Schema] = {
    "bounded integers": of(35, bounded, additionalProperties=False),
    "small integers": of(100, lambda i: {"type": "integer", "minimum": 0, "maximum": i}, additionalProperties=False),
    "properties among others": of(90, lambda _: {"type": "string"}),
    "alternatives": {"oneOf": [of(1, lambda _: {"type": "string"}) for _ in range(100)]},
    "values": {"enum": [f"value {i}" for i in range(1_000)]},
    "long values": long_values(10, 180),
    "references": {"$defs": {"d": bounded(7)}, "oneOf": [of(10, lambda _: {"$ref": "#/$defs/d"})] * 7},
}


@pytest.mark.anyio
@pytest.mark.parametrize("schema", DEAR.values(), ids=DEAR)
async def test_what_passes_compiles_at_once(local: LocalProvider, schema: Schema) -> None:
    """The measured limit is 0.3 s; here ten times that, for a busy machine."""
    wanted = ResponseFormat(Format.JSON_SCHEMA, schema=schema)
    await ask(local, "tiny", asking(max_tokens=1))
    begun = time.monotonic()
    assert text_of(await ask(local, "tiny", asking(response_format=wanted, max_tokens=2)))
    assert time.monotonic() - begun < 3


KEYWORDS = sorted({*HEADS, *DEFINITIONS, *NOTES, "type"}.union(*TYPES.values()))
WORDS = st.sampled_from([*KEYWORDS, *TYPES, "date", "#", "#/$defs/a", "a"])
LEAVES = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | WORDS | st.text()
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4))


@given(st.sampled_from([None, *TYPES]), st.dictionaries(st.sampled_from(KEYWORDS), VALUES, max_size=4))
@example("object", {"required": [{}]})
@example("string", {"format": []})
@example(None, {"$ref": {}})
@example(None, {"type": [[]]})
def test_whatever_stands_at_a_keyword_only_a_refusal_is_raised(kind: str | None, words: Schema) -> None:
    with suppress(ApiError):
        checked({"type": kind, **words} if kind else words)

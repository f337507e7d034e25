from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.ir.errors import ApiError, Kind, WireError
from rivermouth.ir.reply import EmbedReply
from rivermouth.ir.request import EmbedRequest, Local, Original
from rivermouth.vendors.cohere import vectors

ASK: dict[str, Any] = {"model": "e", "texts": ["a"]}
floats = st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=4).map(tuple)


def read(**changes: Any) -> EmbedRequest:
    return vectors.read_embed("cohere", json.dumps({**ASK, **changes}).encode())


def reply(**body: Any) -> EmbedReply:
    return vectors.read_vectors("cohere", json.dumps(body).encode())


def test_texts_come_in_two_shapes() -> None:
    two = {"content": [{"type": "text", "text": "b"}, {"type": "text", "text": "c"}]}
    assert read(inputs=[two]).input == ("a", "b\nc")
    assert read(truncate="start").truncate
    assert not read(truncate="NONE").truncate
    original = read(input_type="x").original
    assert original is not None
    assert original.dialect == "cohere"


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"model": ""}, "model"),
        ({"texts": []}, "texts"),
        ({"texts": [1]}, "texts[0]"),
        ({"texts": ["a"] * 2049}, "texts"),
        ({"images": ["data:"]}, "images"),
        ({"inputs": [{"content": [{"type": "image_url"}]}]}, "inputs[0].content"),
        ({"inputs": [{}]}, "inputs[0].content"),
        ({"embedding_types": ["int8"]}, "embedding_types"),
        ({"output_dimension": 0}, "output_dimension"),
        ({"truncate": "MIDDLE"}, "truncate"),
        ({"stream": True}, "stream"),
    ],
)
def test_a_refusal_names_the_field(changes: dict[str, Any], param: str) -> None:
    with pytest.raises(ApiError) as raised:
        read(**changes)
    assert (raised.value.kind, raised.value.param) == (Kind.INVALID_REQUEST, param)


@given(st.lists(floats, min_size=1, max_size=3))
def test_vectors_survive_both_types(rows: list[tuple[float, ...]]) -> None:
    written = vectors.by_type(EmbedReply(model="e", vectors=tuple(rows)), vectors.TYPES)
    for kind in vectors.TYPES:
        assert reply(embeddings={kind: written[kind]}).vectors == tuple(rows)


def test_the_types_that_were_named() -> None:
    assert vectors.asked_types(read()) is None
    assert vectors.asked_types(read(embedding_types=None)) is None
    assert vectors.asked_types(read(embedding_types=["float", "base64", "float"])) == ("float", "base64")
    assert vectors.asked_types(EmbedRequest(model="m", input=("a",))) is None


def test_what_both_protocols_ask_for() -> None:
    members, lost = vectors.embed_members(EmbedRequest(model="m", input=("a",), local=Local(context_tokens=9)))
    assert members == {"texts": ("a",), "input_type": "search_document", "embedding_types": ["float"]}
    assert lost == ("context_tokens",)


def test_what_a_vector_is_for() -> None:
    """It goes from one of the protocols to the other; whoever speaks another learns that it was lost."""
    for name in ("cohere_v1", "cohere_v2"):
        asked = vectors.read_embed(name, json.dumps({**ASK, "input_type": "search_query"}).encode())
        assert asked.unmodelled == ("input_type",)
        members, lost = vectors.embed_members(asked)
        assert (members["input_type"], lost) == ("search_query", ())
    asked = EmbedRequest(model="m", input=("a",), unmodelled=("input_type",), original=Original("openai_chat", {}))
    members, lost = vectors.embed_members(asked)
    assert (members["input_type"], lost) == ("search_document", ("input_type",))
    assert read(input_type="search_document", priority=7).unmodelled == ()
    assert read(max_tokens=7).unmodelled == ("max_tokens",)


def test_counts_and_errors_of_a_reply() -> None:
    assert reply(embeddings=[[1.0]], meta={"billed_units": {"input_tokens": 3.0}}).input_tokens == 3
    assert reply(embeddings=[[1.0]], meta={"billed_units": {}}).input_tokens is None
    with pytest.raises(ApiError, match="broke"):
        reply(message="broke")


@pytest.mark.parametrize(
    "embeddings", [None, {}, [], {"float": []}, {"int8": [[1]]}, {"base64": ["x"]}, {"base64": ["QUI="]}]
)
def test_a_reply_without_vectors_is_a_wire_error(embeddings: Any) -> None:
    with pytest.raises(WireError):
        reply(embeddings=embeddings)

from __future__ import annotations

import base64
import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.dialects.openai_chat import DIALECT
from rivermouth.dialects.openai_chat.embeddings import build_embed, encode_embed, parse_embed, parse_embed_reply
from rivermouth.ir.errors import ApiError, Kind, WireError
from rivermouth.ir.reply import EmbedReply
from rivermouth.ir.request import EmbedRequest, Local
from tests.dialects.openai_chat.case import answer, route


def parse(**fields: Any) -> EmbedRequest:
    given_ = {"model": "e", "input": "text", **fields}
    return parse_embed(json.dumps(given_).encode(), route("/embeddings"), None)


def test_inputs_are_texts_in_order() -> None:
    assert parse().input == ("text",)
    request = parse(input=["b", "a"], encoding_format="base64", dimensions=2, user="u")
    assert (request.input, request.base64, request.dimensions, request.model) == (("b", "a"), True, 2, "e")
    assert not parse(encoding_format=None, dimensions=None).base64


@pytest.mark.promise(78)
@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"stream": True}, "stream"),
        ({"stream": "x"}, "stream"),
        ({"input": [1, 2]}, "input"),
        ({"input": [[1, 2]]}, "input"),
        ({"input": ["a", 1]}, "input"),
        ({"input": ""}, "input"),
        ({"input": []}, "input"),
        ({"input": ["a", ""]}, "input"),
        ({"input": ["a"] * 2049}, "input"),
        ({"input": None}, "input"),
        ({"input": {"a": 1}}, "input"),
        ({"model": None}, "model"),
        ({"encoding_format": "hex"}, "encoding_format"),
        ({"dimensions": 0}, "dimensions"),
    ],
)
def test_what_cannot_be_embedded_is_refused_by_name(fields: Any, param: str) -> None:
    with pytest.raises(ApiError) as caught:
        parse(**fields)
    assert (caught.value.kind, caught.value.param) == (Kind.INVALID_REQUEST, param)


@pytest.mark.promise(76)
def test_a_reply_is_one_document_in_the_encoding_asked_for() -> None:
    reply = EmbedReply(model="up", vectors=((0.5, -1.0), (0.25, 2.0)), input_tokens=3)
    wire = json.loads(encode_embed(reply, parse(), answer()))
    assert wire == {
        "object": "list",
        "data": [
            {"object": "embedding", "index": 0, "embedding": [0.5, -1.0]},
            {"object": "embedding", "index": 1, "embedding": [0.25, 2.0]},
        ],
        "model": "gpt-x",
        "usage": {"prompt_tokens": 3, "total_tokens": 3},
    }
    packed = json.loads(encode_embed(reply, parse(encoding_format="base64"), answer()))["data"][0]["embedding"]
    assert struct.unpack("<2f", base64.b64decode(packed)) == (0.5, -1.0)


@given(
    st.lists(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=3)),
    st.booleans(),
)
def test_vectors_come_back(vectors: list[list[float]], packed: bool) -> None:
    reply = EmbedReply(model="gpt-x", vectors=tuple(map(tuple, vectors)), input_tokens=1)
    request = parse(encoding_format="base64" if packed else "float")
    assert parse_embed_reply(encode_embed(reply, request, answer())) == reply


def test_vectors_are_sorted_by_their_index() -> None:
    data = [{"index": 1, "embedding": [1.0]}, {"index": 0, "embedding": [0]}]
    assert parse_embed_reply(json.dumps({"data": data}).encode()) == EmbedReply(model="", vectors=((0.0,), (1.0,)))


@pytest.mark.parametrize("body", [b"{}", b"[]", b'{"data":[{"embedding":"%%%"}]}', b'{"data":[{"embedding":"QQ=="}]}'])
def test_what_is_no_reply_is_a_wire_error(body: bytes) -> None:
    with pytest.raises(WireError):
        parse_embed_reply(body)


def test_the_clients_own_fields_go_to_its_own_dialect() -> None:
    raw = b'{"model":"e","input": "text", "vendor":1.50}'
    built = build_embed(parse_embed(raw, route("/embeddings"), None), "up")
    assert (built.path, built.body) == ("/embeddings", b'{"model":"up","input":"text","vendor":1.50}')
    neutral = EmbedRequest(model="e", input=("a",), dimensions=3, local=Local(keep_alive_s=5))
    built = build_embed(neutral, "up")
    assert json.loads(built.body) == {"model": "up", "input": ["a"], "dimensions": 3}
    assert built.losses == ("keep_alive_s",)
    assert DIALECT.build_embed is build_embed

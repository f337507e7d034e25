from __future__ import annotations

import json
from typing import Any

import pytest

from rivermouth.dialects.cohere_v1 import DIALECT
from rivermouth.ir.errors import ApiError
from rivermouth.ir.reply import EmbedReply
from rivermouth.ir.request import EmbedRequest, Local
from tests.dialects.cohere_v1.case import answer, route

ASK: dict[str, Any] = {"model": "e", "texts": ["a", "b"]}
REPLY = EmbedReply(model="e", vectors=((0.5, -1.0), (2.0, 0.25)), input_tokens=3)


def parse(**changes: Any) -> EmbedRequest:
    assert DIALECT.parse_embed is not None
    return DIALECT.parse_embed(json.dumps({**ASK, **changes}).encode(), route("/embed"), None)


def encode(request: EmbedRequest) -> Any:
    assert DIALECT.encode_embed is not None
    return json.loads(DIALECT.encode_embed(REPLY, request, answer()))


def build(request: EmbedRequest) -> Any:
    assert DIALECT.build_embed is not None
    built = DIALECT.build_embed(request, "up")
    assert built.path == "/embed"
    return json.loads(built.body), built.losses


@pytest.mark.parametrize("types", [None, []])
def test_without_types_it_is_a_bare_list(types: Any) -> None:
    assert encode(parse(embedding_types=types)) == {
        "response_type": "embeddings_floats",
        "id": "01J",
        "embeddings": [[0.5, -1.0], [2.0, 0.25]],
        "texts": ["a", "b"],
        "meta": {"api_version": {"version": "1"}, "billed_units": {"input_tokens": 3}},
    }


def test_with_types_it_is_an_object_by_type() -> None:
    found = encode(parse(embedding_types=["float", "base64"]))
    assert found["response_type"] == "embeddings_by_type"
    assert found["embeddings"] == {
        "float": [[0.5, -1.0], [2.0, 0.25]],
        "base64": ["AAAAPwAAgL8=", "AAAAQAAAgD4="],
    }


def test_the_upstreams_body() -> None:
    request = EmbedRequest(model="m", input=("a",), dimensions=8, local=Local(keep_alive_s=0))
    assert build(request) == (
        {"model": "up", "texts": ["a"], "input_type": "search_document", "embedding_types": ["float"]},
        ("keep_alive_s", "dimensions"),
    )
    assert build(parse(x=3))[0] == {**ASK, "model": "up", "x": 3}


def test_both_kinds_of_reply_are_read() -> None:
    assert DIALECT.parse_embed_reply is not None
    for embeddings in ([[0.5, -1.0]], {"float": [[0.5, -1.0]]}):
        reply = DIALECT.parse_embed_reply(json.dumps({"id": "1", "embeddings": embeddings}).encode())
        assert (reply.vectors, reply.input_tokens) == (((0.5, -1.0),), None)


@pytest.mark.parametrize("changes", [{"stream": True}, {"texts": []}, {"embedding_types": ["ubinary"]}])
def test_refusals(changes: dict[str, Any]) -> None:
    with pytest.raises(ApiError) as raised:
        parse(**changes)
    assert raised.value.param == next(iter(changes))

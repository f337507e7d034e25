from __future__ import annotations

import json
from typing import Any

import pytest

from rivermouth.dialects.cohere_v2 import DIALECT
from rivermouth.ir.errors import ApiError
from rivermouth.ir.reply import EmbedReply
from rivermouth.ir.request import EmbedRequest
from tests.dialects.cohere_v2.case import answer, route

ASK: dict[str, Any] = {"model": "e", "texts": ["a", "b"], "input_type": "search_query"}


def parse(**changes: Any) -> EmbedRequest:
    assert DIALECT.parse_embed is not None
    return DIALECT.parse_embed(json.dumps({**ASK, **changes}).encode(), route("/embed"), None)


def encode(request: EmbedRequest, reply: EmbedReply) -> Any:
    assert DIALECT.encode_embed is not None
    return json.loads(DIALECT.encode_embed(reply, request, answer()))


def build(request: EmbedRequest) -> Any:
    assert DIALECT.build_embed is not None
    built = DIALECT.build_embed(request, "up")
    assert built.path == "/embed"
    return json.loads(built.body), built.losses


REPLY = EmbedReply(model="e", vectors=((0.5, -1.0), (2.0, 0.25)), input_tokens=3)


def test_vectors_by_type() -> None:
    request = parse(output_dimension=2, truncate="NONE")
    assert (request.input, request.dimensions, request.truncate) == (("a", "b"), 2, False)
    assert encode(request, REPLY) == {
        "response_type": "embeddings_by_type",
        "id": "01J",
        "embeddings": {"float": [[0.5, -1.0], [2.0, 0.25]]},
        "texts": ["a", "b"],
        "meta": {"api_version": {"version": "2"}, "billed_units": {"input_tokens": 3}},
    }
    both = encode(parse(embedding_types=["base64", "float", "base64"]), REPLY)["embeddings"]
    assert both == {"base64": ["AAAAPwAAgL8=", "AAAAQAAAgD4="], "float": [[0.5, -1.0], [2.0, 0.25]]}


def test_the_upstreams_body() -> None:
    built, lost = build(EmbedRequest(model="m", input=("a",), dimensions=8, truncate=False))
    assert built == {
        "model": "up",
        "texts": ["a"],
        "input_type": "search_document",
        "embedding_types": ["float"],
        "truncate": "NONE",
        "output_dimension": 8,
    }
    assert lost == ()
    assert build(parse(priority=3))[0] == {**ASK, "model": "up", "priority": 3}


def test_both_kinds_of_reply_are_read() -> None:
    assert DIALECT.parse_embed_reply is not None
    for embeddings in ({"float": [[0.5, -1.0]]}, {"base64": ["AAAAPwAAgL8="]}):
        body = json.dumps({"id": "1", "embeddings": embeddings, "meta": {"billed_units": {"input_tokens": 2.0}}})
        reply = DIALECT.parse_embed_reply(body.encode())
        assert (reply.vectors, reply.input_tokens) == (((0.5, -1.0),), 2)


@pytest.mark.parametrize("changes", [{"stream": True}, {"texts": None}, {"embedding_types": ["int8"]}])
def test_refusals(changes: dict[str, Any]) -> None:
    with pytest.raises(ApiError) as raised:
        parse(**changes)
    assert raised.value.param == next(iter(changes))

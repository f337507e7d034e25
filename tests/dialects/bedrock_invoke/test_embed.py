"""Vectors: which body asks for one at the path of texts, and both directions of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rivermouth.dialects.bedrock_invoke import DIALECT
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.reply import EmbedReply
from rivermouth.ir.request import EmbedRequest, Local
from tests.dialects.bedrock_invoke.case import (
    CLAUDE_BODY,
    COUNT,
    EMBED,
    INVOKE,
    STREAM,
    TITAN_BODY,
    TITAN_MODEL,
    answer,
)

V2 = "amazon.titan-embed-text-v2:0"
CONFIG = {"textGenerationConfig": {"maxTokenCount": 5}}


def rerouted(body: Any, model: str | None, route: Any = INVOKE) -> Any:
    assert DIALECT.reroute is not None
    return DIALECT.reroute(route, body if isinstance(body, bytes) else json.dumps(body).encode(), model)


def parse(body: Any, model: str | None = V2) -> EmbedRequest:
    assert DIALECT.parse_embed is not None
    return DIALECT.parse_embed(json.dumps(body).encode(), EMBED, model)


class TestRoute:
    @pytest.mark.parametrize(
        ("body", "model", "embeds"),
        [
            (TITAN_BODY, V2, True),
            (TITAN_BODY, "nomic-Embed-text", True),
            (TITAN_BODY, TITAN_MODEL, False),
            (TITAN_BODY, None, False),
            (TITAN_BODY | CONFIG, V2, False),
            (TITAN_BODY | {"normalize": True}, "any", True),
            (TITAN_BODY | {"dimensions": 3}, "any", True),
            (TITAN_BODY | {"embeddingTypes": ["float"]}, "any", True),
            ({"inputText": 'say "normalize"'}, "any", False),
            (CLAUDE_BODY, "an-embedder", False),
            ({"messages": [{"inputText": 1}]}, "an-embedder", False),
            (b'{"inputText": ', "an-embedder", False),
        ],
    )
    def test_a_vector_is_wanted_where_the_body_or_the_name_says_so(
        self, body: Any, model: str | None, embeds: bool
    ) -> None:
        assert rerouted(body, model) is (EMBED if embeds else INVOKE)

    def test_other_routes_stay_and_a_stream_of_vectors_is_refused(self) -> None:
        assert rerouted(TITAN_BODY, V2, COUNT) is COUNT
        assert rerouted(CLAUDE_BODY, V2, STREAM) is STREAM
        with pytest.raises(ApiError, match="not streamed") as raised:
            rerouted(TITAN_BODY, V2, STREAM)
        assert raised.value.kind is Kind.INVALID_REQUEST


class TestServer:
    def test_a_request(self) -> None:
        got = parse({"inputText": "a", "dimensions": 2, "normalize": True, "embeddingTypes": ["float"], "odd": 1})
        assert (got.model, got.input, got.dimensions, got.unmodelled) == (V2, ("a",), 2, ("odd",))

    @pytest.mark.parametrize(
        ("body", "param"),
        [
            ([], None),
            ({}, "inputText"),
            ({"inputText": ""}, "inputText"),
            ({"inputText": ["a"]}, "inputText"),
            ({"inputText": "a", "dimensions": 0}, "dimensions"),
            ({"inputText": "a", "normalize": "yes"}, "normalize"),
            ({"inputText": "a", "embeddingTypes": ["float", "binary"]}, "embeddingTypes"),
        ],
    )
    def test_what_cannot_be_served_is_named(self, body: Any, param: str | None) -> None:
        with pytest.raises(ApiError) as raised:
            parse(body)
        assert (raised.value.kind, raised.value.param) == (Kind.INVALID_REQUEST, param)

    @pytest.mark.parametrize(
        ("normalize", "vector", "wanted"),
        [(True, (3.0, 4.0), [0.6, 0.8]), (True, (0.0,), [0.0]), (False, (3.0,), [3.0])],
    )
    def test_a_reply(self, normalize: bool, vector: tuple[float, ...], wanted: list[float]) -> None:
        assert DIALECT.encode_embed is not None
        request = parse({"inputText": "a", "normalize": normalize})
        body = DIALECT.encode_embed(EmbedReply(model="m", vectors=(vector,), input_tokens=3), request, answer())
        got = json.loads(body)
        assert got == {
            "embedding": pytest.approx(wanted),
            "embeddingsByType": {"float": pytest.approx(wanted)},
            "inputTextTokenCount": 3,
        }


class TestUpstream:
    def build(self, **changes: Any) -> Any:
        assert DIALECT.build_embed is not None
        return DIALECT.build_embed(EmbedRequest(**{"model": "m", "input": ("a",), **changes}), V2)

    def test_one_text_for_each_call(self) -> None:
        assert DIALECT.parse_embed_reply is not None
        built = self.build(dimensions=2)
        assert built.path == "/model/amazon.titan-embed-text-v2%3A0/invoke"
        assert json.loads(built.body) == {"inputText": "a", "dimensions": 2}
        reply = DIALECT.parse_embed_reply(b'{"embedding":[0.5,1],"inputTextTokenCount":3}')
        assert (reply.vectors, reply.input_tokens) == (((0.5, 1.0),), 3)
        with pytest.raises(ApiError) as raised:
            self.build(input=("a", "b"))
        assert raised.value.param == "input"

    def test_what_it_goes_without_is_named(self) -> None:
        built = self.build(truncate=False, local=Local(keep_alive_s=1, context_tokens=2), unmodelled=("odd",))
        assert built.losses == ("odd", "truncate", "keep_alive_s", "context_tokens")

    def test_its_own_body_goes_as_it_came(self) -> None:
        body = {"inputText": "a", "normalize": False, "odd": {"deep": 1.5}}
        came = parse(body)
        assert json.loads(self.build(original=came.original, unmodelled=came.unmodelled).body) == body

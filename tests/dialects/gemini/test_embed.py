from __future__ import annotations

import json
from typing import Any

import pytest

from rivermouth.dialects.gemini import DIALECT
from rivermouth.dialects.gemini.embed import INPUTS_CAP, build_embed, encode_embed, parse_embed, parse_embed_reply
from rivermouth.ir.errors import ApiError, Kind, WireError
from rivermouth.ir.reply import EmbedReply, ModelInfo
from rivermouth.ir.request import EmbedRequest, Local
from tests.dialects.gemini.case import answer, get_route, route


def parse(method: str, body: Any) -> EmbedRequest:
    return parse_embed(json.dumps(body).encode(), route(method), "x")


def text(said: str, **more: Any) -> dict[str, Any]:
    return {"model": "models/x", "content": {"parts": [{"text": said}]}, **more}


@pytest.mark.promise(76)
def test_both_routes_are_read() -> None:
    batch = {
        "requests": [text("a", outputDimensionality=3, taskType="RETRIEVAL_QUERY"), text("b", output_dimensionality=3)]
    }
    many = parse("batchEmbedContents", batch)
    assert (many.model, many.input, many.dimensions, many.single) == ("x", ("a", "b"), 3, False)
    one = parse("embedContent", {"content": {"parts": [{"text": "a"}, {"text": "b"}]}})
    assert (one.input, one.dimensions, one.single) == (("ab",), None, True)


@pytest.mark.parametrize(
    ("method", "body", "param"),
    [
        ("batchEmbedContents", {}, "requests"),
        ("batchEmbedContents", {"requests": []}, "requests"),
        ("batchEmbedContents", {"requests": [text("a")] * (INPUTS_CAP + 1)}, "requests"),
        ("batchEmbedContents", {"requests": [text("a"), {}]}, "requests[1].content"),
        ("batchEmbedContents", {"requests": [text("a"), text("")]}, "requests[1].content.parts"),
        (
            "batchEmbedContents",
            {"requests": [text("a"), text("b", outputDimensionality=3)]},
            "requests[0].outputDimensionality",
        ),
        ("embedContent", {"content": {"parts": [{"inlineData": {"data": "AA=="}}]}}, "content.parts"),
        ("embedContent", {**text("a"), "outputDimensionality": 0}, "outputDimensionality"),
        ("embedContent", {}, "content"),
    ],
)
def test_what_is_wrong_is_named(method: str, body: Any, param: str) -> None:
    with pytest.raises(ApiError) as caught:
        parse(method, body)
    assert (caught.value.kind, caught.value.param) == (Kind.INVALID_REQUEST, param)


def test_there_are_as_many_vectors_as_requests() -> None:
    reply = EmbedReply(model="x", vectors=((0.5, 1.0), (2.0,)), input_tokens=3)
    many = EmbedRequest(model="x", input=("a", "b"))
    assert json.loads(encode_embed(reply, many, answer())) == {
        "embeddings": [{"values": [0.5, 1.0]}, {"values": [2.0]}],
        "usageMetadata": {"promptTokenCount": 3},
    }
    one = EmbedRequest(model="x", input=("a",), single=True)
    single = encode_embed(EmbedReply(model="x", vectors=((0.5,),)), one, answer())
    assert json.loads(single) == {"embedding": {"values": [0.5]}}
    for request, body in ((many, encode_embed(reply, many, answer())), (one, single)):
        assert len(parse_embed_reply(body).vectors) == len(request.input)
    assert parse_embed_reply(encode_embed(reply, many, answer())).input_tokens == 3


def test_the_batch_route_is_called_and_a_body_of_this_dialect_goes_as_it_came() -> None:
    asked = EmbedRequest(model="x", input=("a", "b"), dimensions=3, local=Local(keep_alive_s=1))
    built = build_embed(asked, "gemini-embedding-001")
    assert built.path == "/models/gemini-embedding-001:batchEmbedContents"
    assert json.loads(built.body)["requests"][1] == {
        "model": "models/gemini-embedding-001",
        "content": {"parts": [{"text": "b"}]},
        "outputDimensionality": 3,
    }
    assert built.losses == ("keep_alive_s",)
    batch = {"requests": [text("a", taskType="CLUSTERING", title="t")]}
    repeated = build_embed(parse("batchEmbedContents", batch), "up")
    assert json.loads(repeated.body) == {
        "requests": [text("a", taskType="CLUSTERING", title="t") | {"model": "models/up"}]
    }
    single = build_embed(parse("embedContent", text("a")), "up")
    assert (single.path, json.loads(single.body)["model"]) == ("/models/up:embedContent", "models/up")


@pytest.mark.parametrize("body", [b"{}", b"[]", b'{"embeddings":[{"values":["x"]}]}'])
def test_a_reply_without_vectors_is_none(body: bytes) -> None:
    with pytest.raises(WireError):
        parse_embed_reply(body)


def test_models_are_listed_and_read_back() -> None:
    listed = [
        ModelInfo(id="lab/x", owner="lab", context_tokens=8192),
        ModelInfo(id="e", owner="lab", capabilities=("embedding",)),
    ]
    assert DIALECT.encode_models is not None
    assert DIALECT.parse_models is not None
    body = DIALECT.encode_models(listed, get_route("/models"))
    first = json.loads(body)["models"][0]
    assert first["name"] == "models/lab/x"
    assert "streamGenerateContent" in first["supportedGenerationMethods"]
    assert [(m.id, m.context_tokens, m.capabilities) for m in DIALECT.parse_models(body)] == [
        ("lab/x", 8192, ("completion",)),
        ("e", None, ("embedding",)),
    ]
    assert DIALECT.encode_model is not None
    assert json.loads(DIALECT.encode_model(listed[0], get_route("/models/{model}"))) == first
    assert json.loads(DIALECT.encode_models([], get_route("/models"))) == {"models": []}
    assert [m.capabilities for m in DIALECT.parse_models(b'{"models":[{"name":"models/a"}]}')] == [("completion",)]

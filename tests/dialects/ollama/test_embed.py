from __future__ import annotations

import json

import pytest

from rivermouth.dialects.ollama.embed import build_embed, encode_embed, parse_embed, parse_embed_reply
from rivermouth.ir.errors import ApiError, Kind, WireError
from rivermouth.ir.reply import EmbedReply
from rivermouth.ir.request import EmbedRequest, Local
from tests.dialects.ollama.case import answer, route

VECTORS = ((0.5, -1.0), (0.25, 2.0))


@pytest.mark.parametrize(
    ("text", "want"),
    [('"a"', ("a",)), ('["a","b"]', ("a", "b")), ('""', ()), ("[]", ())],
)
def test_input(text: str, want: tuple[str, ...]) -> None:
    body = f'{{"model":"m","input":{text},"truncate":false,"dimensions":3,"keep_alive":0.0}}'.encode()
    request = parse_embed(body, route("/embed"), None)
    assert (request.input, request.single, request.truncate, request.dimensions) == (want, False, False, 3)
    assert request.local == Local(keep_alive_s=0.0)


def test_legacy_prompt() -> None:
    request = parse_embed(b'{"model":"m","prompt":"a"}', route("/embeddings"), None)
    assert (request.input, request.single) == (("a",), True)
    assert parse_embed(b'{"model":"m"}', route("/embeddings"), None).input == ()


@pytest.mark.promise(78)
@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b'{"model":"m","input":"a","stream":true}', "stream"),
        (b'{"model":"m"}', "input"),
        (b'{"input":"a"}', "model"),
        (b'{"model":"m","input":[1]}', "input[0]"),
        (b'{"model":"m","input":"a","options":{"num_ctx":"big"}}', "options.num_ctx"),
    ],
)
def test_what_is_wrong_is_named(body: bytes, param: str) -> None:
    with pytest.raises(ApiError) as caught:
        parse_embed(body, route("/embed"), None)
    assert (caught.value.kind, caught.value.param) == (Kind.INVALID_REQUEST, param)


def test_replies() -> None:
    many = parse_embed(b'{"model":"m","input":["a","b"]}', route("/embed"), None)
    one = parse_embed(b'{"model":"m","prompt":"a"}', route("/embeddings"), None)
    reply = EmbedReply(model="up", vectors=VECTORS, input_tokens=4)
    assert json.loads(encode_embed(reply, many, answer("embed", total_ns=9))) == {
        "model": "m:1b",
        "embeddings": [[0.5, -1.0], [0.25, 2.0]],
        "total_duration": 9,
        "prompt_eval_count": 4,
    }
    assert json.loads(encode_embed(reply, one, answer("embeddings"))) == {"embedding": [0.5, -1.0]}
    assert json.loads(encode_embed(EmbedReply(model="up", vectors=()), one, answer())) == {"embedding": []}


def test_built_for_an_upstream() -> None:
    out = build_embed(EmbedRequest(model="x", input=("a",), truncate=False, dimensions=2), "up")
    assert out.path == "/embed"
    assert json.loads(out.body) == {"model": "up", "input": ["a"], "truncate": False, "dimensions": 2}
    assert json.loads(build_embed(EmbedRequest(model="x", input=("a",)), "up").body) == {"model": "up", "input": ["a"]}


@pytest.mark.parametrize(("path", "word"), [("/embed", "input"), ("/embeddings", "prompt")])
def test_our_own_dialect_passes(path: str, word: str) -> None:
    request = parse_embed(f'{{"model":"m","{word}":"a","new":1.50}}'.encode(), route(path), None)
    out = build_embed(request, "up")
    assert (out.path, out.body.decode()) == (path, f'{{"model":"up","{word}":"a","new":1.50}}')


def test_upstream_replies() -> None:
    body = b'{"model":"up","embeddings":[[0.5,-1],[0.25,2]],"prompt_eval_count":4}'
    assert parse_embed_reply(body) == EmbedReply(model="up", vectors=VECTORS, input_tokens=4)
    assert parse_embed_reply(b'{"embedding":[0.5,-1]}').vectors == VECTORS[:1]
    with pytest.raises(WireError):
        parse_embed_reply(b"{}")
    with pytest.raises(ApiError):
        parse_embed_reply(b'{"error":"no"}')

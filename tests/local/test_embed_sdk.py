"""Vectors of a local model as clients ask for them: the vendors' SDKs, over sockets, from a server of its own."""

from __future__ import annotations

import base64
import socket
import struct
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import ollama
import openai
import pytest

from rivermouth.local.models.registry import Registry
from rivermouth.store.port import Status
from tests.local.asking import install
from tests.local.encoding import install_encoder
from tests.running import START_S, running
from tests.sdk.served import Served
from tests.tiny_bert import TOKENS, WIDTH, build, ids_of, vector_of
from tests.tiny_gguf import build as build_gguf

pytestmark = pytest.mark.timeout(START_S + 30)

CONFIG = "[resilience]\nretries = 0\n"
TEXTS = ["the river", "sea", "mouth of the river"]
LONG = " ".join(["river", "mouth"] * TOKENS)
IGNORED = "x-rivermouth-ignored"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("embeds")
    registry = Registry(folder / "data" / "models")
    install_encoder(registry, "tiny-encoder", build(folder / "encoder"))
    install(registry, "tiny", build_gguf(folder / "tiny.gguf"))
    with running(folder, CONFIG, scripted=False) as started:
        seen = Served(started)
        yield seen
        seen.dispose()


@pytest.fixture(scope="module", params=["", "/openai"])
def openai_sdk(request: pytest.FixtureRequest, server: Served) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}{request.param}/v1", api_key="any", max_retries=0) as sdk:
        yield sdk


@pytest.fixture(scope="module")
def ollama_sdk(server: Served) -> Iterator[ollama.Client]:
    with ollama.Client(host=server.url) as sdk:
        yield sdk


def assert_right(vectors: Any, texts: list[str]) -> None:
    np.testing.assert_allclose([list(v) for v in vectors], [vector_of(ids_of(text)) for text in texts], atol=2e-6)


@pytest.mark.promise(76)
def test_openai(openai_sdk: openai.OpenAI, server: Served) -> None:
    """By default the SDK asks for base64 and decodes it; floats are the same numbers."""
    ask = openai_sdk.embeddings.create
    by_default = ask(model="tiny-encoder", input=TEXTS)
    assert_right([entry.embedding for entry in by_default.data], TEXTS)
    assert [entry.index for entry in by_default.data] == [0, 1, 2]
    counted = sum(len(ids_of(text)) for text in TEXTS)
    assert (by_default.usage.prompt_tokens, by_default.usage.total_tokens) == (counted, counted)
    floats = ask(model="tiny-encoder", input=TEXTS, encoding_format="float", dimensions=WIDTH)
    raw: Any = ask(model="tiny-encoder", input=TEXTS, encoding_format="base64")
    for n, entry in enumerate(floats.data):
        packed = struct.unpack(f"<{WIDTH}f", base64.b64decode(raw.data[n].embedding))
        np.testing.assert_allclose(entry.embedding, packed, atol=1e-6)
    record = server.last_record()
    assert (record.status, record.provider, record.input_tokens) == (Status.COMPLETED, "local", counted)


@pytest.mark.parametrize(
    ("fields", "param", "code"),
    [
        ({"input": LONG}, "input", "context_length_exceeded"),
        ({"input": ["sea", ""]}, "input", "invalid_value"),
        ({"input": "sea", "dimensions": 8}, "dimensions", None),
        ({"input": "sea", "model": "tiny"}, "model", "no_embeddings"),
        ({"input": ["a"] * 2049}, "input", "invalid_value"),
    ],
)
def test_openai_refuses(openai_sdk: openai.OpenAI, fields: dict[str, Any], param: str, code: str | None) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        openai_sdk.embeddings.create(**{"model": "tiny-encoder", **fields})
    assert refused.value.param == param
    assert code in (None, refused.value.code)


def test_an_encoder_does_not_answer(openai_sdk: openai.OpenAI, ollama_sdk: ollama.Client) -> None:
    hi: Any = [{"role": "user", "content": "Hi"}]
    with pytest.raises(openai.BadRequestError, match="makes embeddings, and cannot answer"):
        openai_sdk.chat.completions.create(model="tiny-encoder", messages=hi)
    with pytest.raises(ollama.ResponseError, match="makes embeddings, and cannot answer") as refused:
        ollama_sdk.chat(model="tiny-encoder", messages=hi)
    assert refused.value.status_code == 400


@pytest.mark.promise(76)
def test_ollama(ollama_sdk: ollama.Client) -> None:
    many = ollama_sdk.embed("tiny-encoder", TEXTS)
    assert_right(many.embeddings, TEXTS)
    assert many.prompt_eval_count == sum(len(ids_of(text)) for text in TEXTS)
    assert (many.total_duration or 0) > 0
    assert_right(ollama_sdk.embed("tiny-encoder", "sea").embeddings, ["sea"])
    assert_right([ollama_sdk.embeddings("tiny-encoder", "sea").embedding], ["sea"])
    assert_right(ollama_sdk.embed("tiny-encoder", ["", "sea"]).embeddings, ["", "sea"])
    assert list(ollama_sdk.embed("tiny-encoder", "").embeddings) == []


def test_ollama_cuts_a_long_text_and_says_so(ollama_sdk: ollama.Client, server: Served) -> None:
    cut = ollama_sdk.embed("tiny-encoder", LONG)
    assert_right(cut.embeddings, [" ".join(LONG.split()[: TOKENS - 2])])
    assert cut.prompt_eval_count == TOKENS
    assert server.last_record().ignored == ("input.end",)
    with pytest.raises(ollama.ResponseError, match="more than the 16 tokens") as refused:
        ollama_sdk.embed("tiny-encoder", LONG, truncate=False)
    assert refused.value.status_code == 400
    with httpx.Client(base_url=server.url) as client:
        told = client.post("/api/embed", json={"model": "tiny-encoder", "input": LONG})
        assert told.headers[IGNORED] == "input.end"
        whole = client.post("/api/embed", json={"model": "tiny-encoder", "input": "sea"})
        assert IGNORED not in whole.headers


def test_ollama_refuses(ollama_sdk: ollama.Client) -> None:
    for fields, words in (
        ({"model": "tiny", "input": "sea"}, "makes no embeddings"),
        ({"model": "tiny-encoder", "input": "sea", "dimensions": 8}, "dimensions"),
        ({"model": "tiny-encoder", "input": ["sea"] * 2049}, "2048 inputs"),
    ):
        with pytest.raises(ollama.ResponseError, match=words) as refused:
            ollama_sdk.embed(**fields)
        assert refused.value.status_code == 400


def test_it_is_loaded_shown_and_let_go(ollama_sdk: ollama.Client) -> None:
    ollama_sdk.embed("tiny-encoder", "sea", keep_alive="10m")
    assert "tiny-encoder:latest" in [model.model for model in ollama_sdk.ps().models]
    assert ollama_sdk.show("tiny-encoder").capabilities == ["embedding"]
    ollama_sdk.generate("tiny-encoder", keep_alive=0)
    assert "tiny-encoder:latest" not in [model.model for model in ollama_sdk.ps().models]
    assert_right(ollama_sdk.embed("tiny-encoder", "sea").embeddings, ["sea"])


@pytest.mark.promise(35)
def test_a_client_that_leaves_stops_the_work(server: Served, ollama_sdk: ollama.Client) -> None:
    ollama_sdk.embed("tiny-encoder", "sea")
    body = b'{"model":"tiny-encoder","input":[' + b",".join([b'"' + b"river " * 500 + b'"'] * 2048) + b"]}"
    head = f"POST /api/embed HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(head.encode() + body)
        server.busy()
    server.idle()
    record = server.last_record()
    assert (record.status, record.cancelled_by) == (Status.CANCELLED, "client")
    assert_right(ollama_sdk.embed("tiny-encoder", "sea").embeddings, ["sea"])

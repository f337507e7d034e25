"""The vendors' SDKs for JavaScript, run by Node against servers of this folder."""

from __future__ import annotations

import hashlib
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rivermouth.local.registry import Registry
from rivermouth.store.port import Status
from tests.local.encoding import install_encoder
from tests.sdk import node
from tests.sdk.conftest import served
from tests.sdk.said import echo
from tests.sdk.served import Served
from tests.tiny_bert import build as build_encoder
from tests.tiny_bert import ids_of, vector_of
from tests.tiny_gguf import TEXT, build

CONFIG = '[local]\ncatalog = "models.toml"\ndevices = ["CPU"]\n[resilience]\nretries = 0\n'
CATALOG = """
[[models]]
names = ["parcel"]
license = "Apache-2.0"
attribution = "Somebody"
source = { kind = "file", path = "tiny.gguf" }
"""
BROKEN = 'You said: "Hi". This is'


@pytest.fixture(scope="module", autouse=True)
def packages() -> None:
    """Those of the lock; where they cannot be brought, every test here fails with that sentence."""
    try:
        node.install(node.IN_A_TEST_S)
    except node.NoPackages as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("js") / "tiny.gguf")


@pytest.fixture(scope="module")
def shop(file: Path) -> Iterator[Served]:
    """A server that has an encoder, and whose catalogue has one model more to pull."""
    folder = file.parent
    (folder / "models.toml").write_text(CATALOG, encoding="utf-8")
    install_encoder(Registry(folder / "data" / "models"), "tiny-encoder", build_encoder(folder / "encoder"))
    with served(folder, CONFIG) as server:
        yield server


@pytest.fixture(scope="module")
def ollama(shop: Served) -> dict[str, Any]:
    """What its SDK saw of a model from the pull to the end of it."""
    return node.run("ollama.mjs", shop.url, "parcel", "tiny-encoder")


class TestOllama:
    @pytest.mark.promise(13, 24, 25, 26, 27, 28)
    def test_pull(self, ollama: dict[str, Any], file: Path) -> None:
        assert "parcel:latest" not in ollama["before"]
        first, *files, verifying, last = ollama["pull"]
        assert (first, verifying, last) == (
            {"status": "pulling manifest"},
            {"status": "verifying sha256 digest"},
            {"status": "success"},
        )
        model = listed(ollama)
        digest, total = f"sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}", file.stat().st_size
        assert (f"sha256:{model['digest']}", model["size"]) == (digest, total)
        assert {(f["status"], f["digest"], f["total"]) for f in files} == {("pulling tiny.gguf", digest, total)}
        completed = [f["completed"] for f in files]
        assert (completed[0], completed[-1]) == (0, total)
        assert completed == sorted(completed)
        assert ollama["pullAgain"] == {"status": "success"}
        assert ollama["unknown"]["status"] == 404

    def test_list_and_show(self, ollama: dict[str, Any]) -> None:
        details = listed(ollama)["details"]
        assert (details["format"], details["family"]) == ("gguf", "llama")
        shown = ollama["show"]
        assert (shown["license"], shown["details"]) == ("Apache-2.0\nSomebody", details)
        assert "completion" in shown["capabilities"]

    @pytest.mark.promise(12, 15, 16, 49)
    def test_chat_and_generate(self, ollama: dict[str, Any]) -> None:
        whole = ollama["chat"]
        assert (whole["message"], whole["done"]) == ({"role": "assistant", "content": TEXT}, True)
        *pieces, last = ollama["stream"]
        assert "".join(piece["message"]["content"] for piece in (*pieces, last)) == TEXT
        assert [piece["done"] for piece in pieces] == [False] * len(pieces)
        assert (last["done"], last["done_reason"], last["eval_count"]) == (True, "stop", whole["eval_count"])
        assert ollama["generate"][-1]["done"] is True
        assert ollama["running"] == ["parcel:latest"]

    @pytest.mark.fault("F31")
    def test_abort_and_a_broken_stream(self, ollama: dict[str, Any], shop: Served) -> None:
        assert len(ollama["aborted"]["pieces"]) == 2
        assert ollama["aborted"]["ended"]["name"] == "AbortError"
        shop.idle()
        assert shop.usage("scripted/scripted-slow") == {Status.CANCELLED: 1}
        assert ollama["broken"]["name"] == "Error"

    @pytest.mark.promise(76)
    def test_embed(self, ollama: dict[str, Any]) -> None:
        vectors = ollama["embed"]["embeddings"]
        np.testing.assert_allclose(vectors, [vector_of(ids_of(text)) for text in ("the river", "sea")], atol=2e-6)

    def test_copy_and_delete(self, ollama: dict[str, Any]) -> None:
        assert ollama["copy"] == ollama["delete"] == {"status": "success"}
        assert {"parcel:latest", "second:latest"} <= set(ollama["copied"])
        assert set(ollama["copied"]) - set(ollama["after"]) == {"parcel:latest"}
        assert (ollama["gone"]["status"], ollama["askedWhenGone"]["status"]) == (404, 404)


def listed(ollama: dict[str, Any]) -> dict[str, Any]:
    """The model as its list has it."""
    found: dict[str, dict[str, Any]] = {one["name"]: one for one in ollama["list"]}
    return found["parcel:latest"]


@pytest.fixture(scope="module")
def openai(back: Served) -> dict[str, Any]:
    """What its SDK saw in both of its protocols."""
    return node.run("openai.mjs", back.url)


def test_openai(openai: dict[str, Any], back: Served) -> None:
    assert (openai["text"], openai["finish"]) == (echo("Hi"), "stop")
    assert openai["usage"]["completion_tokens"] > 10
    check_ends(openai, back)


class TestResponses:
    """The accumulator raises for ids that change, deltas without their item, and events out of order."""

    def test_text_and_thoughts(self, openai: dict[str, Any]) -> None:
        seen = openai["responses"]
        whole, streamed = seen["whole"], seen["streamed"]
        assert (whole["status"], whole["text"]) == ("completed", echo("Hi"))
        assert (streamed["status"], streamed["text"]) == ("completed", echo("Hi"))
        assert whole["id"].startswith("resp_")
        assert streamed["kinds"] == ["reasoning", "message"]
        assert streamed["numbers"] == list(range(len(streamed["numbers"])))
        assert streamed["usage"]["output_tokens_details"]["reasoning_tokens"] > 0

    @pytest.mark.fault("F26")
    def test_tools_and_their_results(self, openai: dict[str, Any]) -> None:
        calls = [(c["type"], c.get("namespace"), c["name"]) for c in openai["responses"]["calls"]]
        time = ("function_call", None, "time")
        assert calls == [time, time, ("function_call", "mcp__clock", "now")]
        assert {c["text"] for c in openai["responses"]["calls"]} == {'{"zone":"UTC"}'}
        assert openai["responses"]["answered"]["text"].count('answered "noon"') == 2

    @pytest.mark.fault("F10", "F15", "F31")
    def test_ends(self, openai: dict[str, Any], back: Served) -> None:
        seen = openai["responses"]
        assert seen["cutOff"]["status"] == "incomplete"
        assert echo("Hi").startswith(seen["cutOff"]["text"])
        assert (len(seen["aborted"]["pieces"]), seen["aborted"]["ended"]) == (2, None)
        back.idle()
        assert seen["failed"] == "response.failed"
        assert (seen["unknown"]["type"], seen["unknown"]["status"]) == ("NotFoundError", 404)
        assert (seen["previous"]["type"], seen["previous"]["status"]) == ("BadRequestError", 400)


def test_anthropic(back: Served) -> None:
    seen = node.run("anthropic.mjs", back.url)
    assert (seen["text"], seen["finish"]) == (echo("Hi"), "end_turn")
    assert seen["usage"]["output_tokens"] > 10
    check_ends(seen, back)


def check_ends(seen: dict[str, Any], back: Served) -> None:
    """An abort is a quiet end of the stream and reaches the model; a failure in a stream is an error."""
    assert (len(seen["aborted"]["pieces"]), seen["aborted"]["ended"]) == (2, None)
    back.idle()
    assert ("".join(seen["broken"]["pieces"]), seen["broken"]["ended"]["type"]) == (BROKEN, "APIError")
    assert (seen["unknown"]["type"], seen["unknown"]["status"]) == ("NotFoundError", 404)


def test_the_lock_names_no_place_and_pins_every_package() -> None:
    text = (node.HERE / "package-lock.json").read_text(encoding="utf-8")
    assert '"resolved"' not in text
    assert len(re.findall(r'"integrity": "sha512-', text)) == len(re.findall(r'"node_modules/', text)) > 3


def test_without_a_registry_one_sentence_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine that has no way out: nobody listens at the registry, and nothing is kept."""
    for name in ("package.json", "package-lock.json", ".npmrc"):
        (tmp_path / name).write_bytes((node.HERE / name).read_bytes())
    nowhere = {"npm_config_registry": "http://127.0.0.1:1/", "npm_config_cache": str(tmp_path / "cache")}
    monkeypatch.setattr(node, "HERE", tmp_path)
    monkeypatch.setattr(node, "STAMP", tmp_path / "node_modules" / ".installed")
    monkeypatch.setattr(node, "ENVIRONMENT", {**node.ENVIRONMENT, **nowhere, "npm_config_fetch_retries": "0"})
    with pytest.raises(
        node.NoPackages, match=r"^npm could not bring .*/python -m tests\.sdk\.node  \(.*ECONNREFUSED\)$"
    ):
        node.install()


def test_a_registry_that_does_not_answer_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("package.json", "package-lock.json"):
        (tmp_path / name).write_bytes((node.HERE / name).read_bytes())
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silence = {"npm_config_registry": f"http://127.0.0.1:{silent.getsockname()[1]}/"}
        monkeypatch.setattr(node, "HERE", tmp_path)
        monkeypatch.setattr(node, "STAMP", tmp_path / "node_modules" / ".installed")
        monkeypatch.setattr(
            node, "ENVIRONMENT", {**node.ENVIRONMENT, **silence, "npm_config_cache": str(tmp_path / "cache")}
        )
        with pytest.raises(node.NoPackages, match=r"\(it did not end within 0\.5 s\)$"):
            node.install(0.5)

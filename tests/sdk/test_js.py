"""The vendors' SDKs for JavaScript, run by Node against servers of this folder: all of them in one process."""

from __future__ import annotations

import hashlib
import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from rivermouth.ir.request import Reasoning, ToolCall, ToolResult
from rivermouth.store.port import Status
from tests.dialects.loopback import Loopback
from tests.sdk import node
from tests.sdk.conftest import ENCODER
from tests.sdk.js_cases import CASES, SAID, SIGNATURE, THOUGHT, cases
from tests.sdk.said import ARGUMENTS, SIGNED, echo, thought
from tests.sdk.served import Served
from tests.tiny_bert import ids_of, vector_of
from tests.tiny_gguf import TEXT, build

BROKEN: Final = 'You said: "Hi". This is'
ANSWERED: Final = f'weather answered "rain". weather answered "rain". {SIGNED}'
KEPT: Final = {"openai": "openai_chat", "anthropic": "anthropic", "google": "gemini"}
"""SDKs that keep what was said and send it back, and the dialect of each."""


@pytest.fixture(scope="module")
def packages() -> None:
    """Those of the lock; where they cannot be brought, every test of an SDK fails with that sentence."""
    try:
        node.install(node.IN_A_TEST_S)
    except node.NoPackages as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture(scope="module")
def shown() -> Iterator[dict[str, Loopback]]:
    """Servers of streams for the accumulators."""
    with cases(*KEPT.values()) as servers:
        yield servers


@pytest.fixture(scope="module")
def everything(packages: None, back: Served, shown: dict[str, Loopback]) -> dict[str, Any]:
    """What each SDK saw."""
    where = {sdk: {"url": back.url, "cases": shown[dialect].url, "names": [*CASES]} for sdk, dialect in KEPT.items()}
    pulled = {"url": back.url, "model": "parcel", "encoder": ENCODER}
    plain = {"url": back.url}
    return node.run_all({**where, "responses": plain, "cohere": plain, "ollama": pulled})


@pytest.fixture
def seen(request: pytest.FixtureRequest, everything: dict[str, Any]) -> dict[str, Any]:
    """What the SDK saw that the test's class is named after."""
    found: dict[str, Any] = everything[request.cls.__name__.removeprefix("Test").lower()]
    return found


class TestOllama:
    @pytest.mark.promise(13, 24, 25, 26, 27, 28)
    def test_pull(self, seen: dict[str, Any], tmp_path: Path) -> None:
        assert "parcel:latest" not in seen["before"]
        first, *files, verifying, last = seen["pull"]
        assert (first, verifying, last) == (
            {"status": "pulling manifest"},
            {"status": "verifying sha256 digest"},
            {"status": "success"},
        )
        file = build(tmp_path / "tiny.gguf").read_bytes()
        model = listed(seen)
        digest, total = f"sha256:{hashlib.sha256(file).hexdigest()}", len(file)
        assert (f"sha256:{model['digest']}", model["size"]) == (digest, total)
        assert {(f["status"], f["digest"], f["total"]) for f in files} == {("pulling tiny.gguf", digest, total)}
        completed = [f["completed"] for f in files]
        assert (completed[0], completed[-1]) == (0, total)
        assert completed == sorted(completed)
        assert seen["pullAgain"] == {"status": "success"}
        assert seen["unknown"]["status"] == 404

    def test_list_and_show(self, seen: dict[str, Any]) -> None:
        details = listed(seen)["details"]
        assert (details["format"], details["family"]) == ("gguf", "llama")
        shown = seen["show"]
        assert (shown["license"], shown["details"]) == ("Apache-2.0\nSomebody", details)
        assert "completion" in shown["capabilities"]

    @pytest.mark.promise(12, 15, 16, 49)
    def test_chat_and_generate(self, seen: dict[str, Any]) -> None:
        whole = seen["chat"]
        assert (whole["message"], whole["done"]) == ({"role": "assistant", "content": TEXT}, True)
        *pieces, last = seen["stream"]
        assert "".join(piece["message"]["content"] for piece in (*pieces, last)) == TEXT
        assert [piece["done"] for piece in pieces] == [False] * len(pieces)
        assert (last["done"], last["done_reason"], last["eval_count"]) == (True, "stop", whole["eval_count"])
        assert seen["generate"][-1]["done"] is True
        assert "parcel:latest" in seen["running"]

    @pytest.mark.fault("F31")
    def test_abort_and_a_broken_stream(self, seen: dict[str, Any], back: Served) -> None:
        assert len(seen["aborted"]["pieces"]) == 2
        assert seen["aborted"]["ended"]["name"] == "AbortError"
        back.idle()
        assert back.usage("scripted/scripted-slow")[Status.CANCELLED] >= len(("openai", "anthropic", "ollama"))
        assert seen["broken"]["name"] == "Error"

    @pytest.mark.promise(76)
    def test_embed(self, seen: dict[str, Any]) -> None:
        vectors = seen["embed"]["embeddings"]
        np.testing.assert_allclose(vectors, [vector_of(ids_of(text)) for text in ("the river", "sea")], atol=2e-6)

    def test_copy_and_delete(self, seen: dict[str, Any]) -> None:
        assert seen["copy"] == seen["delete"] == {"status": "success"}
        assert {"parcel:latest", "second:latest"} <= set(seen["copied"])
        assert set(seen["copied"]) - set(seen["after"]) == {"parcel:latest"}
        assert (seen["gone"]["status"], seen["askedWhenGone"]["status"]) == (404, 404)

    def test_tools(self, seen: dict[str, Any]) -> None:
        assert seen["ran"] == {"text": ANSWERED, "called": [ARGUMENTS, ARGUMENTS]}


def listed(seen: dict[str, Any]) -> dict[str, Any]:
    """The model as its list has it."""
    found: dict[str, dict[str, Any]] = {one["name"]: one for one in seen["list"]}
    return found["parcel:latest"]


class TestOpenAI:
    def test_streams_and_their_ends(self, seen: dict[str, Any], back: Served) -> None:
        assert (seen["text"], seen["finish"]) == (echo("Hi"), "stop")
        assert seen["usage"]["completion_tokens"] > 10
        check_ends(seen, back)

    def test_it_calls_functions_until_there_is_nothing_left_to_call(self, seen: dict[str, Any]) -> None:
        assert seen["ran"] == {"text": ANSWERED, "called": [ARGUMENTS, ARGUMENTS]}

    @pytest.mark.fault("F10", "F11")
    @pytest.mark.parametrize("case", CASES)
    def test_its_accumulator_assembles_every_stream(self, seen: dict[str, Any], case: str) -> None:
        got = seen["cases"][case]
        if case in ("error", "cut"):
            assert got["type"] == {"error": "APIError", "cut": "OpenAIError"}[case]
            return
        message = got["message"]
        content = None if case in ("no_arguments", "parallel", "signed", "refusal") else SAID
        assert message["content"] == ('{"city":"Köln"}' if case == "schema" else content)
        # Of a member that is none of its vendor's this accumulator keeps the last piece.
        assert message.get("reasoning_content") == (THOUGHT[-1] if case in ("reasoning", "signed") else None)
        assert message["refusal"] == (SAID if case == "refusal" else None)
        assert [
            (c["id"], c["type"], c["function"]["name"], json.loads(c["function"]["arguments"] or "{}"))
            for c in message.get("tool_calls") or ()
        ] == [(id_, "function", name, given) for id_, name, given in MADE.get(case, [])]
        words = {"length": "length", "filter": "content_filter", **dict.fromkeys(MADE, "tool_calls")}
        assert got["finish"] == words.get(case, "stop")


class TestResponses:
    """The accumulator raises for ids that change, deltas without their item, and events out of order."""

    def test_text_and_thoughts(self, seen: dict[str, Any]) -> None:
        whole, streamed = seen["whole"], seen["streamed"]
        assert (whole["status"], whole["text"]) == ("completed", echo("Hi"))
        assert (streamed["status"], streamed["text"]) == ("completed", echo("Hi"))
        assert whole["id"].startswith("resp_")
        assert streamed["kinds"] == ["reasoning", "message"]
        assert streamed["numbers"] == list(range(len(streamed["numbers"])))
        assert streamed["usage"]["output_tokens_details"]["reasoning_tokens"] > 0

    @pytest.mark.fault("F26")
    def test_tools_and_their_results(self, seen: dict[str, Any]) -> None:
        calls = [(c["type"], c.get("namespace"), c["name"]) for c in seen["calls"]]
        time = ("function_call", None, "time")
        assert calls == [time, time, ("function_call", "mcp__clock", "now")]
        assert {c["text"] for c in seen["calls"]} == {'{"zone":"UTC"}'}
        assert seen["answered"]["text"].count('answered "noon"') == 2

    @pytest.mark.fault("F10", "F15", "F31")
    def test_ends(self, seen: dict[str, Any], back: Served) -> None:
        assert seen["cutOff"]["status"] == "incomplete"
        assert echo("Hi").startswith(seen["cutOff"]["text"])
        assert (len(seen["aborted"]["pieces"]), seen["aborted"]["ended"]) == (2, None)
        back.idle()
        assert seen["failed"] == "response.failed"
        assert (seen["unknown"]["type"], seen["unknown"]["status"]) == ("NotFoundError", 404)
        assert (seen["previous"]["type"], seen["previous"]["status"]) == ("BadRequestError", 400)


class TestAnthropic:
    def test_streams_and_their_ends(self, seen: dict[str, Any], back: Served) -> None:
        assert (seen["text"], seen["finish"]) == (echo("Hi"), "end_turn")
        assert seen["usage"]["output_tokens"] > 10
        check_ends(seen, back)

    def test_it_calls_functions_until_there_is_nothing_left_to_call(self, seen: dict[str, Any]) -> None:
        nameless = ANSWERED.replace("weather", "The tool")  # a result of this protocol names no tool
        assert seen["ran"] == {"text": nameless, "called": [ARGUMENTS, ARGUMENTS]}

    @pytest.mark.fault("F10", "F11", "F26")
    @pytest.mark.parametrize("case", CASES)
    def test_its_accumulator_assembles_every_stream(self, seen: dict[str, Any], case: str) -> None:
        got = seen["cases"][case]
        if case in ("error", "cut"):
            assert got["type"] == {"error": "APIError", "cut": "AnthropicError"}[case]
            return
        blocks = [(b["type"], b.get("text") or b.get("thinking") or b.get("input")) for b in got["content"]]
        text = [("text", '{"city":"Köln"}' if case == "schema" else SAID)]
        thinks = [("thinking", THOUGHT)] if case in ("reasoning", "signed") else []
        calls = [("tool_use", given or None) for _, _, given in MADE.get(case, [])]
        said = [] if case in ("no_arguments", "parallel", "signed") else text
        assert [(kind, value or None) for kind, value in blocks] == [*thinks, *said, *calls]
        words = {"length": "max_tokens", "filter": "refusal", "refusal": "refusal", **dict.fromkeys(MADE, "tool_use")}
        assert got["finish"] == words.get(case, "end_turn")


class TestGoogle:
    @pytest.mark.promise(157, 158, 159)
    def test_text_and_thoughts(self, seen: dict[str, Any]) -> None:
        assert (seen["whole"], seen["text"], seen["thought"]) == (echo("Hi"), echo("Hi"), thought("Hi"))
        assert seen["finish"] == ["STOP"]
        assert seen["usage"]["totalTokenCount"] == 1 + seen["usage"]["candidatesTokenCount"]
        assert seen["count"] >= 3

    def test_a_chat_with_tools(self, seen: dict[str, Any]) -> None:
        assert [(call["name"], call["args"]) for call in seen["called"]] == [("weather", ARGUMENTS)] * 2
        assert len({call["id"] for call in seen["called"]}) == 2
        assert seen["answered"] == ANSWERED

    @pytest.mark.fault("F11")
    def test_failures(self, seen: dict[str, Any]) -> None:
        assert "".join(seen["broken"]["pieces"]) == BROKEN
        assert seen["broken"]["ended"]["type"] == "ApiError"
        assert (seen["unknown"]["type"], seen["unknown"]["status"]) == ("ApiError", 404)


class TestCohere:
    def test_text_and_thinking(self, seen: dict[str, Any]) -> None:
        assert (seen["whole"], seen["text"], seen["thought"]) == (echo("Hi"), echo("Hi"), thought("Hi"))
        assert (seen["finish"], seen["ended"]) == ("COMPLETE", "COMPLETE")
        assert seen["usage"]["tokens"]["inputTokens"] == 1

    def test_tools(self, seen: dict[str, Any]) -> None:
        made = [(c["function"]["name"], json.loads(c["function"]["arguments"])) for c in seen["called"]]
        streamed = [(c["name"], json.loads(c["arguments"])) for c in seen["streamed"]]
        assert made == streamed == [("weather", ARGUMENTS)] * 2
        assert seen["answered"] == ANSWERED

    @pytest.mark.promise(160, 161, 162)
    def test_the_first_version(self, seen: dict[str, Any]) -> None:
        assert seen["first"] == {"text": echo("Hi"), "ended": "COMPLETE", "whole": echo("Hi")}

    @pytest.mark.fault("F11")
    def test_failures(self, seen: dict[str, Any]) -> None:
        assert ("".join(seen["broken"]["pieces"]), seen["broken"]["ended"]) == (BROKEN, None)
        assert (seen["unknown"]["type"], seen["unknown"]["status"]) == ("NotFoundError", 404)


MADE: Final[dict[str, list[tuple[str, str, dict[str, Any]]]]] = {
    "tool": [("call_1", "weather", {"city": "Köln"})],
    "no_arguments": [("call_0", "weather", {})],
    "parallel": [("call_0", "weather", {"city": "Köln"}), ("call_1", "time", {"zone": "CET"})],
    "signed": [("call_1", "weather", {"city": "Köln"})],
}
"""The calls of each case."""


@pytest.mark.fault("F25")
@pytest.mark.parametrize("sdk", KEPT)
def test_what_was_signed_comes_back_through_the_sdk(
    sdk: str, everything: dict[str, Any], shown: dict[str, Loopback]
) -> None:
    """The SDK's accumulator keeps the turn, the program sends it back, and the signature is there, beside its text."""
    assert everything[sdk]["again"] is None
    talk = next(r for r in reversed(shown[KEPT[sdk]].requests) if len(r.messages) > 1).messages
    (reasoned,) = [p for m in talk for p in m.parts if isinstance(p, Reasoning)]
    assert (reasoned.text, reasoned.signature) == (THOUGHT, SIGNATURE)
    (called,) = [p for m in talk for p in m.parts if isinstance(p, ToolCall)]
    (result,) = [p for m in talk for p in m.parts if isinstance(p, ToolResult)]
    assert (called.id, json.loads(called.arguments)) == (result.id, {"city": "Köln"})


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
        cache = {"npm_config_cache": str(tmp_path / "cache")}
        monkeypatch.setattr(node, "ENVIRONMENT", {**node.ENVIRONMENT, **silence, **cache})
        with pytest.raises(node.NoPackages, match=r"\(it did not end within 0\.5 s\)$"):
            node.install(0.5)

"""The promised frames when a real engine process makes the text: OpenAI's and Ollama's, good ends and bad ones."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import ollama
import openai
import pytest

from tests.engine.client import asking, connected
from tests.engine.lab import Lab, lab
from tests.engine.words import events, lines, talk
from tests.local.asking import install, pid_of
from tests.tiny_gguf import TEXT

pytestmark = pytest.mark.anyio

CHAT: Final = "/v1/chat/completions"
OLLAMA: Final = ("chat", "generate")
PREFIXES: Final = (("/api", "application/x-ndjson"), ("/ollama/api", "application/json"))
NDJSON: Final = pytest.mark.parametrize(("prefix", "media"), PREFIXES)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, files: dict[str, Path]) -> Iterator[Lab]:
    with lab(tmp_path_factory.mktemp("wire"), "[local]\nmax_models = 3\n", scripted=False) as made:
        for name in ("tiny", "plain", "loop"):
            install(made.inside.services.local.registry, name, files[name])
        yield made


def wish(kind: str, model: str, **options: Any) -> dict[str, Any]:
    """An Ollama request of this kind; it streams unless told otherwise."""
    said: dict[str, Any] = {"prompt": "hi"} if kind == "generate" else {"messages": [{"role": "user", "content": "hi"}]}
    return {"model": model, **said, "options": options}


def text_of(kind: str, line: dict[str, Any]) -> str:
    said = line["response"] if kind == "generate" else line["message"]["content"]
    assert isinstance(said, str)
    return said


@pytest.mark.promise(1, 2, 3, 6, 7, 8, 9, 10, 31)
@pytest.mark.parametrize("model", ["tiny", "plain"])  # with a chat template, and with role prefixes
@pytest.mark.parametrize(("tokens", "reason", "said"), [(99, "stop", TEXT), (3, "length", "Hello from a")])
async def test_openai_frames(server: Lab, model: str, tokens: int, reason: str, said: str) -> None:
    async with asking(server.port, CHAT, talk(model, max_tokens=tokens)) as answer:
        assert answer.status == 200
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        body = await answer.rest()
    *frames, end = body.removesuffix(b"\n\n").split(b"\n\n")
    assert end == b"data: [DONE]"
    assert all(frame.startswith(b"data: {") and b"\n" not in frame for frame in frames)
    chunks = [json.loads(frame[6:]) for frame in frames]
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert deltas[0] == {"role": "assistant"}
    assert all(set(delta) == {"content"} for delta in deltas[1:-1])
    assert "".join(delta["content"] for delta in deltas[1:-1]) == said
    assert len(deltas) > 3
    assert (deltas[-1], chunks[-1]["choices"][0]["finish_reason"]) == ({}, reason)


@pytest.mark.promise(1, 174)
async def test_text_comes_as_it_is_made(server: Lab) -> None:
    """The endless model is cancelled in mid-stream, so nothing was held back for its end."""
    async with connected(server.port) as client:
        answer = await client.ask("POST", CHAT, talk("loop", max_tokens=2000))
        await answer.until(b"Hello")
        assert not answer.ended
        client.leave()
    await server.idle()


@pytest.mark.promise(4, 5)
async def test_openai_failure_is_the_last_frame(server: Lab) -> None:
    body = await broken(server, CHAT, talk("loop", max_tokens=2000))
    seen = events(body)
    assert "died (SIGKILL)" in seen[-1][1]["error"]["message"]
    assert b"[DONE]" not in body
    assert body.count(b'"error"') == 1
    assert b'"finish_reason":"' not in body


@pytest.mark.promise(11, 12, 14, 15, 16, 17, 20, 21, 31)
@NDJSON
@pytest.mark.parametrize("kind", OLLAMA)
@pytest.mark.parametrize(
    ("options", "reason", "said"), [({}, "stop", TEXT), ({"num_predict": 3}, "length", "Hello from a")]
)
async def test_ollama_frames(
    server: Lab, prefix: str, media: str, kind: str, options: dict[str, int], reason: str, said: str
) -> None:
    async with asking(server.port, f"{prefix}/{kind}", wish(kind, "tiny", **options)) as answer:
        assert (answer.status, answer.headers["content-type"]) == (200, media)
        body = await answer.rest()
    assert b"data:" not in body
    *pieces, last = lines(body)
    assert len(pieces) > 2
    assert all(not piece["done"] and piece["model"] == "tiny" for piece in pieces)
    assert "".join(text_of(kind, piece) for piece in pieces) == said
    assert (last["done"], last["done_reason"], text_of(kind, last)) == (True, reason, "")
    if kind == "chat":
        assert {piece["message"]["role"] for piece in (*pieces, last)} == {"assistant"}
    assert last["prompt_eval_count"] == 21
    assert min(last[name] for name in ("total_duration", "prompt_eval_duration", "eval_duration", "eval_count")) > 0


@pytest.mark.promise(18, 19)
@pytest.mark.parametrize("kind", OLLAMA)
async def test_ollama_failure_is_the_last_line(server: Lab, kind: str) -> None:
    seen = lines(await broken(server, f"/api/{kind}", wish(kind, "loop")))
    assert "died (SIGKILL)" in seen[-1]["error"]
    assert all("error" not in line and not line["done"] for line in seen[:-1])


@pytest.mark.promise(22)
async def test_both_chat_routes_render_one_prompt(server: Lab) -> None:
    async with asking(server.port, CHAT, talk("tiny", stream=False)) as answer:
        counted = (await answer.json())["usage"]["prompt_tokens"]
    async with asking(server.port, "/api/chat", {**wish("chat", "tiny"), "stream": False}) as answer:
        assert (await answer.json())["prompt_eval_count"] == counted


async def broken(server: Lab, path: str, body: dict[str, Any]) -> bytes:
    """A stream whose engine process is killed in mid-air; it has answered before, so the next starts soon."""
    local = server.inside.services.local
    async with asking(server.port, path, {**body, "max_tokens": 1, "options": {"num_predict": 1}}) as answer:
        await answer.rest()
    async with asking(server.port, path, body) as answer:
        await answer.until(b"Hello")
        os.kill(server.on_loop(lambda: pid_of(local, "loop")), signal.SIGKILL)
        seen = await answer.rest()
    await server.idle()
    server.on_loop(local.pool._crashes.clear)
    return seen


@pytest.mark.promise(49)
async def test_openais_client_reads_it(server: Lab) -> None:
    def read() -> tuple[str, str | None]:
        with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
            stream = client.chat.completions.create(
                model="tiny", messages=[{"role": "user", "content": "hi"}], stream=True
            )
            choices = [choice for chunk in stream for choice in chunk.choices]
        return "".join(choice.delta.content or "" for choice in choices), choices[-1].finish_reason

    assert await asyncio.to_thread(read) == (TEXT, "stop")


@pytest.mark.promise(49)
async def test_ollamas_client_reads_it(server: Lab) -> None:
    def read() -> tuple[str, str, str | None]:
        with ollama.Client(server.url) as client:
            said = client.chat("tiny", messages=[{"role": "user", "content": "hi"}], stream=True)
            chat = "".join(part.message.content or "" for part in said)
            generated = list(client.generate("tiny", prompt="hi", stream=True))
        return chat, "".join(part.response for part in generated), generated[-1].done_reason

    assert await asyncio.to_thread(read) == (TEXT, TEXT, "stop")

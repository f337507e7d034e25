"""The words of the three dialects, as a client reads them, and those of an OpenAI upstream, as a test says them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from tests.fakes import SSE, Asked


class Speaks(NamedTuple):
    """One dialect from the client's side.

    path: of its chat.  opening: what a stream says exactly once.  keep_alive: what is sent while waiting.
    text: of a stream so far.  whole: of a document.  failed: the message of the in-stream error, None without one.
    finished: the success terminator is there.  refused: the message in the body of an HTTP error.
    """

    name: str
    path: str
    media: str
    opening: bytes
    keep_alive: bytes | None
    text: Callable[[bytes], str]
    whole: Callable[[Any], str]
    failed: Callable[[bytes], str | None]
    finished: Callable[[bytes], bool]
    refused: Callable[[Any], str]


def talk(model: str, *, stream: bool = True, **more: Any) -> dict[str, Any]:
    """A request that all three dialects take."""
    return {"model": model, "messages": [{"role": "user", "content": "hi"}], "stream": stream, "max_tokens": 99, **more}


def events(body: bytes) -> list[tuple[str, Any]]:
    """Name and data of each whole event of an event stream; `[DONE]` as the text that it is."""
    found = []
    for block in body.decode().split("\n\n")[:-1]:
        lines = [line for line in block.split("\n") if not line.startswith(":")]
        data = "\n".join(line[6:] for line in lines if line.startswith("data: "))
        name = "".join(line[7:] for line in lines if line.startswith("event: "))
        if data:
            found.append((name, data if data == "[DONE]" else json.loads(data)))
    return found


def lines(body: bytes) -> list[Any]:
    """Each whole line of NDJSON."""
    return [json.loads(line) for line in body.split(b"\n")[:-1]]


def _openai_text(body: bytes) -> str:
    choices = [c for _, e in events(body) if e != "[DONE]" for c in e.get("choices", ())]
    return "".join(c["delta"].get("content") or "" for c in choices)


def _anthropic_text(body: bytes) -> str:
    return "".join(e["delta"].get("text", "") for name, e in events(body) if name == "content_block_delta")


def _ollama_text(body: bytes) -> str:
    return "".join(line["message"]["content"] for line in lines(body) if "message" in line)


def _sse_failure(body: bytes) -> str | None:
    said = [e["error"]["message"] for _, e in events(body) if e != "[DONE]" and "error" in e]
    assert len(said) <= 1, "an error is told once"
    assert not said or "error" in events(body)[-1][1], "nothing follows an error"
    return said[0] if said else None


def _ollama_failure(body: bytes) -> str | None:
    said = [line["error"] for line in lines(body) if "error" in line]
    assert len(said) <= 1, "an error is told once"
    assert not said or "error" in lines(body)[-1], "nothing follows an error"
    return said[0] if said else None


OPENAI: Final = Speaks(
    name="openai_chat",
    path="/v1/chat/completions",
    media="text/event-stream; charset=utf-8",
    opening=b'"role":"assistant"',
    keep_alive=b": ping\n\n",
    text=_openai_text,
    whole=lambda reply: reply["choices"][0]["message"]["content"],
    failed=_sse_failure,
    finished=lambda body: body.endswith(b"data: [DONE]\n\n"),
    refused=lambda reply: reply["error"]["message"],
)
ANTHROPIC: Final = Speaks(
    name="anthropic",
    path="/v1/messages",
    media="text/event-stream; charset=utf-8",
    opening=b"event: message_start",
    keep_alive=b'event: ping\ndata: {"type":"ping"}\n\n',
    text=_anthropic_text,
    whole=lambda reply: reply["content"][0]["text"],
    failed=_sse_failure,
    finished=lambda body: body.endswith(b'event: message_stop\ndata: {"type":"message_stop"}\n\n'),
    refused=lambda reply: reply["error"]["message"],
)
OLLAMA: Final = Speaks(
    name="ollama",
    path="/api/chat",
    media="application/x-ndjson",
    opening=b'"done":true',
    keep_alive=None,
    text=_ollama_text,
    whole=lambda reply: reply["message"]["content"],
    failed=_ollama_failure,
    finished=lambda body: any(line.get("done") for line in lines(body)),
    refused=lambda reply: reply["error"],
)
ALL: Final = (OPENAI, ANTHROPIC, OLLAMA)


# What an OpenAI upstream says.

DONE: Final = b"data: [DONE]\n\n"
KEEP_ALIVE: Final = b": OPENROUTER PROCESSING\n\n"


def data(value: Any) -> bytes:
    return b"data: " + json.dumps(value, separators=(",", ":")).encode() + b"\n\n"


def chunk(delta: Mapping[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return data({"id": "up", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]})


ROLE: Final = chunk({"role": "assistant", "content": ""})
FINISH: Final = chunk({}, "stop")
END: Final = FINISH + DONE
IN_BAND: Final = data({"error": {"message": "the upstream burst", "type": "server_error", "code": None}})


def says(text: str) -> bytes:
    return chunk({"content": text})


def document(text: str) -> bytes:
    """A whole reply."""
    message = {"role": "assistant", "content": text}
    choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
    usage = {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}
    reply = {"id": "up", "object": "chat.completion", "created": 1, "model": "m", "choices": choices, "usage": usage}
    return json.dumps(reply).encode()


def refusal(message: str) -> bytes:
    """The body of an HTTP error."""
    return json.dumps({"error": {"message": message, "type": "server_error", "param": None, "code": None}}).encode()


async def begin(asked: Asked, *pieces: bytes) -> None:
    """The head of a stream, and these pieces in one write each."""
    await asked.head(200, SSE)
    for piece in pieces:
        await asked.send(piece)


def provider(name: str, url: str, *, dialect: str = "openai_chat", more: str = "", **clocks: float) -> str:
    """A provider's table of the configuration; its requests come to /NAME/v1/...  `more`: further lines of it."""
    table = f'[providers.{name}]\ndialect = "{dialect}"\nbase_url = "{url}/{name}/v1"\n{more}'
    narrower = "".join(f"{clock} = {value}\n" for clock, value in clocks.items())
    return table + (f"[providers.{name}.timeouts]\n{narrower}" if narrower else "")


def model(name: str, *providers: str) -> str:
    """A model's table: one candidate at each of these providers."""
    names = ", ".join(json.dumps(f"{p}/m") for p in providers)
    return f"[models.{name}]\nendpoints = [{names}]\n"


PLAIN: Final = "[resilience]\nretries = 0\ncooldown = false\n"
"""No second try and no cooldown: what a test shows does not depend on what came before it."""

"""A fake provider that speaks OpenAI's protocol: what a user says to it decides how it answers."""

from __future__ import annotations

import json
from typing import Any, Final

from tests.fakes import JSON, SSE, Asked

MODEL: Final = "kimi-k2.6"
USAGE: Final = {"prompt_tokens": 12, "completion_tokens": 3_400, "total_tokens": 3_412}
CALL: Final = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "almanac", "arguments": ""}}


def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    body = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": MODEL, "choices": [choice]}
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def end() -> bytes:
    used = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": MODEL, "choices": [], "usage": USAGE}
    return chunk({}, "stop") + b"data: " + json.dumps(used).encode() + b"\n\ndata: [DONE]\n\n"


def arguments(piece: str) -> dict[str, Any]:
    return {"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}


def last_said(body: bytes) -> str:
    """The last line of the newest message of the user's: one that got no answer is sent together with the next."""
    content = [m for m in json.loads(body)["messages"] if m["role"] == "user"][-1]["content"]
    text = content if isinstance(content, str) else "\n".join(p.get("text", "") for p in content)
    return str(text).splitlines()[-1]


async def kimi(asked: Asked) -> None:
    """The script of a `FakeUpstream`."""
    if asked.path.endswith("/models"):
        await asked.answer(
            200, JSON, json.dumps({"object": "list", "data": [{"id": MODEL, "object": "model"}]}).encode()
        )
        return
    said = last_said(asked.body)
    if said == "refuse":
        await asked.answer(400, JSON, b'{"error": {"message": "no such thing", "type": "invalid_request_error"}}')
    elif said == "reset":
        asked.reset()
    elif said == "silence":
        await asked.head(200, SSE)
        await asked.gone()
    elif said == "break":
        await asked.head(200, SSE)
        await asked.send(chunk({"role": "assistant", "content": "half an answer"}))
        asked.cut()
    elif said == "tools":
        await asked.head(200, SSE)
        await asked.send(chunk({"role": "assistant", "reasoning_content": "The almanac knows."}))
        await asked.send(chunk({"tool_calls": [CALL]}))
        for piece in ('{"place":', '"Faro"}'):
            await asked.send(chunk(arguments(piece)))
        await asked.send(chunk({"content": "Two tides."}))
        await asked.end(end())
    else:
        await asked.head(200, SSE)
        await asked.end(chunk({"role": "assistant", "content": f"You said {said}."}) + end())

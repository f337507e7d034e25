"""Reasoning that a vendor's model signed, on its way through a client of any dialect and back.

    upstream -> neutral -> the client's reply -> what the client sends back -> neutral -> the upstream's next request

It returns to its maker to the byte, goes to nobody else, and is never text (F25).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import pytest

from rivermouth.dialects import discover
from rivermouth.ir.events import (
    ArgsDelta,
    Event,
    Finish,
    PartEnd,
    PartKind,
    PartStart,
    Reason,
    ReasoningDelta,
    Signature,
    Start,
    TextDelta,
)
from rivermouth.ir.fold import fold
from rivermouth.ir.request import Reasoning, Request, Text
from tests.dialects.conformance import answer, arrived, decoded, encoded, generate_route

BLOB: Final = "QUJDREVGR0g="
SEALS: Final[dict[str, str]] = {
    "anthropic": f"anthropic:{BLOB}",
    "gemini": f"gemini:{BLOB}",
    "openai_responses": f"openai:rs_1:{BLOB}",
}
"""The neutral form of what each of these vendors signed."""
TOOL: Final = {"type": "object", "properties": {}}


def _chat(reply: Any) -> dict[str, Any]:
    tools = [{"type": "function", "function": {"name": "f", "parameters": TOOL}}]
    turns = [reply["choices"][0]["message"], {"role": "tool", "tool_call_id": "c1", "content": "done"}]
    return {"messages": [{"role": "user", "content": "Hi"}, *turns], "tools": tools}


def _responses(reply: Any) -> dict[str, Any]:
    done = {"type": "function_call_output", "call_id": "c1", "output": "done"}
    tools = [{"type": "function", "name": "f", "parameters": TOOL}]
    return {"input": [{"role": "user", "content": "Hi"}, *reply["output"], done], "tools": tools}


def _anthropic(reply: Any) -> dict[str, Any]:
    done = {"type": "tool_result", "tool_use_id": "c1", "content": "done"}
    turns = [{"role": "assistant", "content": reply["content"]}, {"role": "user", "content": [done]}]
    tools = [{"name": "f", "input_schema": TOOL}]
    return {"messages": [{"role": "user", "content": "Hi"}, *turns], "tools": tools, "max_tokens": 9}


def _gemini(reply: Any) -> dict[str, Any]:
    done = {"functionResponse": {"id": "c1", "name": "f", "response": {"output": "done"}}}
    turns = [reply["candidates"][0]["content"], {"role": "user", "parts": [done]}]
    tools = [{"functionDeclarations": [{"name": "f", "parameters": {"type": "OBJECT"}}]}]
    return {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}, *turns], "tools": tools}


BACK: Final[dict[str, Callable[[Any], dict[str, Any]]]] = {
    "openai_chat": _chat,
    "openai_responses": _responses,
    "anthropic": _anthropic,
    "gemini": _gemini,
}
"""How a client of each puts what it was given into its next request."""


def thinking(seal: str, *, redacted: bool) -> list[Event]:
    thought: list[Event] = [] if redacted else [ReasoningDelta(0, "hm")]
    return [
        Start("u", "m", 7),
        PartStart(0, PartKind.REASONING, redacted=redacted),
        *thought,
        Signature(0, seal),
        PartEnd(0),
        PartStart(1, PartKind.TEXT),
        TextDelta(1, "So."),
        PartEnd(1),
        PartStart(2, PartKind.TOOL, 0, "c1", "f"),
        ArgsDelta(2, "{}"),
        PartEnd(2),
        Finish(Reason.TOOL_CALLS),
    ]


def returned(client: str, events: list[Event]) -> Request:
    """The next request of a client that was given these events in a reply."""
    dialect = discover()[client]
    reply = json.loads(dialect.encode_reply(fold(events), answer(dialect)))
    body = {"model": "m", **BACK[client](reply)}
    model = "m" if client == "gemini" else None
    return dialect.parse_request(json.dumps(body).encode(), generate_route(dialect), model)


def thoughts(request: Request) -> list[Reasoning]:
    return [p for m in request.messages for p in m.parts if isinstance(p, Reasoning)]


WAYS: Final = [(c, m, r) for c in BACK for m in SEALS for r in (False, True) if (m, r) != ("gemini", True)]
"""Shown and hidden; that vendor's models hide nothing."""


@pytest.mark.parametrize(("client", "maker", "redacted"), WAYS)
@pytest.mark.fault("F25")
def test_it_returns_to_its_maker_and_goes_to_nobody_else(client: str, maker: str, redacted: bool) -> None:
    request = returned(client, thinking(SEALS[maker], redacted=redacted))
    (thought,) = thoughts(request)
    assert (thought.signature, thought.text) == (SEALS[maker], "" if redacted else "hm")
    assert [p.text for m in request.messages for p in m.parts if isinstance(p, Text)] == ["Hi", "So."]
    for name, there in discover().items():
        if name == "openai_completions":
            continue  # it takes no tools
        outgoing = there.build_request(request, "up" if name != "bedrock_invoke" else "anthropic.up")
        if name != client:  # its own dialect gets what the client wrote
            mine = name == maker or (maker == "anthropic" and name.startswith("bedrock_"))
            assert (BLOB.encode() in outgoing.body) is mine, name
        if name == maker:
            back = there.parse_request(outgoing.body, *arrived(there, outgoing.path))
            assert [t.signature for t in thoughts(back)] == [SEALS[maker]]
            if maker == "openai_responses":
                (item,) = [i for i in json.loads(outgoing.body)["input"] if i.get("type") == "reasoning"]
                assert (item["id"], item["encrypted_content"]) == ("rs_1", BLOB)


@pytest.mark.parametrize("maker", SEALS)
@pytest.mark.parametrize("client", [name for name in BACK if name != "gemini"])
@pytest.mark.fault("F25")
def test_a_stream_carries_it_as_the_whole_reply_does(client: str, maker: str) -> None:
    """Gemini's decoder takes every seal for its upstream's own."""
    dialect = discover()[client]
    events = decoded(dialect, encoded(dialect, thinking(SEALS[maker], redacted=False)))
    assert [e.signature for e in events if isinstance(e, Signature)] == [SEALS[maker]]
    assert [e.text for e in events if isinstance(e, TextDelta)] == ["So."]

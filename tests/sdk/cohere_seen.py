"""What Cohere's clients of today (v2) and of before (v1) saw of an answer, in words that can be compared."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, Final, NamedTuple

import cohere
import pytest

from tests.sdk.said import CITY

HI: Any = [{"role": "user", "content": "Hi"}]
BOTH: Any = [{"role": "user", "content": "Try both tools."}]
WEATHER: Any = {"type": "function", "function": {"name": "weather", "description": "Today's", "parameters": CITY}}
TIME: Any = {"type": "function", "function": {"name": "time", "parameters": {"type": "object", "properties": {}}}}
OLD_WEATHER: Any = {
    "name": "weather",
    "description": "Today's",
    "parameter_definitions": {
        "city": {"type": "str", "description": "Which", "required": True},
        "days": {"type": "int", "required": True},
    },
}
OLD_ARGUMENTS: Final = {"city": "", "days": 0}
"""The smallest arguments for what these definitions can say."""
THINK: Any = {"type": "enabled", "token_budget": 1024}


class Seen(NamedTuple):
    """What a client saw of one answer, streamed or whole."""

    text: str
    thinking: str
    calls: list[tuple[str, str, Any]]
    finish: str
    input_tokens: float | None
    output_tokens: float | None
    billed: tuple[float | None, float | None]
    id: str


def _seen(text: str, thinking: str, calls: Any, finish: Any, counts: Any, identity: str) -> Seen:
    tokens, billed = counts.tokens, counts.billed_units
    paid = (billed.input_tokens, billed.output_tokens)
    return Seen(text, thinking, calls, finish, tokens.input_tokens, tokens.output_tokens, paid, identity)


# -- the clients of today ---------------------------------------------------------------------------------------------


def whole(sdk: cohere.ClientV2, **fields: Any) -> Seen:
    return seen_of(sdk.chat(**{"model": "scripted", "messages": HI, **fields}))


def seen_of(reply: Any) -> Seen:
    message = reply.message
    content = message.content or []
    return _seen(
        "".join(b.text for b in content if b.type == "text"),
        "".join(b.thinking for b in content if b.type == "thinking"),
        [(c.id, c.function.name, json.loads(c.function.arguments)) for c in message.tool_calls or []],
        reply.finish_reason,
        reply.usage,
        reply.id,
    )


def streamed(sdk: cohere.ClientV2, **fields: Any) -> Seen:
    return gathered(list(sdk.chat_stream(**{"model": "scripted", "messages": HI, **fields})))


def gathered(events: list[Any]) -> Seen:
    """The events of one stream, each of which has to be of the SDK's own classes and in its place."""
    said = {"text": "", "thinking": ""}
    kinds: dict[int, str] = {}
    calls: list[list[str]] = []
    for event in events:
        match event.type:
            case "content-start":
                assert event.index == len(kinds)
                kinds[event.index] = event.delta.message.content.type
            case "content-delta":
                kind = kinds[event.index]
                said[kind] += getattr(event.delta.message.content, kind)
            case "tool-call-start":
                assert event.index == len(calls)
                call = event.delta.message.tool_calls
                calls.append([call.id, call.function.name, call.function.arguments])
            case "tool-call-delta":
                calls[event.index][2] += event.delta.message.tool_calls.function.arguments
    first, last = events[0], events[-1]
    assert (first.type, first.delta.message.role, last.type) == ("message-start", "assistant", "message-end")
    assert [e.type for e in events].count("content-end") == len(kinds)
    assert [e.type for e in events].count("tool-call-end") == len(calls)
    assert last.delta.error is None
    done = [(identity, name, json.loads(arguments)) for identity, name, arguments in calls]
    return _seen(said["text"], said["thinking"], done, last.delta.finish_reason, last.delta.usage, first.id)


# -- the clients from before ------------------------------------------------------------------------------------------


def old_whole(sdk: cohere.Client, **fields: Any) -> Seen:
    return old_seen_of(sdk.chat(**{"model": "scripted", "message": "Hi", **fields}))


def old_seen_of(reply: Any) -> Seen:
    calls = [(c.id, c.name, c.parameters) for c in reply.tool_calls or []]
    assert (reply.message["content"], reply.id) == (reply.text, reply.response_id)
    return _seen(reply.text, "", calls, reply.finish_reason, reply.meta, reply.response_id)


def old_streamed(sdk: cohere.Client, **fields: Any) -> Seen:
    return old_gathered(list(sdk.chat_stream(**{"model": "scripted", "message": "Hi", **fields})))


def old_gathered(events: list[Any]) -> Seen:
    """The events of one stream; what its last says must be what the others said."""
    assert [e.is_finished for e in events] == [False] * (len(events) - 1) + [True]
    assert (events[0].event_type, events[-1].event_type) == ("stream-start", "stream-end")
    seen = old_seen_of(events[-1].response)
    assert "".join(e.text for e in events if e.event_type == "text-generation") == seen.text
    assert events[-1].finish_reason == seen.finish
    called: dict[int, list[str]] = {}
    for piece in [e.tool_call_delta for e in events if e.event_type == "tool-calls-chunk"]:
        call = called.setdefault(piece.index, ["", ""])
        call[0] += piece.name or ""
        call[1] += piece.parameters or ""
    assert [(n, json.loads(p or "{}")) for n, p in called.values()] == [(n, p) for _, n, p in seen.calls]
    again = [c for e in events if e.event_type == "tool-calls-generation" for c in e.tool_calls]
    assert [(c.name, c.parameters) for c in again] == [(n, p) for _, n, p in seen.calls]
    return seen


WAYS: Final = {"today": (whole, streamed), "before": (old_whole, old_streamed)}
both_ways = pytest.mark.parametrize("ask", [whole, streamed])
both_old_ways = pytest.mark.parametrize("ask", [old_whole, old_streamed])


def ask_of(client: str, text: str = "Hi", **fields: Any) -> dict[str, Any]:
    said = {"messages": [{"role": "user", "content": text}]} if client == "today" else {"message": text}
    return {**said, **fields}


def pieces(sdk: Any, client: str, **fields: Any) -> Iterator[str]:
    """The pieces of text as they come; closing the iterator closes the connection."""
    with closing(sdk.chat_stream(**fields)) as stream:
        for event in stream:
            if client == "today" and event.type == "content-delta":
                yield event.delta.message.content.text
            elif client == "before" and event.event_type == "text-generation":
                yield event.text


@contextmanager
def clients(url: str) -> Iterator[dict[str, Any]]:
    """Both kinds of client for one server, by the words of `WAYS`."""
    where: Any = {"base_url": f"{url}/cohere", "max_retries": 0}
    with cohere.ClientV2("any", **where) as today, cohere.Client("any", **where) as before:
        yield {"today": today, "before": before}


def dropped(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the SDK could not read: it leaves it out, and says so in its log alone."""
    return [r.getMessage() for r in caplog.records if r.name.startswith("cohere")]

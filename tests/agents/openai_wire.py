"""An upstream's side of OpenAI's chat completions: as much of it as a coding agent needs, and as strict as the vendor."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from tests.agents.stream import Piece, Tag, pieces_of
from tests.agents.task import Move, Result, Seen

PATH: Final = "/v1/chat/completions"
FIELDS: Final = frozenset(
    "model messages stream stream_options tools tool_choice parallel_tool_calls max_tokens max_completion_tokens "
    "temperature top_p frequency_penalty presence_penalty seed stop n response_format reasoning_effort verbosity store "
    "metadata user safety_identifier prompt_cache_key prompt_cache_retention service_tier logprobs top_logprobs "
    "logit_bias".split()
)
ROLES: Final = frozenset({"system", "developer", "user", "assistant", "tool"})
STATUSES: Final = {429: ("rate_limit_error", "rate_limit_exceeded"), 503: ("server_error", "server_is_overloaded")}
OVERLOADED: Final = 503
CREATED: Final = 1_700_000_000


def read(body: dict[str, Any]) -> Seen:
    """What a request says."""
    messages: list[dict[str, Any]] = body.get("messages") or []
    assistants = [each for each in messages if each.get("role") == "assistant"]
    made = {call["id"]: call["function"]["arguments"] for each in assistants for call in each.get("tool_calls") or ()}
    tools = [each for each in messages if each.get("role") == "tool"]
    return Seen(
        tools=frozenset(tool["function"]["name"] for tool in body.get("tools") or ()),
        asked="\n".join(_text(each) for each in messages if each.get("role") == "user"),
        said=tuple(_text(each) for each in assistants),
        results=tuple(Result(made.get(each.get("tool_call_id", ""), ""), _text(each)) for each in tools),
        unfinished=_unfinished(messages),
        problems=tuple(_problems(body, messages)),
    )


def _unfinished(messages: list[dict[str, Any]]) -> str:
    roles = [each.get("role") for each in messages]
    last = messages[-2] if roles[-2:] == ["assistant", "user"] else {}
    return "" if last.get("tool_calls") else _text(last)


def _text(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return content or ""


def _problems(body: dict[str, Any], messages: list[dict[str, Any]]) -> Iterator[str]:
    unknown = body.keys() - FIELDS
    if unknown:
        yield f"unknown fields: {sorted(unknown)}"
    if body.get("stream_options") and not body.get("stream"):
        yield "stream_options without stream"
    if not messages:
        yield "no messages"
    open_calls: set[str] = set()
    for number, message in enumerate(messages):
        role = message.get("role")
        if role not in ROLES:
            yield f"messages[{number}]: role {role!r}"
        if role == "tool":
            if message.get("tool_call_id") not in open_calls:
                yield f"messages[{number}]: a result of no open call"
            open_calls.discard(message.get("tool_call_id", ""))
            continue
        if open_calls:
            yield f"messages[{number}]: calls without a result: {sorted(open_calls)}"
        open_calls = set()
        for call in message.get("tool_calls") or ():
            open_calls.add(call["id"])
            if not isinstance(json.loads(call["function"]["arguments"]), dict):
                yield f"messages[{number}]: arguments that are no object"
        if message.get("content") is None and not message.get("tool_calls"):
            yield f"messages[{number}]: neither content nor calls"
    if open_calls:
        yield f"calls without a result: {sorted(open_calls)}"


def stream(move: Move, model: str, number: int, body: dict[str, Any]) -> list[Piece]:
    """The answer as events."""

    def chunk(tag: Tag, delta: dict[str, Any], finish: str | None = None) -> Piece:
        choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
        return Piece(tag, _data({**_head(model, number, "chat.completion.chunk"), "choices": choices}))

    found = [chunk(Tag.OPEN, {"role": "assistant", "content": ""})]
    found += [chunk(Tag.THOUGHTS, {"reasoning_content": text}) for text in pieces_of(move.thoughts)]
    found += [chunk(Tag.TEXT, {"content": text}) for text in pieces_of(move.text)]
    for call in _calls(move, number):
        whole = call["function"].pop("arguments")
        first = {"index": 0, **call, "function": {**call["function"], "arguments": ""}}
        found.append(chunk(Tag.CALL, {"tool_calls": [first]}))
        for text in pieces_of(whole):
            found.append(chunk(Tag.CALL, {"tool_calls": [{"index": 0, "function": {"arguments": text}}]}))
    found.append(chunk(Tag.END, {}, _finish(move)))
    if (body.get("stream_options") or {}).get("include_usage"):
        usage = {**_head(model, number, "chat.completion.chunk"), "choices": [], "usage": _usage()}
        found.append(Piece(Tag.END, _data(usage)))
    return [*found, Piece(Tag.END, b"data: [DONE]\n\n")]


def document(move: Move, model: str, number: int) -> bytes:
    """The answer in one piece."""
    message: dict[str, Any] = {"role": "assistant", "content": move.text or None}
    if move.thoughts:
        message["reasoning_content"] = move.thoughts
    if move.call is not None:
        message["tool_calls"] = _calls(move, number)
    choice = {"index": 0, "message": message, "finish_reason": _finish(move)}
    return json.dumps({**_head(model, number, "chat.completion"), "choices": [choice], "usage": _usage()}).encode()


def failure(status: int, message: str) -> bytes:
    """The body of an error."""
    kind, code = STATUSES.get(status, ("invalid_request_error", None))
    return json.dumps({"error": {"message": message, "type": kind, "param": None, "code": code}}).encode()


def _head(model: str, number: int, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{number}", "object": kind, "created": CREATED, "model": model}


def _calls(move: Move, number: int) -> list[dict[str, Any]]:
    if move.call is None:
        return []
    function = {"name": move.call.name, "arguments": json.dumps(move.call.arguments)}
    return [{"id": f"call_fake{number}", "type": "function", "function": function}]


def _finish(move: Move) -> str:
    return "tool_calls" if move.call is not None else "stop"


def _usage() -> dict[str, Any]:
    return {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}


def _data(value: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"

"""An upstream's side of Anthropic's messages: as much of it as a coding agent needs, and as strict as the vendor."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from typing import Any, Final

from tests.agents.stream import Piece, Tag, pieces_of
from tests.agents.task import Move, Result, Seen

PATH: Final = "/v1/messages"
ROLES: Final = frozenset({"system", "user", "assistant"})
STATUSES: Final = {429: "rate_limit_error", 503: "api_error", 529: "overloaded_error"}
OVERLOADED: Final = 529

Block = dict[str, Any]


def read(body: dict[str, Any]) -> Seen:
    """What a request says."""
    turns = [(each.get("role"), _blocks(each)) for each in body.get("messages") or ()]
    users = [block for role, blocks in turns if role == "user" for block in blocks]
    assistants = [blocks for role, blocks in turns if role == "assistant"]
    uses = [block for blocks in assistants for block in blocks if block["type"] == "tool_use"]
    made = {block["id"]: json.dumps(block["input"]) for block in uses}
    return Seen(
        tools=frozenset(tool["name"] for tool in body.get("tools") or ()),
        asked="\n".join(block["text"] for block in users if block["type"] == "text"),
        said=tuple(_text(blocks) for blocks in assistants),
        results=tuple(
            Result(made.get(block.get("tool_use_id", ""), ""), _text(_blocks(block)))
            for block in users
            if block["type"] == "tool_result"
        ),
        unfinished=_unfinished(turns),
        problems=tuple(_problems(body, turns)),
    )


def _unfinished(turns: list[tuple[Any, list[Block]]]) -> str:
    plain = [turn for turn in turns if turn[0] != "system"]
    roles = [role for role, _ in plain]
    last = plain[-2][1] if roles[-2:] == ["assistant", "user"] else []
    return "" if any(block["type"] == "tool_use" for block in last) else _text(last)


def _blocks(holder: dict[str, Any]) -> list[Block]:
    content = holder.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return content or []


def _text(blocks: list[Block]) -> str:
    return "".join(block["text"] for block in blocks if block["type"] == "text")


def _problems(body: dict[str, Any], turns: list[tuple[Any, list[Block]]]) -> Iterator[str]:
    if not isinstance(body.get("max_tokens"), int) or body["max_tokens"] < 1:
        yield "max_tokens is required"
    if not turns or turns[0][0] != "user":
        yield "the first message is not the user's"
    waiting: set[str] = set()
    for number, (role, blocks) in enumerate(turns):
        if role not in ROLES:
            yield f"messages[{number}]: role {role!r}"
        given = {block.get("tool_use_id") for block in blocks if block["type"] == "tool_result"}
        if role == "user" and given != waiting:
            yield f"messages[{number}]: results of {sorted(map(str, given))} where {sorted(waiting)} are wanted"
        for block in blocks:
            if block["type"] == "text" and not block["text"]:
                yield f"messages[{number}]: an empty text"
            if block["type"] == "thinking" and block.get("signature") != signature(block["thinking"]):
                yield f"messages[{number}]: a thought with the signature {block.get('signature')!r}"
        if role != "system":
            waiting = {block["id"] for block in blocks if block["type"] == "tool_use"}
    if waiting:
        yield f"calls without a result: {sorted(waiting)}"


def signature(thoughts: str) -> str:
    """As the vendor does: of the thoughts, and no one else can make it."""
    return base64.b64encode(hashlib.sha256(b"the vendor's secret" + thoughts.encode()).digest()).decode()


def stream(move: Move, model: str, number: int, body: dict[str, Any]) -> list[Piece]:
    """The answer as events."""
    del body
    start = {**_head(model, number), "content": [], "stop_reason": None, "stop_sequence": None}
    found = [_event(Tag.OPEN, "message_start", message={**start, "usage": {"input_tokens": 100, "output_tokens": 1}})]
    found.append(_event(Tag.OPEN, "ping"))
    for index, (tag, begins, deltas) in enumerate(_parts(move, number)):
        found.append(_event(Tag.OPEN, "content_block_start", index=index, content_block=begins))
        found += [_event(tag, "content_block_delta", index=index, delta=delta) for delta in deltas]
        found.append(_event(Tag.OPEN, "content_block_stop", index=index))
    stop = {"stop_reason": _stop(move), "stop_sequence": None}
    found.append(_event(Tag.END, "message_delta", delta=stop, usage={"output_tokens": 20}))
    return [*found, _event(Tag.END, "message_stop")]


def _parts(move: Move, number: int) -> Iterator[tuple[Tag, Block, list[dict[str, Any]]]]:
    """Each block: what its pieces carry, how it begins, and its deltas."""
    if move.thoughts:
        deltas = [{"type": "thinking_delta", "thinking": text} for text in pieces_of(move.thoughts)]
        signed = {"type": "signature_delta", "signature": signature(move.thoughts)}
        yield Tag.THOUGHTS, {"type": "thinking", "thinking": "", "signature": ""}, [*deltas, signed]
    if move.text:
        yield (
            Tag.TEXT,
            {"type": "text", "text": ""},
            [{"type": "text_delta", "text": text} for text in pieces_of(move.text)],
        )
    if move.call is not None:
        arguments = pieces_of(json.dumps(move.call.arguments))
        yield Tag.CALL, _use(move, number, {}), [{"type": "input_json_delta", "partial_json": text} for text in arguments]


def document(move: Move, model: str, number: int) -> bytes:
    """The answer in one piece."""
    content: list[Block] = []
    if move.thoughts:
        content.append({"type": "thinking", "thinking": move.thoughts, "signature": signature(move.thoughts)})
    if move.text:
        content.append({"type": "text", "text": move.text})
    if move.call is not None:
        content.append(_use(move, number, move.call.arguments))
    ends = {"stop_reason": _stop(move), "stop_sequence": None, "usage": {"input_tokens": 100, "output_tokens": 20}}
    return json.dumps({**_head(model, number), "content": content, **ends}).encode()


def failure(status: int, message: str) -> bytes:
    """The body of an error."""
    kind = STATUSES.get(status, "invalid_request_error")
    return json.dumps({"type": "error", "error": {"type": kind, "message": message}}).encode()


def _head(model: str, number: int) -> dict[str, Any]:
    return {"id": f"msg_fake{number}", "type": "message", "role": "assistant", "model": model}


def _use(move: Move, number: int, given: dict[str, Any]) -> Block:
    assert move.call is not None
    return {"type": "tool_use", "id": f"toolu_fake{number}", "name": move.call.name, "input": given}


def _stop(move: Move) -> str:
    return "tool_use" if move.call is not None else "end_turn"


def _event(tag: Tag, name: str, **members: Any) -> Piece:
    return Piece(tag, f"event: {name}\ndata: {json.dumps({'type': name, **members})}\n\n".encode())

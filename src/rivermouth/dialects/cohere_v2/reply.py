"""Whole answers, both ways."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from rivermouth.dialects.cohere_v2.tables import (
    ERROR,
    FAILED,
    FILTERED,
    NAME,
    REASONS,
    finish_reason_of,
    reason_of,
)
from rivermouth.dialects.cohere_v2.turns import Call, arguments_text
from rivermouth.dialects.dialect import Answer
from rivermouth.ir.call_ids import call_id
from rivermouth.ir.errors import Kind, WireError
from rivermouth.ir.events import PartKind, Reason, Warn
from rivermouth.ir.media import sentence
from rivermouth.ir.names import quoted
from rivermouth.ir.reply import Choice, Reply, ReplyPart
from rivermouth.ir.request import File, Image, Reasoning, Refusal, Text, ToolCall
from rivermouth.vendors.cohere.counts import Counts, read_counts, write_counts
from rivermouth.vendors.cohere.failures import upstream_error, words
from rivermouth.wire import json


class _Block(msgspec.Struct):
    type: str | None = None
    text: str | None = None
    thinking: str | None = None


class _Message(msgspec.Struct):
    content: str | list[_Block] | None = None
    tool_plan: str | None = None
    tool_calls: list[Call] | None = None


class _Reply(msgspec.Struct):
    id: str | None = None
    finish_reason: str | None = None
    message: _Message | str | None = None
    usage: Counts | None = None
    error: Any = None


_reply: Final = json.typed(_Reply)


def encode_reply(reply: Reply, answer: Answer) -> bytes:
    """The reply as one document.  A call without arguments gets the empty object that clients parse."""
    choice = reply.choices[0]
    calls = [p for p in choice.parts if isinstance(p, ToolCall)]
    content = [block for part in choice.parts for block in _block(part)]
    if not content and not calls:
        content = [{"type": "text", "text": ""}]  # clients read the first block without looking
    message: dict[str, Any] = {"role": "assistant", **({"content": content} if content else {})}
    if calls:
        message["tool_calls"] = [_call(call) for call in calls]
    wire = {
        "id": answer.id,
        "finish_reason": finish_reason_of(choice.reason, choice.stop_sequence, called=bool(calls)),
        "message": message,
    }
    if choice.reason is Reason.CONTENT_FILTER:
        wire["error"] = FILTERED
    if reply.usage is not None:
        wire["usage"] = write_counts(reply.usage)
    return json.encode(wire)


def parse_reply(body: bytes) -> Reply:
    """An upstream's reply.  Raises `ApiError` for an error under a good status, `WireError` for anything else."""
    found = json.decode_as(_reply, body)
    word, error = found.finish_reason, words(found.error)
    filtered = word == ERROR and error == FILTERED
    if not filtered and (word in FAILED or error):
        raise upstream_error(NAME, error, FAILED.get(word or "", Kind.UPSTREAM))
    if isinstance(found.message, str):
        raise upstream_error(NAME, found.message)
    if found.message is None:
        raise WireError("a reply without a message")
    parts = _parts(found.message, found.id or "")
    word = word or ""
    called = any(isinstance(p, ToolCall) for p in parts)
    reason = Reason.CONTENT_FILTER if filtered else reason_of(word, called=called)
    known = filtered or not word or word in REASONS
    warning = Warn(f"the upstream's finish_reason {quoted(word)} is not known", "finish_reason")
    return Reply(
        choices=(Choice(tuple(parts), reason),),
        usage=read_counts(found.usage),
        id=found.id,
        warnings=() if known else (warning,),
    )


def _block(part: ReplyPart) -> list[dict[str, Any]]:
    match part:
        case Text() | Refusal():
            return [{"type": "text", "text": part.text}] if part.text else []
        case Reasoning():
            return [{"type": "thinking", "thinking": part.text}] if part.text and not part.redacted else []
        case Image() | File():
            return [{"type": "text", "text": sentence(PartKind.FILE, part.url)}]
        case ToolCall():
            return []


def _call(call: ToolCall) -> dict[str, Any]:
    arguments = call.arguments if call.arguments.strip() else "{}"
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _parts(message: _Message, identity: str) -> list[ReplyPart]:
    content = message.content
    blocks = [_Block("text", content)] if isinstance(content, str) else content or []
    parts: list[ReplyPart] = []
    for block in blocks:
        parts += [Reasoning(block.thinking)] if block.thinking else []
        parts += [Text(block.text)] if block.text else []
    if message.tool_plan:
        parts.append(Text(message.tool_plan))
    taken: set[str] = set()
    for number, call in enumerate(message.tool_calls or ()):
        if not call.function.name:
            raise WireError("a tool call without a name")
        given = call_id(call.id, identity, number, taken)
        parts.append(ToolCall(given, call.function.name, arguments_text(call.function.arguments)))
    return parts

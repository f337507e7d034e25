"""A whole answer, both directions; it says what the same answer's stream would say."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from rivermouth.dialects.anthropic import usage as counts
from rivermouth.dialects.anthropic.errors import parse_stream_error
from rivermouth.dialects.anthropic.opaque import (
    signature_from_wire,
    signature_to_wire,
    tool_id_from_wire,
    tool_id_to_wire,
)
from rivermouth.dialects.anthropic.tables import REASONS, reason_of, stop_reason_of
from rivermouth.dialects.dialect import Answer
from rivermouth.ir.errors import WireError
from rivermouth.ir.events import Warn
from rivermouth.ir.media import sentence_for
from rivermouth.ir.names import quoted
from rivermouth.ir.reply import Choice, Reply, ReplyPart
from rivermouth.ir.request import File, Image, Reasoning, Refusal, Text, ToolCall
from rivermouth.wire import arguments, json


class _Block(msgspec.Struct):
    type: str
    text: str = ""
    thinking: str = ""
    signature: str | None = None
    data: str | None = None
    id: str | None = None
    name: str | None = None
    input: Any = None


class _Head(msgspec.Struct):
    type: str | None = None
    error: Any = None
    content: list[json.Raw] | None = None
    id: str | None = None
    model: str | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None
    usage: counts.Counts | None = None


class _Typed(msgspec.Struct):
    type: str


_head: Final = json.typed(_Head)
_block: Final = json.typed(_Block)
_typed: Final = json.typed(_Typed)
_READ: Final = frozenset({"text", "thinking", "redacted_thinking", "tool_use"})


def encode_reply(reply: Reply, answer: Answer) -> bytes:
    """The `message` object; of several choices the first."""
    choice = reply.choices[0]
    called = any(isinstance(p, ToolCall) for p in choice.parts)
    refused = any(isinstance(p, Refusal) for p in choice.parts)
    reason = stop_reason_of(choice.reason, choice.stop_sequence, called=called, refused=refused)
    return json.encode(
        {
            "id": f"msg_{answer.id}",
            "type": "message",
            "role": "assistant",
            "model": answer.model,
            "content": [block for part in choice.parts for block in _encode_part(part)],
            "stop_reason": reason,
            "stop_sequence": choice.stop_sequence if reason == "stop_sequence" else None,
            "usage": counts.to_wire(reply.usage, estimate=answer.input_estimate),
        }
    )


def parse_reply(body: bytes) -> Reply:
    """An upstream's `message`.  Raises `ApiError` for an error under a good status, `WireError` for anything else."""
    head = json.decode_as(_head, body)
    if head.type == "error" or (head.content is None and head.error is not None):
        raise parse_stream_error(body)
    if head.content is None:
        raise WireError("a reply without content")
    parts: list[ReplyPart] = []
    for number, raw in enumerate(head.content):
        parts += _parse_block(raw, f"toolu_{(head.id or 'call').removeprefix('msg_')}_{number}")
    word = head.stop_reason or ""
    known = word in REASONS or not word
    warning = Warn(f"the upstream's stop_reason {quoted(word)} is not known", "stop_reason")
    return Reply(
        choices=(
            Choice(
                tuple(parts),
                reason_of(word, called=any(isinstance(p, ToolCall) for p in parts)),
                head.stop_sequence if word == "stop_sequence" else None,
            ),
        ),
        usage=counts.to_neutral(head.usage) if head.usage else None,
        id=head.id,
        model=head.model,
        warnings=() if known else (warning,),
    )


def _encode_part(part: ReplyPart) -> list[dict[str, Any]]:
    match part:
        case Text() | Refusal():
            return [{"type": "text", "text": part.text}] if part.text else []
        case Reasoning():
            return _encode_reasoning(part)
        case ToolCall():
            given = msgspec.Raw(arguments.to_object(part.arguments))
            return [{"type": "tool_use", "id": tool_id_to_wire(part.id), "name": part.name, "input": given}]
        case Image() | File():
            return [{"type": "text", "text": sentence_for(part)}]


def _encode_reasoning(part: Reasoning) -> list[dict[str, Any]]:
    if part.redacted:
        hidden = part.signature is not None
        return (
            [{"type": "redacted_thinking", "data": signature_to_wire(part.signature, redacted=True)}] if hidden else []
        )
    if not part.text and part.signature is None:
        return []
    return [{"type": "thinking", "thinking": part.text, "signature": signature_to_wire(part.signature)}]


def _parse_block(raw: json.Raw, spare_id: str) -> list[ReplyPart]:
    """The block as a part; empty ones and those the neutral model does not have are none."""
    if json.decode_as(_typed, raw).type not in _READ:
        return []
    block = json.decode_as(_block, raw)
    match block.type:
        case "text":
            return [Text(block.text)] if block.text else []
        case "thinking":
            signature = signature_from_wire(block.signature)
            return [Reasoning(block.thinking, signature)] if block.thinking or signature else []
        case "redacted_thinking":
            signature = signature_from_wire(block.data)
            return [Reasoning(signature=signature, redacted=True)] if signature else []
        case _:
            if not block.name:
                raise WireError("a tool_use block without a name")
            text = json.encode(block.input).decode() if block.input else ""
            return [ToolCall(tool_id_from_wire(block.id or "") or spare_id, block.name, text)]

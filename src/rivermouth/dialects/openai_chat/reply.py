"""Whole replies, both ways.  Reading goes through the stream's decoder, so that the two cannot differ."""

from __future__ import annotations

from typing import Any, Final

from rivermouth.dialects.dialect import Answer
from rivermouth.dialects.openai_chat.decoder import Decoder
from rivermouth.dialects.openai_chat.encoder import (
    custom_tools,
    finish_word,
    media_entry,
    reasoning_detail,
    uses_functions,
)
from rivermouth.dialects.openai_chat.opaque import Thought
from rivermouth.dialects.openai_chat.shapes import Chunk
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.events import Event, PartKind
from rivermouth.ir.fold import fold
from rivermouth.ir.reply import Choice, Reply, ReplyPart
from rivermouth.ir.request import File, Image, Reasoning, Refusal, Text, ToolCall
from rivermouth.vendors.openai import free_form
from rivermouth.vendors.openai.usage import write_usage
from rivermouth.wire import json
from rivermouth.wire.frame import Frame

_chunk: Final = json.typed(Chunk)


def read_reply(body: bytes) -> list[Event]:
    """An upstream's reply.  Raises `ApiError` if it holds no choice, `WireError` if it is no reply."""
    chunk = json.decode_as(_chunk, body)
    if not chunk.error and chunk.object != "error" and not chunk.choices:
        raise ApiError(Kind.UPSTREAM, "the upstream's reply holds no choices", code="empty")
    return Decoder().whole(chunk, Frame("", body))


def parse_reply(body: bytes) -> Reply:
    """The same as a value.  Raises `ApiError` if it is an error or holds no choice, `WireError` if it is no reply."""
    return fold(read_reply(body))


def encode_reply(reply: Reply, answer: Answer) -> bytes:
    """The reply as one document, the routing block beside `choices` (60)."""
    legacy = uses_functions(answer.request)
    custom = custom_tools(answer.request)
    wire: dict[str, Any] = {
        "id": f"chatcmpl-{answer.id}",
        "object": "chat.completion",
        "created": answer.created_ns // 1_000_000_000,
        "model": answer.model,
        "choices": [_choice(i, choice, custom, legacy=legacy) for i, choice in enumerate(reply.choices)],
        "usage": write_usage(reply.usage),
    }
    if answer.routing is not None:
        key, block = answer.routing
        wire[key] = block
    return json.encode(wire)


def _choice(index: int, choice: Choice, custom: frozenset[str], *, legacy: bool) -> dict[str, Any]:
    calls = [p for p in choice.parts if isinstance(p, ToolCall)]
    return {
        "index": index,
        "message": _message(choice, calls, custom, legacy=legacy),
        "logprobs": None,
        "finish_reason": finish_word(choice.reason, calls=len(calls), legacy=legacy),
    }


def _message(choice: Choice, calls: list[ToolCall], custom: frozenset[str], *, legacy: bool) -> dict[str, Any]:
    parts = choice.parts
    refusal = "".join(p.text for p in parts if isinstance(p, Refusal))
    message: dict[str, Any] = {"role": "assistant", "content": choice.text or None, "refusal": refusal or None}
    if message["content"] is None and not calls and not refusal:
        message["content"] = ""
    thoughts = [p for p in parts if isinstance(p, Reasoning)]
    thought = "".join(p.text for p in thoughts)
    if thought:
        message["reasoning_content"] = thought
    if any(p.signature is not None for p in thoughts):
        message["reasoning_details"] = _details(parts)
    for kind, shape, member in ((PartKind.IMAGE, Image, "images"), (PartKind.FILE, File, "files")):
        media = [p for p in parts if isinstance(p, shape)]
        if media:
            message[member] = [media_entry(kind, i, p.media_type, p.data, p.url) for i, p in enumerate(media)]
    if legacy and len(calls) == 1:
        message["function_call"] = {"name": calls[0].name, "arguments": calls[0].arguments}
    elif calls:
        message["tool_calls"] = [_call(c, custom) for c in calls]
    return message


def _details(parts: tuple[ReplyPart, ...]) -> list[dict[str, Any]]:
    """A detail for each reasoning part, its signature sealed as the stream's would be."""
    details: list[dict[str, Any]] = []
    start, calls, said = 0, 0, False
    for part in parts:
        calls += isinstance(part, ToolCall)
        said |= isinstance(part, Text)
        if isinstance(part, Reasoning):
            thought = Thought(start, calls, said=said)
            thought.add(part.text)
            start = thought.end
            signature = part.signature
            sealed = None if signature is None else thought.sealed(signature, redacted=part.redacted)
            details.append(reasoning_detail(len(details), sealed, redacted=part.redacted, text=part.text))
    return details


def _call(call: ToolCall, custom: frozenset[str]) -> dict[str, Any]:
    if call.name in custom:
        wrapped = {"name": call.name, "input": free_form.unwrap(call.arguments)}
        return {"id": call.id, "type": "custom", "custom": wrapped}
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}

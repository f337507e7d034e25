"""A whole answer, both directions; it says what the same answer's stream would say."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from rivermouth.dialects.bedrock_converse.decoder import failed, stopped_by, unknown_word
from rivermouth.dialects.bedrock_converse.encoder import stop_of
from rivermouth.dialects.bedrock_converse.opaque import hidden_from_wire, hidden_to_wire
from rivermouth.dialects.bedrock_converse.tables import IMAGE_FORMATS, IMAGES, reason_of, stop_reason_of
from rivermouth.dialects.bedrock_converse.usage import Counts, to_neutral, to_wire
from rivermouth.dialects.dialect import Answer
from rivermouth.ir.call_ids import call_id
from rivermouth.ir.errors import WireError
from rivermouth.ir.media import sentence_for
from rivermouth.ir.reply import Choice, Reply, ReplyPart
from rivermouth.ir.request import File, Image, Reasoning, Refusal, Text, ToolCall
from rivermouth.vendors.anthropic.signatures import signature_from_wire, signature_to_wire
from rivermouth.wire import arguments, json


class _Call(msgspec.Struct):
    name: str
    id: str | None = msgspec.field(name="toolUseId", default=None)
    input: json.Raw = json.Raw(b"")
    type: str | None = None


class _Told(msgspec.Struct):
    text: str = ""
    signature: str | None = None


class _Thought(msgspec.Struct):
    told: _Told | None = msgspec.field(name="reasoningText", default=None)
    hidden: str | None = msgspec.field(name="redactedContent", default=None)


class _Source(msgspec.Struct, frozen=True):
    data: str | None = msgspec.field(name="bytes", default=None)


class _Picture(msgspec.Struct):
    format: str = ""
    source: _Source = _Source()


class _Piece(msgspec.Struct):
    text: str = ""


class _Cited(msgspec.Struct):
    content: list[_Piece] = []


class _Block(msgspec.Struct):
    text: str | None = None
    call: _Call | None = msgspec.field(name="toolUse", default=None)
    thought: _Thought | None = msgspec.field(name="reasoningContent", default=None)
    image: _Picture | None = None
    cited: _Cited | None = msgspec.field(name="citationsContent", default=None)


class _Message(msgspec.Struct):
    content: list[_Block]


class _Output(msgspec.Struct):
    message: _Message


class _Whole(msgspec.Struct):
    output: _Output
    reason: str = msgspec.field(name="stopReason")
    usage: Counts | None = None
    more: dict[str, Any] | None = msgspec.field(name="additionalModelResponseFields", default=None)


_whole: Final = json.typed(_Whole)


def encode_reply(reply: Reply, answer: Answer) -> bytes:
    choice = reply.choices[0]
    called = any(isinstance(p, ToolCall) for p in choice.parts)
    refused = any(isinstance(p, Refusal) for p in choice.parts)
    word = stop_reason_of(choice.reason, choice.stop_sequence, called=called, refused=refused)
    content = [block for part in choice.parts for block in _encode_part(part)]
    return json.encode(
        {
            "output": {"message": {"role": "assistant", "content": content}},
            **stop_of(word, choice.stop_sequence, answer),
            "usage": to_wire(reply.usage, answer.input_estimate),
            "metrics": {"latencyMs": answer.total_ns // 1_000_000},
        }
    )


def parse_reply(body: bytes) -> Reply:
    """Raises `ApiError` for an end that is a failure, `WireError` for anything else that is no answer."""
    whole = json.decode_as(_whole, body)
    error = failed(whole.reason)
    if error is not None:
        raise error
    taken: set[str] = set()
    parts = [p for n, block in enumerate(whole.output.message.content) for p in _parse_block(block, n, taken)]
    called = any(isinstance(p, ToolCall) for p in parts)
    return Reply(
        choices=(Choice(tuple(parts), reason_of(whole.reason, called=called), stopped_by(whole.reason, whole.more)),),
        usage=to_neutral(whole.usage),
        warnings=tuple(unknown_word(whole.reason)),
    )


def relay_reply(body: bytes, answer: Answer) -> bytes:
    """A whole answer as it came: nothing in it names the model."""
    json.fields(body)
    return json.line_safe(body)


def _encode_part(part: ReplyPart) -> list[dict[str, Any]]:
    """The part as at most one block, and none if it says nothing."""
    match part:
        case Text() | Refusal():
            return [{"text": part.text}] if part.text else []
        case Reasoning():
            return _encode_reasoning(part)
        case ToolCall():
            given = msgspec.Raw(arguments.to_object(part.arguments))
            return [{"toolUse": {"toolUseId": part.id, "name": part.name, "input": given}}]
        case Image() if part.data and part.media_type in IMAGE_FORMATS:
            return [{"image": {"format": IMAGE_FORMATS[part.media_type], "source": {"bytes": part.data}}}]
        case Image() | File():
            return [{"text": sentence_for(part)}]


def _encode_reasoning(part: Reasoning) -> list[dict[str, Any]]:
    if part.redacted:
        hidden = part.signature is not None
        return [{"reasoningContent": {"redactedContent": hidden_to_wire(part.signature or "")}}] if hidden else []
    if not part.text and part.signature is None:
        return []
    told = {"text": part.text, "signature": signature_to_wire(part.signature)}
    return [{"reasoningContent": {"reasoningText": told}}]


def _parse_block(block: _Block, number: int, taken: set[str]) -> list[ReplyPart]:
    """The block as a part; empty ones and those the neutral model does not have are none."""
    if block.text:
        return [Text(block.text)]
    if block.call is not None and block.call.type is None:
        if not block.call.name:
            raise WireError("a toolUse block without a name")
        text = bytes(block.call.input).decode()
        empty = text in ("", "{}", "null")
        return [ToolCall(call_id(block.call.id, "", number, taken), block.call.name, "" if empty else text)]
    if block.thought is not None:
        return _parse_reasoning(block.thought)
    if block.image is not None:
        media_type = IMAGES.get(block.image.format)
        data = block.image.source.data
        return [Image(media_type=media_type, data=data)] if data and media_type else []
    text = "".join(piece.text for piece in block.cited.content) if block.cited else ""
    return [Text(text)] if text else []


def _parse_reasoning(thought: _Thought) -> list[ReplyPart]:
    if thought.hidden is not None:
        hidden = hidden_from_wire(thought.hidden)
        return [Reasoning(signature=hidden, redacted=True)] if hidden else []
    told = thought.told or _Told()
    signature = signature_from_wire(told.signature)
    return [Reasoning(told.text, signature)] if told.text or signature else []

"""Whole replies, both ways.  Reading goes through the stream's decoder, so that the two cannot differ."""

from __future__ import annotations

from typing import Any, Final

from rivermouth.dialects.dialect import Answer
from rivermouth.dialects.openai_completions.decoder import Decoder
from rivermouth.dialects.openai_completions.shapes import Chunk
from rivermouth.dialects.openai_completions.tables import FINISH_OUT
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.events import Event
from rivermouth.ir.fold import fold
from rivermouth.ir.media import plain_text
from rivermouth.ir.reply import Reply
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
    wire: dict[str, Any] = {
        "id": f"cmpl-{answer.id}",
        "object": "text_completion",
        "created": answer.created_ns // 1_000_000_000,
        "model": answer.model,
        "choices": [
            {
                "index": index,
                "text": plain_text(choice.parts),
                "logprobs": None,
                "finish_reason": FINISH_OUT[choice.reason],
            }
            for index, choice in enumerate(reply.choices)
        ],
        "usage": write_usage(reply.usage),
    }
    return json.encode(wire)

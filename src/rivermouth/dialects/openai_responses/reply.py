"""Whole replies, both ways.  Both go through the stream's own machines, so that a reply says what its stream says."""

from __future__ import annotations

from typing import Final

from rivermouth.dialects.dialect import Answer
from rivermouth.dialects.openai_responses.decoder import Decoder
from rivermouth.dialects.openai_responses.encoder import Encoder
from rivermouth.dialects.openai_responses.shapes import ResponseShape
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.events import Event
from rivermouth.ir.fold import fold, unfold
from rivermouth.ir.reply import Reply
from rivermouth.vendors.openai.failures import read_error
from rivermouth.wire import json

_response: Final = json.typed(ResponseShape)
_UNFINISHED: Final = frozenset({"in_progress", "queued"})


def read_reply(body: bytes) -> list[Event]:
    """An upstream's reply.  Raises `ApiError` if it failed or is not there yet, `WireError` if it is no reply."""
    response = json.decode_as(_response, body)
    if response.error:
        raise read_error(response.error)
    if response.status in _UNFINISHED:
        raise ApiError(Kind.UPSTREAM, f"the upstream's response is {response.status}", code="unfinished")
    if response.output is None:
        raise ApiError(Kind.UPSTREAM, "the upstream's reply holds no output", code="empty")
    return Decoder().whole(response)


def parse_reply(body: bytes) -> Reply:
    """The same as a value."""
    return fold(read_reply(body))


def encode_reply(reply: Reply, answer: Answer) -> bytes:
    """The reply as one document: the response that would have ended its stream."""
    encoder = Encoder(answer)
    encoder.feed(unfold(reply))
    return encoder.response

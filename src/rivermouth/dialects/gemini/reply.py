"""A whole answer, both directions; it says what the same answer's stream would say."""

from __future__ import annotations

from rivermouth.dialects.dialect import Answer
from rivermouth.dialects.gemini.decoder import Decoder
from rivermouth.dialects.gemini.encoder import candidate, response
from rivermouth.dialects.gemini.opaque import Signed, to_client
from rivermouth.dialects.gemini.parts import write_parts
from rivermouth.ir.events import Event
from rivermouth.ir.fold import fold
from rivermouth.ir.reply import Reply
from rivermouth.ir.request import Reasoning
from rivermouth.wire import json
from rivermouth.wire.frame import Frame


def encode_reply(reply: Reply, answer: Answer) -> bytes:
    """The response object, one candidate for each choice."""
    candidates = [candidate(i, write_parts(c.parts, _signed), c.reason) for i, c in enumerate(reply.choices)]
    return json.encode(response(candidates, reply.usage, answer))


def read_reply(body: bytes) -> list[Event]:
    """A reply is a stream of one frame.  Raises `WireError` when it is none, `ApiError` when it tells of a failure."""
    decoder = Decoder()
    return [*decoder.feed(Frame("", body)), *decoder.eof()]


def parse_reply(body: bytes) -> Reply:
    """The same as a value."""
    return fold(read_reply(body))


def _signed(part: Reasoning) -> Signed | None:
    return None if part.signature is None else to_client(part.signature, redacted=part.redacted)

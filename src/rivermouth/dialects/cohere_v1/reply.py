"""Whole answers, both ways."""

from __future__ import annotations

import sys

from rivermouth.dialects.cohere_v1.decoder import Decoder
from rivermouth.dialects.cohere_v1.tables import FINISH_REASONS
from rivermouth.dialects.cohere_v1.transcript import Transcript
from rivermouth.dialects.dialect import Answer
from rivermouth.ir.errors import WireError
from rivermouth.ir.events import Error, Event, Finish, PartKind
from rivermouth.ir.fold import fold
from rivermouth.ir.media import sentence
from rivermouth.ir.reply import Reply, ReplyPart
from rivermouth.ir.request import File, Image, Reasoning, Refusal, Text, ToolCall
from rivermouth.wire import json
from rivermouth.wire.frame import Frame
from rivermouth.wire.ndjson import NdjsonReader


def encode_reply(reply: Reply, answer: Answer) -> bytes:
    """The reply as one document."""
    choice = reply.choices[0]
    said = Transcript(sys.maxsize)  # all of it is in memory already
    for part in choice.parts:
        _say(said, part)
    return json.encode(said.response(answer, FINISH_REASONS[choice.reason], reply.usage))


def read_reply(body: bytes) -> list[Event]:
    """An upstream's reply.  Raises `ApiError` for an error under a good status, `WireError` for anything else.

    It is read by the stream's decoder, so that the two cannot differ.  A stream that nobody asked for has the same
    media type, and is read as what it says.
    """
    decoder = Decoder()
    lines = NdjsonReader().feed(body + b"\n") if streamed(body) else [Frame("", body)]
    events = [event for line in lines for event in decoder.feed(line)]
    if len(lines) == 1 and not isinstance(events[-1], Finish | Error):
        raise WireError("a reply without text")
    return [*events, *decoder.eof()]


def parse_reply(body: bytes) -> Reply:
    """The same as a value."""
    return fold(read_reply(body))


def streamed(body: bytes) -> bool:
    """Whether a body is the lines of a stream."""
    if b'"event_type"' not in body:
        return False
    try:
        return "event_type" in json.fields(body.lstrip().partition(b"\n")[0])
    except WireError:
        return False


def _say(said: Transcript, part: ReplyPart) -> None:
    match part:
        case Text() | Refusal():
            said.text(json.encode(part.text))
        case ToolCall():
            said.argue(said.call(part.id, part.name), part.arguments)
        case Image() | File():
            said.text(json.encode(sentence(PartKind.FILE, part.url)))
        case Reasoning():  # has no place here
            pass

"""What the tests of this dialect share: answers, routes, events as text, and ways to read a stream back."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from rivermouth.dialects.dialect import Answer, Route
from rivermouth.dialects.openai_chat import DIALECT
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.events import (
    Error,
    Event,
    Finish,
    PartEnd,
    PartKind,
    PartStart,
    Reason,
    Start,
    TextDelta,
)
from rivermouth.ir.fold import fold
from rivermouth.ir.grammar import Grammar
from rivermouth.ir.reply import Choice, Reply, ReplyPart
from rivermouth.ir.request import Reasoning, Refusal, Request, Text
from rivermouth.wire.frame import Frame
from rivermouth.wire.sse import SseReader
from tests.dialects.conformance import Decoded

ROUTING = ("llmeu", {"trace_id": "01J", "provider": "lab", "cost": None})
TEXT, REASONING, TOOL, REFUSAL = PartKind.TEXT, PartKind.REASONING, PartKind.TOOL, PartKind.REFUSAL
DONE = Frame("", b"[DONE]")
FAILURE = Error(ApiError(Kind.NETWORK, "the connection was lost"))


def answer(prefix: str = "/v1", **changes: Any) -> Answer:
    surface = next(s for s in DIALECT.surfaces if s.prefix == prefix)
    given = {"id": "01J", "model": "gpt-x", "created_ns": 1_700_000_000_999_999_999, "surface": surface, "kind": "chat"}
    return Answer(**{**given, **changes})


def asked(**changes: Any) -> Request:
    """A streaming request without an original."""
    return Request(**{"model": "gpt-x", "messages": (), "stream": True, **changes})


def counted(**changes: Any) -> Answer:
    """An answer to a client that wants usage in its stream."""
    return answer(request=asked(include_usage=True), **changes)


def route(path: str = "/chat/completions") -> Route:
    return next(r for r in DIALECT.routes if r.path == path)


def body(**changes: Any) -> dict[str, Any]:
    return {"model": "gpt-x", "messages": [{"role": "user", "content": "Hi"}], **changes}


def parse(**changes: Any) -> Request:
    return DIALECT.parse_request(json.dumps(body(**changes)).encode(), route(), None)


def talk(*messages: dict[str, Any]) -> Request:
    return parse(messages=list(messages))


def foreign(request: Request) -> Request:
    """The request as if it had come in another dialect."""
    return msgspec.structs.replace(request, original=None)


def build(request: Request) -> dict[str, Any]:
    """The body for an upstream, as if the request had come in another dialect."""
    built: dict[str, Any] = json.loads(DIALECT.build_request(foreign(request), "up-model").body)
    return built


# -- streams ----------------------------------------------------------------------------------------------------------


def decode(stream: bytes) -> list[Event]:
    """A whole stream, to its end."""
    decoder = Decoded(DIALECT, asked())
    return [*decoder.feed(stream), *decoder.eof()]


def frame(data: Any, name: str = "") -> Frame:
    return Frame(name, data if isinstance(data, bytes) else json.dumps(data, separators=(",", ":")).encode())


def chunk(delta: Any = None, finish: str | None = None, index: int | None = 0, **top: Any) -> Frame:
    """One chunk of one choice."""
    choice = {"index": index, "delta": delta if delta is not None else {}, "finish_reason": finish}
    if index is None:
        del choice["index"]
    given = {"id": "up-1", "object": "chat.completion.chunk", "created": 1, "model": "up-model", "choices": [choice]}
    return frame({**given, **top})


def run(*frames: Frame, request: Request | None = None) -> list[Event]:
    """All events of the frames and of the stream's end, after the grammar has agreed to them."""
    decoder = DIALECT.decoder(request or asked())
    events = [e for f in frames for e in decoder.feed(f)] + decoder.eof()
    grammar = Grammar()
    grammar.feed_all(events)
    assert grammar.done
    return events


def reply_of(*frames: Frame) -> Reply:
    return fold(run(*frames))


def parts_of(*frames: Frame) -> tuple[ReplyPart, ...]:
    return reply_of(*frames).choices[0].parts


def error_of(events: list[Event]) -> ApiError:
    """The error that the events end with; there is exactly one."""
    errors = [e.error for e in events if isinstance(e, Error)]
    assert len(errors) == 1
    assert isinstance(events[-1], Error)
    return errors[0]


def encode(events: list[Event], given: Answer | None = None) -> bytes:
    return DIALECT.encoder(given or answer()).feed(events)


def payloads(stream: bytes) -> list[Any]:
    """The JSON of each frame, `[DONE]` as text, after checking that a frame is one data line and one blank line."""
    found = SseReader().feed(stream)
    assert b"".join(b"data: %b\n\n" % f.data for f in found) == stream
    return ["[DONE]" if f.data == b"[DONE]" else json.loads(f.data) for f in found]


def text_stream(*words: str, reason: Reason = Reason.STOP) -> list[Event]:
    middle: list[Event] = [TextDelta(0, word) for word in words]
    return [Start("up-1", "up-model", 1), PartStart(0, TEXT), *middle, PartEnd(0), Finish(reason)]


def seam_free(reply: Reply) -> Reply:
    """The reply as this dialect can say it: adjacent parts of a kind joined, empty texts gone, calls behind prose."""
    return Reply(choices=tuple(_joined(c) for c in reply.choices), usage=reply.usage)


def _joined(choice: Choice) -> Choice:
    kept: list[ReplyPart] = []
    for part in choice.parts:
        last = kept[-1] if kept else None
        if isinstance(part, Text | Refusal | Reasoning) and not part.text and not getattr(part, "signature", None):
            continue
        if isinstance(part, Text) and isinstance(last, Text):
            kept[-1] = Text(last.text + part.text)
        elif isinstance(part, Refusal) and isinstance(last, Refusal):
            kept[-1] = Refusal(last.text + part.text)
        elif isinstance(part, Reasoning) and isinstance(last, Reasoning) and not last.signature and not part.redacted:
            kept[-1] = Reasoning(last.text + part.text, part.signature)
        else:
            kept.append(part)
    return Choice(tuple(kept), choice.reason)

"""Streams of the bodies that have one text, both ways: an object for each piece of it, and one that closes.

What an object looks like is the body's own (`Form`): titan_body, llama_body, mistral_body.  Only the closing object, or
one of the first, counts; in the binary framing it has the service's metrics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import msgspec

from rivermouth.dialects.bedrock_invoke.body import METRICS, Body, metrics, relay_reply
from rivermouth.dialects.bedrock_invoke.framing import BINARY
from rivermouth.dialects.bedrock_invoke.tables import NAME
from rivermouth.dialects.dialect import Answer, Outgoing, Route
from rivermouth.ir.errors import ApiError, WireError, truncated
from rivermouth.ir.events import (
    Error,
    Event,
    Finish,
    MediaDelta,
    PartEnd,
    PartKind,
    PartStart,
    Reason,
    Start,
    TextDelta,
    Usage,
    Warn,
    merge_usage,
)
from rivermouth.ir.lanes import Lanes, Said
from rivermouth.ir.media import sentence
from rivermouth.ir.names import quoted
from rivermouth.ir.reply import Choice, Reply
from rivermouth.ir.request import Request, Text
from rivermouth.wire import json
from rivermouth.wire.frame import Frame

_LANE: Final = 0  # the body has one text, so all parts share one place
_SAID: Final = frozenset({PartKind.TEXT, PartKind.REFUSAL, PartKind.IMAGE, PartKind.FILE})
_encode: Final = json.encode


class Counted(msgspec.Struct):
    """The service's metrics."""

    input_tokens: int | None = msgspec.field(name="inputTokenCount", default=None)
    output_tokens: int | None = msgspec.field(name="outputTokenCount", default=None)


class Piece(msgspec.Struct):
    """What an object says.  word: why the text ended, in the object that closes."""

    text: str | None = None
    word: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    counted: Counted | None = None


class Form(msgspec.Struct, frozen=True, kw_only=True):
    """What the objects of a body look like.

    head: how one with a piece begins, up to its text.  tail: what stands behind the text of the piece of that number
    (from 1), given the prompt's tokens as far as they are known.  closing: the last one.  read: what one says; raises
    `WireError`.  words: of ends; `field` is where they stand.  counts: the objects themselves do, else the metrics
    alone, in either framing.
    """

    head: bytes
    tail: Callable[[int, int | None], bytes]
    closing: Callable[[Finish, Usage, int], dict[str, Any]]
    read: Callable[[bytes], Piece]
    words: Mapping[str, Reason]
    field: str
    counts: bool = True


class Objects:
    """One object for each piece of text, and one that closes.

    The body has one string for everything, so of the parts that are open one speaks and the others wait.  Raises
    `ApiError` when what waits is more than the cap; what came before it goes out with `close`.
    """

    __slots__ = ("_answer", "_form", "_kinds", "_lanes", "_measured", "_pieces", "_speaking", "_unsent", "_usage")

    def __init__(self, form: Form, answer: Answer) -> None:
        self._form = form
        self._answer = answer
        self._measured = not form.counts or BINARY in answer.surface.options
        self._pieces = 0
        self._usage: Usage | None = None
        self._kinds: dict[int, PartKind] = {}  # of the open parts
        self._speaking: set[int] = set()
        self._lanes = Lanes()
        self._unsent: list[bytes] = []

    def feed(self, events: list[Event]) -> list[bytes]:
        out: list[bytes] = []
        try:
            self._write(events, out)
        except ApiError:
            self._unsent += out
            raise
        return out

    def close(self) -> list[bytes]:
        """Nothing is ever open; but what was produced is not kept back."""
        out = self._unsent
        self._take_turns(self._lanes.drain(), out)
        return out

    def _write(self, events: list[Event], out: list[bytes]) -> None:
        speaking = self._speaking
        for event in events:
            if type(event) is TextDelta:
                if event.part in speaking:
                    self._pieces += 1
                    prompt = self._usage.input_tokens if self._usage is not None else None
                    out.append(self._form.head + _encode(event.text) + self._form.tail(self._pieces, prompt))
                elif self._lanes.waits(event.part):
                    self._lanes.hold(event.part, event)
            else:
                self._other(event, out)

    def _other(self, event: Event, out: list[bytes]) -> None:
        match event:
            case PartStart(choice=0) if event.kind in _SAID:
                self._kinds[event.part] = event.kind
                if self._lanes.open(event.part, _LANE):
                    self._speaking.add(event.part)
            case MediaDelta() | PartEnd() if self._lanes.waits(event.part):
                self._lanes.hold(event.part, event)
            case MediaDelta() if event.part in self._speaking:
                self._write([TextDelta(event.part, sentence(self._kinds[event.part], event.url))], out)
            case PartEnd() if event.part in self._speaking:
                self._end(event.part)
                self._take_turns(self._lanes.close(event.part), out)
            case Usage():
                self._usage = merge_usage(self._usage, event)
            case Finish():
                out.append(_encode(self._closing(event)))
            case _:  # what the body has no place for
                pass

    def _take_turns(self, turns: list[Said], out: list[bytes]) -> None:
        """Parts that waited say what they have to say."""
        for part, said, ended in turns:
            self._speaking.add(part)
            self._write(said, out)
            if ended:
                self._end(part)

    def _end(self, part: int) -> None:
        self._speaking.discard(part)
        del self._kinds[part]

    def _closing(self, event: Finish) -> dict[str, Any]:
        usage = self._usage or Usage()
        last = self._form.closing(event, usage, self._pieces)
        counted = metrics((usage.input_tokens, usage.output_tokens), self._answer.total_ns)
        if self._measured and counted:
            last[METRICS] = counted
        return last


class ObjectDecoder:
    """One text; the object with a word for the end ends it.  The prompt's count may come with the first object only."""

    __slots__ = ("_done", "_form", "_input_tokens", "_open", "_started")

    def __init__(self, form: Form) -> None:
        self._form = form
        self._input_tokens: int | None = None
        self._started = False
        self._open = False
        self._done = False

    def feed(self, frame: Frame) -> list[Event]:
        if self._done:
            return []
        piece = self._form.read(frame.data)
        if piece.text and self._open and piece.word is None:
            return [TextDelta(0, piece.text)]
        if piece.text is None and piece.word is None:
            raise WireError("an object without a text")
        events: list[Event] = []
        if not self._started:
            self._started = True
            self._input_tokens = piece.input_tokens
            events.append(Start())
        if piece.text:
            if not self._open:
                self._open = True
                events.append(PartStart(0, PartKind.TEXT))
            events.append(TextDelta(0, piece.text))
        return events if piece.word is None else events + self._close(piece, piece.word)

    def eof(self) -> list[Event]:
        if self._done:
            return []
        self._done = True
        return [Error(truncated(NAME, "part 0 (text)" if self._open else None))]

    def _close(self, piece: Piece, word: str) -> list[Event]:
        self._done = True
        events: list[Event] = [PartEnd(0)] if self._open else []
        counted = piece.counted or Counted()
        usage = Usage(
            input_tokens=_first(piece.input_tokens, counted.input_tokens, self._input_tokens),
            output_tokens=_first(piece.output_tokens, counted.output_tokens),
        )
        if usage != Usage():
            events.append(usage)
        return [*events, *_unknown_word(self._form, word), Finish(self._form.words.get(word, Reason.STOP))]


class ObjectRelay:
    """Objects as they came: nothing in them names the model."""

    def __init__(self, answer: Answer) -> None:
        self._done = False

    def feed(self, frame: Frame, events: list[Event]) -> list[bytes]:
        return [json.line_safe(frame.data.replace(b"\n", b" "))]

    def close(self) -> list[bytes]:
        return []


def whole_reply(form: Form, text: str | None, word: str | None, usage: Usage) -> Reply:
    """The one text, and why it ended."""
    return Reply(
        choices=(Choice((Text(text),) if text else (), form.words.get(word or "", Reason.STOP)),),
        usage=None if usage == Usage() else usage,
        warnings=tuple(_unknown_word(form, word)) if word else (),
    )


def text_body(
    *,
    name: str,
    form: Form,
    tells: Callable[[dict[str, json.Raw]], bool],
    knows: Callable[[dict[str, json.Raw]], bool],
    parse: Callable[[dict[str, json.Raw], Route, str], Request],
    build: Callable[[Request, str], Outgoing],
    encode_reply: Callable[[Reply, Answer], bytes],
    parse_reply: Callable[[bytes], Reply],
) -> Body:
    """A body whose stream is of this form."""
    return Body(
        name=name,
        owner=NAME,
        delta_head=form.head,
        delta_name="",
        tells=tells,
        knows=knows,
        parse=parse,
        build=build,
        encoder=partial(Objects, form),
        decoder=lambda request: ObjectDecoder(form),
        relay=ObjectRelay,
        encode_reply=encode_reply,
        parse_reply=parse_reply,
        relay_reply=relay_reply,
    )


def _unknown_word(form: Form, word: str) -> list[Warn]:
    if word in form.words:
        return []
    return [Warn(f"the upstream's {form.field} {quoted(word)} is not known", form.field)]


def _first(*counts: int | None) -> int | None:
    """The first that was said; 0 is said."""
    return next((count for count in counts if count is not None), None)

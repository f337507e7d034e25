"""Titan's stream, both ways: one object for each piece of text, and one that closes and counts.

    object    {"outputText": piece, "index": 0, "totalOutputTextTokenCount": null}
    last      {"outputText": "", "index": 0, "totalOutputTextTokenCount": n, "completionReason": "FINISH"}

`index` is the result's, and there is one.  Only the last object counts, and in the binary framing it has the metrics.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from rivermouth.dialects.bedrock_invoke.body import METRICS, metrics
from rivermouth.dialects.bedrock_invoke.framing import BINARY
from rivermouth.dialects.bedrock_invoke.tables import NAME, TITAN_IN, TITAN_OUT, TITAN_STOP_SEQUENCE
from rivermouth.dialects.dialect import Answer, Decoder
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
from rivermouth.ir.request import Request
from rivermouth.wire import json
from rivermouth.wire.frame import Frame

HEAD: Final = b'{"outputText":'
_TAIL: Final = b',"index":0,"totalOutputTextTokenCount":null}'
_LANE: Final = 0  # the body has one text, so all parts share one place
_SAID: Final = frozenset({PartKind.TEXT, PartKind.REFUSAL, PartKind.IMAGE, PartKind.FILE})
_encode: Final = json.encode


class _Counted(msgspec.Struct):
    input_tokens: int | None = msgspec.field(name="inputTokenCount", default=None)
    output_tokens: int | None = msgspec.field(name="outputTokenCount", default=None)


class _Object(msgspec.Struct):
    text: str | None = msgspec.field(name="outputText", default=None)
    output_tokens: int | None = msgspec.field(name="totalOutputTextTokenCount", default=None)
    input_tokens: int | None = msgspec.field(name="inputTextTokenCount", default=None)
    reason: str | None = msgspec.field(name="completionReason", default=None)
    counted: _Counted | None = msgspec.field(name=METRICS, default=None)


_object: Final = json.typed(_Object)


class Objects:
    """One object for each piece of text, and one that closes.

    The body has one string for everything, so of the parts that are open one speaks and the others wait.  Raises
    `ApiError` when what waits is more than the cap; what came before it goes out with `close`.
    """

    __slots__ = ("_answer", "_kinds", "_lanes", "_measured", "_pieces", "_speaking", "_unsent", "_usage")

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._measured = BINARY in answer.surface.options
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
                    out.append(HEAD + _encode(event.text) + _TAIL)
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
        last: dict[str, Any] = {
            "outputText": "",
            "index": 0,
            "totalOutputTextTokenCount": self._pieces if usage.output_tokens is None else usage.output_tokens,
            "completionReason": reason_word(event.reason, event.stop_sequence),
        }
        if usage.input_tokens is not None:
            last["inputTextTokenCount"] = usage.input_tokens
        counted = metrics((usage.input_tokens, usage.output_tokens), self._answer.total_ns)
        if self._measured and counted:
            last[METRICS] = counted
        return last


class ObjectDecoder:
    """One text; the object with a reason ends it.  The prompt's count may come with the first object only."""

    __slots__ = ("_done", "_input_tokens", "_open", "_started")

    def __init__(self, request: Request | None) -> None:
        self._input_tokens: int | None = None
        self._started = False
        self._open = False
        self._done = False

    def feed(self, frame: Frame) -> list[Event]:
        if self._done:
            return []
        wire = json.decode_as(_object, frame.data)
        if wire.text and self._open and wire.reason is None:
            return [TextDelta(0, wire.text)]
        if wire.text is None and wire.reason is None:
            raise WireError("an object without outputText")
        events: list[Event] = []
        if not self._started:
            self._started = True
            self._input_tokens = wire.input_tokens
            events.append(Start())
        if wire.text:
            if not self._open:
                self._open = True
                events.append(PartStart(0, PartKind.TEXT))
            events.append(TextDelta(0, wire.text))
        return events if wire.reason is None else events + self._close(wire, wire.reason)

    def eof(self) -> list[Event]:
        if self._done:
            return []
        self._done = True
        return [Error(truncated(NAME, "part 0 (text)" if self._open else None))]

    def _close(self, wire: _Object, word: str) -> list[Event]:
        self._done = True
        events: list[Event] = [PartEnd(0)] if self._open else []
        counted = wire.counted or _Counted()
        usage = Usage(
            input_tokens=_first(wire.input_tokens, counted.input_tokens, self._input_tokens),
            output_tokens=_first(wire.output_tokens, counted.output_tokens),
        )
        if usage != Usage():
            events.append(usage)
        return [*events, *unknown_word(word), Finish(TITAN_IN.get(word, Reason.STOP))]


def _first(*counts: int | None) -> int | None:
    """The first that was said; 0 is said."""
    return next((count for count in counts if count is not None), None)


def decoder(request: Request | None) -> Decoder:
    return ObjectDecoder(request)


class ObjectRelay:
    """Objects as they came: nothing in them names the model."""

    def __init__(self, answer: Answer) -> None:
        self._done = False

    def feed(self, frame: Frame, events: list[Event]) -> list[bytes]:
        return [json.line_safe(frame.data.replace(b"\n", b" "))]

    def close(self) -> list[bytes]:
        return []


def reason_word(reason: Reason, stop_sequence: str | None) -> str:
    """`completionReason`; a stop that the client's own sequence brought is said so."""
    return TITAN_STOP_SEQUENCE if reason is Reason.STOP and stop_sequence is not None else TITAN_OUT[reason]


def unknown_word(word: str) -> list[Warn]:
    if word in TITAN_IN:
        return []
    return [Warn(f"the upstream's completionReason {quoted(word)} is not known", "completionReason")]

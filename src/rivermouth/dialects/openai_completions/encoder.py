"""Events to a stream of this dialect.  A chunk is a constant head, the encoded text and a constant tail."""

from __future__ import annotations

from typing import Final

from rivermouth.dialects.dialect import Answer
from rivermouth.dialects.openai_completions.failures import encode_stream_error
from rivermouth.dialects.openai_completions.tables import FINISH_OUT
from rivermouth.ir.errors import ApiError
from rivermouth.ir.events import (
    Error,
    Event,
    Finish,
    MediaDelta,
    PartEnd,
    PartKind,
    PartStart,
    TextDelta,
    Usage,
    merge_usage,
)
from rivermouth.ir.lanes import Lanes, Said
from rivermouth.ir.media import sentence
from rivermouth.vendors.openai.usage import write_usage
from rivermouth.wire import json, sse
from rivermouth.wire.stencil import Stencil

DONE: Final = sse.data(b"[DONE]")
_SILENT: Final = frozenset({PartKind.REASONING, PartKind.TOOL})
_encode: Final = json.encode


class Encoder:
    """Events in, bytes out.  A choice has one text, so of its parts that are open one speaks and the others wait.

    Raises `ApiError` when what waits is more than the cap; what came before it goes out before the error.
    """

    def __init__(self, answer: Answer) -> None:
        request = answer.request
        self._wants_usage = request is not None and request.include_usage
        created = answer.created_ns // 1_000_000_000
        head = b'data: {"id":%s,"object":"text_completion","created":%d,"model":%s,"choices":['
        self._open = head % (_encode(f"cmpl-{answer.id}"), created, _encode(answer.model))
        self._close = b'],"usage":null}\n\n' if self._wants_usage else b"]}\n\n"
        self._tail = b',"logprobs":null,"finish_reason":null}' + self._close
        self._heads: dict[int, bytes] = {}  # of the parts that speak
        self._parts: dict[int, PartStart] = {}
        self._choices = 1
        self._lanes = Lanes()
        self._unsent: list[bytes] = []
        self._usage: Usage | None = None
        self._done = False

    def feed(self, events: list[Event]) -> bytes:
        """The bytes of these events, joined for one send."""
        out: list[bytes] = []
        try:
            self._write(events, out)
        except ApiError:
            self._unsent += out
            raise
        return b"".join(out)

    def plain(self, part: int) -> Stencil | None:
        """What stands around the next delta of a part of text, as long as nothing else is said."""
        head = self._heads.get(part)
        return None if head is None or self._done else Stencil(head + b'"', b'"' + self._tail)

    def statistics(self) -> dict[str, int]:
        """`waiting_chars` (of text that waits for other text of its choice) and `cap_chars`."""
        return self._lanes.statistics()

    def _write(self, events: list[Event], out: list[bytes]) -> None:
        for event in events:
            if self._done:
                return
            if type(event) is TextDelta:
                head = self._heads.get(event.part)
                if head is None:
                    self._hold(event)
                else:
                    out += (head, _encode(event.text), self._tail)
            else:
                self._other(event, out)

    def _other(self, event: Event, out: list[bytes]) -> None:
        match event:
            case PartStart():
                self._choices = max(self._choices, event.choice + 1)
                if event.kind not in _SILENT:
                    self._parts[event.part] = event
                    if self._lanes.open(event.part, event.choice):
                        self._speak(event.part)
            case MediaDelta():
                start = self._parts[event.part]
                self._write([TextDelta(event.part, sentence(start.kind, event.url))], out)
            case PartEnd():
                if self._heads.pop(event.part, None) is None:
                    self._hold(event)
                else:
                    del self._parts[event.part]
                    self._take_turns(self._lanes.close(event.part), out)
            case Usage():
                self._usage = merge_usage(self._usage, event)
            case Finish():
                self._finish(event, out)
            case Error():
                out[:0] = self._unsent
                self._take_turns(self._lanes.drain(), out)
                self._done = True
                out.append(encode_stream_error(event.error))
            case _:  # Start, thoughts, calls, Warn and Unknown have no place on this wire
                pass

    def _hold(self, event: TextDelta | PartEnd) -> None:
        if self._lanes.waits(event.part):
            self._lanes.hold(event.part, event)

    def _speak(self, part: int) -> None:
        self._heads[part] = self._head(self._parts[part].choice)

    def _head(self, choice: int) -> bytes:
        return self._open + b'{"index":%d,"text":' % choice

    def _take_turns(self, turns: list[Said], out: list[bytes]) -> None:
        """Parts that waited say what they have to say."""
        for part, said, ended in turns:
            self._speak(part)
            self._write(said, out)
            if ended:
                del self._heads[part], self._parts[part]

    def _finish(self, event: Finish, out: list[bytes]) -> None:
        """An empty text for each choice, with how it ended; usage; `[DONE]`."""
        self._done = True
        reasons = event.reasons or (event.reason,)
        for choice in range(max(self._choices, len(reasons))):
            word = FINISH_OUT[reasons[choice] if choice < len(reasons) else event.reason]
            out += (self._head(choice), b'"","logprobs":null,"finish_reason":"', word.encode(), b'"}', self._close)
        usage = write_usage(self._usage) if self._wants_usage else None
        if usage is not None:
            out += (self._open, b'],"usage":', _encode(usage), b"}\n\n")
        out.append(DONE)

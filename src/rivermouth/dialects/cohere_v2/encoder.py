"""Events to a client's stream.

Clients keep one call at a time, and the SDK drops any frame that does not fit its model, so one block or call is on the
wire at a time and what interleaves waits (F26).  Blocks open with the first thing they say (F21); calls at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final

from rivermouth.dialects.cohere_v2.tables import ERROR, FILTERED, finish_reason_of
from rivermouth.dialects.dialect import Answer
from rivermouth.ir import media
from rivermouth.ir.errors import ApiError
from rivermouth.ir.events import (
    ArgsDelta,
    Error,
    Event,
    Finish,
    MediaDelta,
    PartKind,
    PartStart,
    Reason,
    ReasoningDelta,
    TextDelta,
    Usage,
    merge_usage,
)
from rivermouth.ir.lanes import NOBODY, WAITING_CAP_CHARS, Delta, Ending, OneAtATime
from rivermouth.vendors.cohere.counts import write_counts
from rivermouth.vendors.cohere.failures import sentence
from rivermouth.wire import json, sse

# The SDK refuses lines of more than a MiB; a character is at most six on the wire.
PIECE_CHARS: Final = 128 * 1024
_TEXT_TAIL: Final = b"}}}}\n\n"
_ARGS_TAIL: Final = b"}}}}}\n\n"

# Part kind -> the content type that carries it, which is also the member with its text; "" for calls.
CONTENT: Final[dict[PartKind, str]] = {
    PartKind.TEXT: "text",
    PartKind.REFUSAL: "text",
    PartKind.IMAGE: "text",
    PartKind.FILE: "text",
    PartKind.REASONING: "thinking",
    PartKind.TOOL: "",
}
_encode: Final = json.encode


class Encoder(OneAtATime):
    """Events to bytes.

    Raises `ApiError` when what has to wait is more than the cap; what came before it goes out before the error.
    """

    __slots__ = (
        "_answer", "_begun", "_blocks", "_calls", "_done", "_head", "_hot", "_now", "_said", "_unsent", "_usage",
    )  # fmt: skip

    def __init__(self, answer: Answer, cap_chars: int = WAITING_CAP_CHARS) -> None:
        super().__init__(cap_chars)
        self._answer = answer
        self._begun = False
        self._done = False
        self._blocks = 0  # content blocks and calls that were opened: the next indexes
        self._calls = 0
        self._usage: Usage | None = None
        self._now: PartStart | None = None  # the part that holds the wire, open or not yet
        self._said = False  # whether its block is open, or its call has arguments
        self._hot = NOBODY  # the part whose block is open for its deltas
        self._head = b""  # a delta frame of the open block or call, up to its text
        self._unsent: list[bytes] = []

    def feed(self, events: list[Event]) -> bytes:
        """The bytes of these events, joined for one send."""
        out: list[bytes] = []
        try:
            self._feed(events, out)
        except ApiError:
            self._unsent += out
            raise
        return b"".join(out)

    def _feed(self, events: list[Event], out: list[bytes]) -> None:
        for event in events:
            kind = type(event)
            if (kind is TextDelta or kind is ReasoningDelta) and event.part == self._hot:  # type: ignore[union-attr]
                text: str = event.text  # type: ignore[union-attr]
                if len(text) <= PIECE_CHARS:
                    out.append(self._head + _encode(text) + _TEXT_TAIL)
                    continue
            if not self._done:
                handler = self._HANDLERS.get(kind)
                if handler is not None:
                    handler(self, event, out)

    def statistics(self) -> dict[str, int]:
        """`waiting_chars`, of parts that wait for an earlier one, and `cap_chars`."""
        return self._lanes.statistics()

    def _on_usage(self, event: Usage, out: list[bytes]) -> None:
        self._usage = merge_usage(self._usage, event)

    def _take(self, start: PartStart, out: list[bytes]) -> None:
        self._now = start
        self._said = False
        if start.kind is not PartKind.TOOL:
            return
        call = {"id": start.id, "type": "function", "function": {"name": start.name, "arguments": ""}}
        frame = {"type": "tool-call-start", "index": self._calls, "delta": {"message": {"tool_calls": call}}}
        self._begin(out)
        out.append(sse.event("tool-call-start", _encode(frame)))
        self._head = (
            b'event: tool-call-delta\ndata: {"type":"tool-call-delta","index":%d,"delta":{"message":{"tool_calls":'
            b'{"function":{"arguments":' % self._calls
        )

    def _write(self, event: Delta, out: list[bytes]) -> None:
        match event:
            case TextDelta() | ReasoningDelta():
                self._say(event.text, out)
            case ArgsDelta():
                self._argue(event.json, out)
            case MediaDelta():
                self._say(media.sentence(PartKind.FILE, event.url), out)
            case _:  # a signature has no place here
                pass

    def _say(self, text: str, out: list[bytes]) -> None:
        """A piece of the block of the part that holds the wire; the block opens with the first."""
        now = self._now
        assert now is not None
        if not text or now.redacted:
            return
        if not self._said:
            self._open(now, out)
        out += _deltas(self._head, text, _TEXT_TAIL)

    def _open(self, now: PartStart, out: list[bytes]) -> None:
        self._begin(out)
        member = CONTENT[now.kind]
        content = {"message": {"content": {"type": member, member: ""}}}
        start = {"type": "content-start", "index": self._blocks, "delta": content}
        out.append(sse.event("content-start", _encode(start)))
        self._head = (
            b'event: content-delta\ndata: {"type":"content-delta","index":%d,"delta":{"message":{"content":{"%b":'
            % (self._blocks, member.encode())
        )
        self._said = True
        self._hot = now.part

    def _argue(self, arguments: str, out: list[bytes]) -> None:
        self._said = self._said or bool(arguments.strip())
        out += _deltas(self._head, arguments, _ARGS_TAIL)

    def _release(self, ending: Ending, out: list[bytes]) -> None:
        """Ends the part that holds the wire.  A whole call without arguments gets an empty object.

        A call that is not whole stays open: who waits for its end would run it.
        """
        now = self._now
        assert now is not None
        if now.kind is PartKind.TOOL:
            if ending is Ending.WHOLE:
                if not self._said:
                    self._argue("{}", out)
                out.append(_end(b"tool-call-end", self._calls))
            self._calls += 1
        elif self._said:
            out.append(_end(b"content-end", self._blocks))
            self._blocks += 1
        self._now = None
        self._hot = NOBODY

    def _on_finish(self, event: Finish, out: list[bytes]) -> None:
        self._drain(Ending.OPEN, out)
        word = finish_reason_of(event.reason, event.stop_sequence, called=self._calls > 0)
        delta: dict[str, Any] = {"error": FILTERED} if event.reason is Reason.CONTENT_FILTER else {}
        self._end({**delta, "finish_reason": word}, out)

    def _on_error(self, event: Error, out: list[bytes]) -> None:
        """The error stands where the end would: the protocol has no other place for it."""
        out[:0] = self._unsent
        self._drain(Ending.CUT, out)
        self._end({"error": sentence(event.error), "finish_reason": ERROR}, out)

    def _end(self, delta: dict[str, Any], out: list[bytes]) -> None:
        self._begin(out)
        self._done = True
        if self._usage is not None:
            delta["usage"] = write_counts(self._usage)
        end = {"type": "message-end", "id": self._answer.id, "delta": delta}
        out.append(sse.event("message-end", _encode(end)))

    def _begin(self, out: list[bytes]) -> None:
        if self._begun:
            return
        self._begun = True
        empty = {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": []}
        start = {"type": "message-start", "id": self._answer.id, "delta": {"message": empty}}
        out.append(sse.event("message-start", _encode(start)))

    # Start, Warn and Unknown have no frame: message-start comes with the first that needs it.
    _HANDLERS: ClassVar[dict[type, Callable[[Encoder, Any, list[bytes]], None]]] = {
        Usage: _on_usage,
        **OneAtATime.PARTS,
        Finish: _on_finish,
        Error: _on_error,
    }


def stream_error(error: ApiError, call_id: str) -> bytes:
    """The last frame of a stream that failed."""
    delta = {"error": sentence(error), "finish_reason": ERROR}
    return sse.event("message-end", _encode({"type": "message-end", "id": call_id, "delta": delta}))


def _deltas(head: bytes, text: str, tail: bytes) -> list[bytes]:
    """One frame, or as many as keep the lines short enough."""
    return [head + _encode(text[at : at + PIECE_CHARS]) + tail for at in range(0, len(text), PIECE_CHARS)]


def _end(name: bytes, index: int) -> bytes:
    return b'event: %b\ndata: {"type":"%b","index":%d}\n\n' % (name, name, index)

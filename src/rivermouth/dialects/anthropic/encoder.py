"""Events to a client's stream.

    message_start ; (content_block_start ; content_block_delta* ; content_block_stop)* ; message_delta ; message_stop

* Blocks have dense indexes, open when there is something to say, and never overlap.  One part holds the wire; the
  events of parts that start before it ends wait and are written when their turn comes (F26).
* message_start waits for the first event that needs it, so that a usage known by then is in it.
* While a block is open its frame's constant head is kept as bytes; only the text is encoded.
* Everything depends on the events alone, never on how they were batched, so a resumed stream gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final

from rivermouth.dialects.anthropic.errors import encode_stream_error
from rivermouth.dialects.anthropic.opaque import signature_to_wire, tool_id_to_wire
from rivermouth.dialects.anthropic.tables import stop_reason_of
from rivermouth.dialects.anthropic.usage import to_wire
from rivermouth.dialects.dialect import Answer
from rivermouth.ir.errors import ApiError
from rivermouth.ir.events import (
    ArgsDelta,
    Error,
    Event,
    Finish,
    MediaDelta,
    PartKind,
    PartStart,
    ReasoningDelta,
    Signature,
    TextDelta,
    Usage,
    merge_usage,
)
from rivermouth.ir.lanes import NOBODY, WAITING_CAP_CHARS, Delta, Ending, OneAtATime
from rivermouth.ir.media import sentence
from rivermouth.wire import json, sse
from rivermouth.wire.arguments import Mending
from rivermouth.wire.stencil import Stencil

_STOP: Final = b'event: content_block_stop\ndata: {"type":"content_block_stop","index":%d}\n\n'
MESSAGE_STOP: Final = sse.event("message_stop", b'{"type":"message_stop"}')
_TAIL: Final = b"}}\n\n"
_encode: Final = json.encode

# Part kind -> the delta's type and the member that carries its text.
_DELTAS: Final[dict[PartKind, tuple[bytes, bytes]]] = {
    PartKind.TEXT: (b"text_delta", b"text"),
    PartKind.REFUSAL: (b"text_delta", b"text"),
    PartKind.IMAGE: (b"text_delta", b"text"),
    PartKind.FILE: (b"text_delta", b"text"),
    PartKind.REASONING: (b"thinking_delta", b"thinking"),
    PartKind.TOOL: (b"input_json_delta", b"partial_json"),
}


class _Part:
    """A part that holds the wire, and what its end will need."""

    __slots__ = ("args", "signature", "start")

    def __init__(self, start: PartStart, cap_chars: int) -> None:
        self.start = start
        self.signature: str | None = None
        self.args = Mending(cap_chars)


class Encoder(OneAtATime):
    """Events to bytes.

    Raises `ApiError` when what has to wait is more than the cap; what came before it goes out before the error.
    """

    __slots__ = (
        "_answer",
        "_begun",
        "_called",
        "_cap_chars",
        "_done",
        "_head",
        "_hot",
        "_index",
        "_now",
        "_refused",
        "_unsent",
        "_usage",
    )

    def __init__(self, answer: Answer, cap_chars: int = WAITING_CAP_CHARS) -> None:
        super().__init__(cap_chars)
        self._answer = answer
        self._begun = False
        self._done = False
        self._called = False
        self._refused = False
        self._usage: Usage | None = None
        self._index = 0  # of the block that is open, or of the next one
        self._hot = NOBODY  # the part whose block is open for its deltas
        self._head = b""  # a delta frame of that block, up to its text
        self._now: _Part | None = None  # the part that holds the wire, open or not yet
        self._cap_chars = cap_chars
        self._unsent: list[bytes] = []

    def feed(self, events: list[Event]) -> bytes:
        out: list[bytes] = []
        try:
            for event in events:
                if (type(event) is TextDelta or type(event) is ReasoningDelta) and event.part == self._hot:
                    out.append(self._head + _encode(event.text) + _TAIL)
                elif not self._done:
                    handler = self._HANDLERS.get(type(event))
                    if handler is not None:
                        handler(self, event, out)
        except ApiError:
            self._unsent += out
            raise
        return b"".join(out)

    def plain(self, part: int) -> Stencil | None:
        """What stands around the next delta of a part of text, as long as nothing else is said."""
        return Stencil(self._head + b'"', b'"' + _TAIL) if part == self._hot and not self._done else None

    def statistics(self) -> dict[str, int]:
        """`waiting_chars` (of parts that wait for an earlier one, and of arguments to be mended) and `cap_chars`."""
        waits, held = self._lanes.statistics(), self._now.args.held_chars if self._now is not None else 0
        return {**waits, "waiting_chars": waits["waiting_chars"] + held}

    def _on_usage(self, event: Usage, out: list[bytes]) -> None:
        self._usage = merge_usage(self._usage, event)

    def _on_finish(self, event: Finish, out: list[bytes]) -> None:
        self._drain(Ending.OPEN, out)
        self._begin(out)
        reason = stop_reason_of(event.reason, event.stop_sequence, called=self._called, refused=self._refused)
        delta = {
            "stop_reason": reason,
            "stop_sequence": event.stop_sequence if reason == "stop_sequence" else None,
        }
        usage = to_wire(self._usage)
        out.append(sse.event("message_delta", json.encode({"type": "message_delta", "delta": delta, "usage": usage})))
        out.append(MESSAGE_STOP)
        self._done = True

    def _on_error(self, event: Error, out: list[bytes]) -> None:
        out[:0] = self._unsent
        self._drain(Ending.CUT, out)
        out.append(encode_stream_error(event.error, self._answer.id))
        self._done = True

    def _take(self, start: PartStart, out: list[bytes]) -> None:
        part = self._now = _Part(start, self._cap_chars)
        self._called |= start.kind is PartKind.TOOL
        self._refused |= start.kind is PartKind.REFUSAL
        if start.kind is PartKind.TOOL:
            tool_id = tool_id_to_wire(start.id or "")
            self._open(part, {"type": "tool_use", "id": tool_id, "name": start.name, "input": {}}, out)

    def _release(self, ending: Ending, out: list[bytes]) -> None:
        """Ends the part that holds the wire: its signature, or what is left of whole arguments, first, then the block.

        A call that was cut stays open: agents run a call when its block ends, and an error comes too late for them.
        """
        part = self._now
        assert part is not None
        self._now = None
        start = part.start
        if start.redacted:
            if part.signature is not None:
                self._open(
                    part, {"type": "redacted_thinking", "data": signature_to_wire(part.signature, redacted=True)}, out
                )
        elif start.kind is PartKind.REASONING and (part.signature is not None or self._hot == start.part):
            self._say(part, "", out)
            signature = json.encode(signature_to_wire(part.signature))
            out.append(_delta_head(self._index, b"signature_delta", b"signature") + signature + _TAIL)
        elif ending is Ending.WHOLE and (rest := part.args.end()):
            out.append(self._head + json.encode(rest) + _TAIL)
        if self._hot == start.part:
            if not (ending is Ending.CUT and start.kind is PartKind.TOOL):
                out.append(_STOP % self._index)
            self._index += 1
            self._hot = NOBODY

    def _write(self, event: Delta, out: list[bytes]) -> None:
        part = self._now
        assert part is not None
        if type(event) is ArgsDelta:
            self._say(part, part.args.feed(event.json), out)
        elif type(event) is TextDelta or type(event) is ReasoningDelta:
            if event.text and not part.start.redacted:
                self._say(part, event.text, out)
        elif type(event) is Signature:
            part.signature = event.signature
        elif type(event) is MediaDelta:
            self._say(part, sentence(part.start.kind, event.url), out)

    def _say(self, part: _Part, text: str, out: list[bytes]) -> None:
        """A delta of the part's block, which opens with the first one."""
        if self._hot != part.start.part:
            thinking = part.start.kind is PartKind.REASONING
            empty = {"type": "thinking", "thinking": "", "signature": ""} if thinking else {"type": "text", "text": ""}
            self._open(part, empty, out)
        if text:
            out.append(self._head + json.encode(text) + _TAIL)

    def _open(self, part: _Part, block: dict[str, Any], out: list[bytes]) -> None:
        self._begin(out)
        start = {"type": "content_block_start", "index": self._index, "content_block": block}
        out.append(sse.event("content_block_start", json.encode(start)))
        self._hot = part.start.part
        self._head = _delta_head(self._index, *_DELTAS[part.start.kind])

    def _begin(self, out: list[bytes]) -> None:
        if self._begun:
            return
        self._begun = True
        message: dict[str, Any] = {
            "id": f"msg_{self._answer.id}",
            "type": "message",
            "role": "assistant",
            "model": self._answer.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": to_wire(self._usage, estimate=self._answer.input_estimate),
        }
        out.append(sse.event("message_start", json.encode({"type": "message_start", "message": message})))

    # Start, Warn and Unknown have no frame: message_start comes with the first that needs it.
    _HANDLERS: ClassVar[dict[type, Callable[[Encoder, Any, list[bytes]], None]]] = {
        Usage: _on_usage,
        **OneAtATime.PARTS,
        Finish: _on_finish,
        Error: _on_error,
    }


def _delta_head(index: int, delta_type: bytes, member: bytes) -> bytes:
    return b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":{"type":"%b","%b":' % (
        index,
        delta_type,
        member,
    )

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
    PartEnd,
    PartKind,
    PartStart,
    ReasoningDelta,
    Signature,
    TextDelta,
    Usage,
    merge_usage,
)
from rivermouth.ir.lanes import WAITING_CAP_CHARS, Lanes, Said
from rivermouth.ir.media import sentence
from rivermouth.wire import json, sse
from rivermouth.wire.arguments import Mending
from rivermouth.wire.stencil import Stencil

_STOP: Final = b'event: content_block_stop\ndata: {"type":"content_block_stop","index":%d}\n\n'
MESSAGE_STOP: Final = sse.event("message_stop", b'{"type":"message_stop"}')
_TAIL: Final = b"}}\n\n"
_LANE: Final = 0  # one block at a time, whatever it holds
_NOBODY: Final = -1
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


class Encoder:
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
        "_lanes",
        "_now",
        "_refused",
        "_starts",
        "_unsent",
        "_usage",
    )

    def __init__(self, answer: Answer, cap_chars: int = WAITING_CAP_CHARS) -> None:
        self._answer = answer
        self._begun = False
        self._done = False
        self._called = False
        self._refused = False
        self._usage: Usage | None = None
        self._index = 0  # of the block that is open, or of the next one
        self._hot = _NOBODY  # the part whose block is open for its deltas
        self._head = b""  # a delta frame of that block, up to its text
        self._now: _Part | None = None  # the part that holds the wire, open or not yet
        self._starts: dict[int, PartStart] = {}  # of the parts that have not ended
        self._lanes = Lanes(cap_chars)
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

    def _on_part_start(self, event: PartStart, out: list[bytes]) -> None:
        if event.choice:
            return  # the protocol has one choice; `parse_request` cannot ask for more
        self._called |= event.kind is PartKind.TOOL
        self._refused |= event.kind is PartKind.REFUSAL
        self._starts[event.part] = event
        if self._lanes.open(event.part, _LANE):
            self._take(event, out)

    def _on_delta(self, event: Any, out: list[bytes]) -> None:
        if self._now is not None and event.part == self._now.start.part:
            self._WRITERS[type(event)](self, self._now, event, out)
        elif self._lanes.waits(event.part):
            self._lanes.hold(event.part, event)

    def _on_part_end(self, event: PartEnd, out: list[bytes]) -> None:
        if self._lanes.waits(event.part):
            self._lanes.hold(event.part, event)
        elif self._starts.pop(event.part, None) is not None:
            self._release(out)
            self._take_turns(self._lanes.close(event.part), out)

    def _take_turns(self, turns: list[Said], out: list[bytes]) -> None:
        """Parts that waited hold the wire in turn, with all that they said."""
        for part, said, ended in turns:
            self._take(self._starts.pop(part) if ended else self._starts[part], out)
            for event in said:
                self._on_delta(event, out)
            if ended:
                self._release(out)

    def _on_finish(self, event: Finish, out: list[bytes]) -> None:
        self._drain(out)
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
        self._drain(out, cut=True)
        out.append(encode_stream_error(event.error, self._answer.id))
        self._done = True

    def _drain(self, out: list[bytes], *, cut: bool = False) -> None:
        """Writes and closes whatever has started, in order.  Arguments that are not whole yet are not mended."""
        if self._now is not None:
            self._release(out, cut=cut, whole=False)
        for part, said, ended in self._lanes.drain():
            self._take(self._starts[part], out)
            for event in said:
                self._on_delta(event, out)
            self._release(out, cut=cut and not ended, whole=ended)

    def _take(self, start: PartStart, out: list[bytes]) -> None:
        part = self._now = _Part(start, self._cap_chars)
        if start.kind is PartKind.TOOL:
            tool_id = tool_id_to_wire(start.id or "")
            self._open(part, {"type": "tool_use", "id": tool_id, "name": start.name, "input": {}}, out)

    def _release(self, out: list[bytes], *, cut: bool = False, whole: bool = True) -> None:
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
        elif whole and (rest := part.args.end()):
            out.append(self._head + json.encode(rest) + _TAIL)
        if self._hot == start.part:
            if not (cut and start.kind is PartKind.TOOL):
                out.append(_STOP % self._index)
            self._index += 1
            self._hot = _NOBODY

    def _write_text(self, part: _Part, event: TextDelta | ReasoningDelta, out: list[bytes]) -> None:
        if event.text and not part.start.redacted:
            self._say(part, event.text, out)

    def _write_args(self, part: _Part, event: ArgsDelta, out: list[bytes]) -> None:
        self._say(part, part.args.feed(event.json), out)

    def _write_signature(self, part: _Part, event: Signature, out: list[bytes]) -> None:
        part.signature = event.signature

    def _write_media(self, part: _Part, event: MediaDelta, out: list[bytes]) -> None:
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

    _WRITERS: ClassVar[dict[type, Callable[[Encoder, _Part, Any, list[bytes]], None]]] = {
        TextDelta: _write_text,
        ReasoningDelta: _write_text,
        ArgsDelta: _write_args,
        Signature: _write_signature,
        MediaDelta: _write_media,
    }
    # Start, Warn and Unknown have no frame: message_start comes with the first that needs it.
    _HANDLERS: ClassVar[dict[type, Callable[[Encoder, Any, list[bytes]], None]]] = {
        Usage: _on_usage,
        PartStart: _on_part_start,
        TextDelta: _on_delta,
        ReasoningDelta: _on_delta,
        ArgsDelta: _on_delta,
        Signature: _on_delta,
        MediaDelta: _on_delta,
        PartEnd: _on_part_end,
        Finish: _on_finish,
        Error: _on_error,
    }


def _delta_head(index: int, delta_type: bytes, member: bytes) -> bytes:
    return b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":{"type":"%b","%b":' % (
        index,
        delta_type,
        member,
    )

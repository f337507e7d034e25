"""Events to a client's stream.

    messageStart ; (contentBlockStart? ; contentBlockDelta* ; contentBlockStop)* ; messageStop ; metadata

* Only calls and images announce their block.  Blocks have dense indexes and never overlap: clients keep one block at a
  time, whatever index a delta has, so parts that overlap are written one after the other (F26).
* messageStart waits for the first event that needs it.
* While a block is open its delta's constant head is kept as bytes; only the text is encoded.
* Everything depends on the events alone, never on how they were batched.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final

from rivermouth.dialects.bedrock_converse.build import ANSWER_FIELDS, STOPPED_BY
from rivermouth.dialects.bedrock_converse.messages import (
    BLOCK_START,
    MESSAGE_START,
    MESSAGE_STOP,
    METADATA,
    block_delta,
    block_stop,
    failure,
    message,
)
from rivermouth.dialects.bedrock_converse.opaque import hidden_to_wire
from rivermouth.dialects.bedrock_converse.tables import IMAGE_FORMATS, NAME, STOP_SEQUENCE, stop_reason_of
from rivermouth.dialects.bedrock_converse.usage import to_wire
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
from rivermouth.ir.lanes import NOBODY, Delta, Ending, OneAtATime
from rivermouth.ir.media import sentence
from rivermouth.vendors.anthropic.signatures import signature_to_wire
from rivermouth.wire import json
from rivermouth.wire.arguments import Mending

_encode: Final = json.encode
# Part kind -> what stands around the text of its delta.
_AROUND: Final[dict[PartKind, tuple[bytes, bytes]]] = {
    PartKind.TEXT: (b'"text":', b"}}"),
    PartKind.REFUSAL: (b'"text":', b"}}"),
    PartKind.IMAGE: (b'"text":', b"}}"),
    PartKind.FILE: (b'"text":', b"}}"),
    PartKind.REASONING: (b'"reasoningContent":{"text":', b"}}}"),
    PartKind.TOOL: (b'"toolUse":{"input":', b"}}}"),
}


class _Part:
    """A part that holds the wire."""

    __slots__ = ("args", "open", "signature", "start")

    def __init__(self, start: PartStart) -> None:
        self.start = start
        self.open = False  # its block is
        self.signature: str | None = None
        self.args = Mending()


class Encoder(OneAtATime):
    """Events to bytes.

    Raises `ApiError` when what has to wait is more than the cap; what came before it goes out before the error.
    """

    __slots__ = (
        "_answer",
        "_begun",
        "_called",
        "_done",
        "_head",
        "_hot",
        "_index",
        "_now",
        "_refused",
        "_tail",
        "_unsent",
        "_usage",
    )

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self._answer = answer
        self._begun = False
        self._done = False
        self._called = False
        self._refused = False
        self._usage: Usage | None = None
        self._index = 0  # of the block that is open, or of the next one
        self._hot = NOBODY  # the part whose deltas go out as they come
        self._head = self._tail = b""  # what stands around them
        self._now: _Part | None = None
        self._unsent: list[bytes] = []

    def feed(self, events: list[Event]) -> bytes:
        out: list[bytes] = []
        try:
            for event in events:
                if (type(event) is TextDelta or type(event) is ReasoningDelta) and event.part == self._hot:
                    out.append(block_delta(self._head + _encode(event.text) + self._tail))
                elif not self._done:
                    handler = self._HANDLERS.get(type(event))
                    if handler is not None:
                        handler(self, event, out)
        except ApiError:
            self._unsent += out
            raise
        return out[0] if len(out) == 1 else b"".join(out)

    def statistics(self) -> dict[str, int]:
        """`waiting_chars` (of parts that wait for an earlier one, and of arguments to be mended) and `cap_chars`."""
        waits, held = self._lanes.statistics(), self._now.args.held_chars if self._now is not None else 0
        return {**waits, "waiting_chars": waits["waiting_chars"] + held}

    def _on_usage(self, event: Usage, out: list[bytes]) -> None:
        self._usage = merge_usage(self._usage, event)

    def _on_finish(self, event: Finish, out: list[bytes]) -> None:
        self._drain(Ending.OPEN, out)
        self._begin(out)
        word = stop_reason_of(event.reason, event.stop_sequence, called=self._called, refused=self._refused)
        out.append(message(MESSAGE_STOP, stop_of(word, event.stop_sequence, self._answer)))
        metrics = {"latencyMs": self._answer.total_ns // 1_000_000}
        out.append(message(METADATA, {"usage": to_wire(self._usage, self._answer.input_estimate), "metrics": metrics}))
        self._done = True

    def _on_error(self, event: Error, out: list[bytes]) -> None:
        out[:0] = self._unsent
        self._drain(Ending.CUT, out)
        out.append(failure(event.error))
        self._done = True

    def _take(self, start: PartStart, out: list[bytes]) -> None:
        part = self._now = _Part(start)
        self._called |= start.kind is PartKind.TOOL
        self._refused |= start.kind is PartKind.REFUSAL
        if start.kind is PartKind.TOOL:
            self._open(part, out, {"toolUse": {"toolUseId": start.id, "name": start.name}})

    def _release(self, ending: Ending, out: list[bytes]) -> None:
        """Ends the part that holds the wire: its signature, or what is left of whole arguments, first, then the block.

        A call that was cut stays open: agents run a call when its block ends, and an error comes too late for them.
        """
        part = self._now
        assert part is not None
        self._now, self._hot = None, NOBODY
        start = part.start
        if start.redacted:
            if part.signature is not None:
                self._delta(part, out, {"reasoningContent": {"redactedContent": hidden_to_wire(part.signature)}})
        elif start.kind is PartKind.REASONING and (part.signature is not None or part.open):
            self._delta(part, out, {"reasoningContent": {"signature": signature_to_wire(part.signature)}})
        elif ending is Ending.WHOLE and (rest := part.args.end()):
            self._delta(part, out, {"toolUse": {"input": rest}})
        if part.open:
            if not (ending is Ending.CUT and start.kind is PartKind.TOOL):
                out.append(block_stop(self._index))
            self._index += 1

    def _write(self, event: Delta, out: list[bytes]) -> None:
        part = self._now
        assert part is not None
        if type(event) is ArgsDelta:
            if said := part.args.feed(event.json):
                self._say(part, said, out)
        elif type(event) is TextDelta or type(event) is ReasoningDelta:
            if event.text and not part.start.redacted:
                self._say(part, event.text, out)
        elif type(event) is Signature:
            part.signature = event.signature
        elif type(event) is MediaDelta:
            self._write_media(part, event, out)

    def _write_media(self, part: _Part, event: MediaDelta, out: list[bytes]) -> None:
        """An image of a known format goes as it is, everything else as a sentence."""
        named = IMAGE_FORMATS.get(event.media_type or "") if event.data else None
        if named is None or part.start.kind is not PartKind.IMAGE:
            self._say(part, sentence(part.start.kind, event.url), out)
            return
        self._open(part, out, {"image": {"format": named}})
        self._delta(part, out, {"image": {"source": {"bytes": event.data}}})

    def _say(self, part: _Part, text: str, out: list[bytes]) -> None:
        """A delta of the part's block, which opens with the first one."""
        if not part.open:
            self._open(part, out)
        around = _AROUND[part.start.kind]
        head = b'{"contentBlockIndex":%d,"delta":{' % self._index + around[0]
        if part.start.kind is not PartKind.TOOL:
            self._hot, self._head, self._tail = part.start.part, head, around[1]
        out.append(block_delta(head + _encode(text) + around[1]))

    def _delta(self, part: _Part, out: list[bytes], delta: dict[str, Any]) -> None:
        if not part.open:
            self._open(part, out)
        out.append(block_delta(_encode({"contentBlockIndex": self._index, "delta": delta})))

    def _open(self, part: _Part, out: list[bytes], start: dict[str, Any] | None = None) -> None:
        self._begin(out)
        part.open = True
        if start is not None:
            out.append(message(BLOCK_START, {"contentBlockIndex": self._index, "start": start}))

    def _begin(self, out: list[bytes]) -> None:
        if not self._begun:
            self._begun = True
            out.append(message(MESSAGE_START, {"role": "assistant"}))

    # Start, Warn and Unknown have no event: messageStart comes with the first that needs it.
    _HANDLERS: ClassVar[dict[type, Callable[[Encoder, Any, list[bytes]], None]]] = {
        Usage: _on_usage,
        **OneAtATime.PARTS,
        Finish: _on_finish,
        Error: _on_error,
    }


def stop_of(word: str, stop_sequence: str | None, answer: Answer) -> dict[str, Any]:
    """Why it ended; which sequence it was is said to who asked for that member of the model's answer."""
    said: dict[str, Any] = {"stopReason": word}
    original = answer.request.original if answer.request is not None else None
    asked = original is not None and original.dialect == NAME and original.fields.get(ANSWER_FIELDS)
    if word == STOP_SEQUENCE and asked and STOPPED_BY.encode() in bytes(asked):
        said["additionalModelResponseFields"] = {STOP_SEQUENCE: stop_sequence}
    return said

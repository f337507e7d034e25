"""Events to a client's stream: whole response objects, each with what is new.

* A frame is a constant head, the encoded text and a constant tail, so the same events always give the same bytes.
* `finishReason` and the token counts come with the last frame, since SDKs stop at the first reason they see (R9); the
  surface's option "finish-every" puts STOP into every frame.
* A tool call is one part of one frame: it is buffered until it is whole.  A signature that belongs to it waits for it.
* Of a choice's open parts one speaks, and the others wait for their turn: the wire has no borders between them (F26).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final

from rivermouth.dialects.dialect import FINISH_EVERY, Answer
from rivermouth.dialects.gemini import parts as wire
from rivermouth.dialects.gemini import usage as counts
from rivermouth.dialects.gemini.errors import error_body
from rivermouth.dialects.gemini.framing import framing
from rivermouth.dialects.gemini.opaque import Place, to_client
from rivermouth.dialects.gemini.tables import FINISH_OUT
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.events import (
    ArgsDelta,
    Error,
    Event,
    Finish,
    MediaDelta,
    PartEnd,
    PartKind,
    PartStart,
    Reason,
    ReasoningDelta,
    Signature,
    TextDelta,
    Usage,
    merge_usage,
)
from rivermouth.ir.lanes import WAITING_CAP_CHARS, Lanes, Said
from rivermouth.ir.request import ToolCall
from rivermouth.wire import json

_HEAD: Final = b'{"candidates":[{"content":{"role":"model","parts":[{"text":'
_THOUGHT: Final = b',"thought":true'
_EVERY: Final = b'"finishReason":"STOP",'
_TEXTS: Final[dict[PartKind, bytes]] = {
    PartKind.TEXT: b"",
    PartKind.REFUSAL: b"",
    PartKind.REASONING: _THOUGHT,
}


_encode: Final = json.encode


class Encoder:
    """Events to bytes.

    Raises `ApiError` when what has to wait is more than the cap; what came before it goes out before the error.
    """

    __slots__ = (
        "_answer",
        "_around",
        "_call_chars",
        "_calls",
        "_choices",
        "_done",
        "_every",
        "_framing",
        "_lanes",
        "_opening",
        "_starts",
        "_tail",
        "_unsent",
        "_usage",
        "_waiting",
    )

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._framing = framing(answer.surface)
        self._opening = self._framing.opening  # not yet sent
        self._every = FINISH_EVERY in answer.surface.options
        self._tail = b',"modelVersion":%b,"responseId":%b}' % (_encode(answer.model), _encode(answer.id))
        self._starts: dict[int, PartStart] = {}  # every open part
        self._around: dict[int, tuple[bytes, bytes]] = {}  # text part that speaks -> what stands around its text
        self._calls: dict[int, list[str]] = {}  # call that speaks -> its arguments so far
        self._call_chars = 0
        self._lanes = Lanes()
        self._waiting: dict[int, str] = {}  # choice -> a signature for the call that comes next
        self._choices = 1
        self._unsent: list[bytes] = []
        self._usage: Usage | None = None
        self._done = False

    def feed(self, events: list[Event]) -> bytes:
        """The frames of these events, all at once.  After Finish or Error there are none."""
        out: list[bytes] = []
        try:
            self._write(events, out)
        except ApiError:
            self._unsent += out
            raise
        if self._opening and out:
            out.insert(0, self._opening)
            self._opening = b""
        return b"".join(out)

    def statistics(self) -> dict[str, int]:
        """`waiting_chars` (of calls that are not yet whole, and of parts that wait for an earlier one), `cap_chars`."""
        waits = self._lanes.statistics()
        return {**waits, "waiting_chars": waits["waiting_chars"] + self._call_chars}

    def _write(self, events: list[Event], out: list[bytes]) -> None:
        around = self._around
        for event in events:
            kind = type(event)
            if kind is TextDelta or kind is ReasoningDelta:
                found = around.get(event.part)  # type: ignore[union-attr]
                if found is not None:
                    out += (found[0], _encode(event.text), found[1])  # type: ignore[union-attr]
                    continue
            if not self._done:
                handler = self._HANDLERS.get(kind)
                if handler is not None:
                    handler(self, event, out)

    # -- parts --------------------------------------------------------------------------------------------------------

    def _on_part_start(self, event: PartStart, out: list[bytes]) -> None:
        self._choices = max(self._choices, event.choice + 1)
        self._starts[event.part] = event
        if self._lanes.open(event.part, event.choice):
            self._speak(event)

    def _speak(self, start: PartStart) -> None:
        if start.kind is PartKind.TOOL:
            self._calls[start.part] = []
        elif start.kind in _TEXTS and not start.redacted:
            every = _EVERY if self._every else b""
            tail = b'%b}]},%b"index":%d}]%b' % (_TEXTS[start.kind], every, start.choice, self._tail)
            self._around[start.part] = (self._framing.before + _HEAD, tail + self._framing.after)

    def _take_turns(self, turns: list[Said], out: list[bytes]) -> None:
        """Parts that waited say what they have to say."""
        for part, said, ended in turns:
            self._speak(self._starts[part])
            self._write(said, out)
            if ended:
                self._end_part(part, out)

    def _on_text(self, event: TextDelta | ReasoningDelta, out: list[bytes]) -> None:
        """Text of a part whose turn has not come, or of one that has no place for it."""
        if self._lanes.waits(event.part):
            self._lanes.hold(event.part, event)

    def _on_args(self, event: ArgsDelta, out: list[bytes]) -> None:
        if self._lanes.waits(event.part):
            self._lanes.hold(event.part, event)
            return
        self._call_chars += len(event.json)
        if self._call_chars > WAITING_CAP_CHARS:
            raise ApiError(Kind.UPSTREAM, f"the arguments of a tool call exceed {WAITING_CAP_CHARS} characters")
        self._calls[event.part].append(event.json)

    def _on_media(self, event: MediaDelta, out: list[bytes]) -> None:
        if self._lanes.waits(event.part):
            self._lanes.hold(event.part, event)
            return
        start = self._starts[event.part]
        write = wire.image if start.kind is PartKind.IMAGE else wire.media
        self._say(start.choice, write(event.media_type, event.data, event.url), out)

    def _on_signature(self, event: Signature, out: list[bytes]) -> None:
        if self._lanes.waits(event.part):
            self._lanes.hold(event.part, event)
            return
        start = self._starts[event.part]
        signed = to_client(event.signature, redacted=start.redacted)
        if signed.place is Place.CALL:
            self._flush(start.choice, out)
            self._waiting[start.choice] = signed.wire
        else:
            empty = wire.thought("") if signed.place is Place.THOUGHT else wire.text("")
            self._say(start.choice, wire.signed(empty, signed.wire), out)

    def _on_part_end(self, event: PartEnd, out: list[bytes]) -> None:
        if self._lanes.waits(event.part):
            self._lanes.hold(event.part, event)
            return
        self._end_part(event.part, out)
        self._take_turns(self._lanes.close(event.part), out)

    def _end_part(self, part: int, out: list[bytes]) -> None:
        start = self._starts.pop(part)
        self._around.pop(part, None)
        pieces = self._calls.pop(part, None)
        if pieces is None:
            return
        self._call_chars -= sum(map(len, pieces))
        called = wire.call(ToolCall(start.id or "", start.name or "", "".join(pieces)))
        self._say(start.choice, wire.signed(called, self._waiting.pop(start.choice, None)), out)

    def _flush(self, choice: int, out: list[bytes]) -> None:
        """A signature whose call did not come stands alone."""
        waiting = self._waiting.pop(choice, None)
        if waiting is not None:
            self._say(choice, wire.signed(wire.thought(""), waiting), out)

    def _say(self, choice: int, part: wire.WirePart, out: list[bytes]) -> None:
        """A frame of one part."""
        body = response([candidate(choice, [part], Reason.STOP if self._every else None)], None, self._answer)
        out += (self._framing.before, _encode(body), self._framing.after)

    # -- the end ------------------------------------------------------------------------------------------------------

    def _on_usage(self, event: Usage, out: list[bytes]) -> None:
        self._usage = merge_usage(self._usage, event)

    def _on_finish(self, event: Finish, out: list[bytes]) -> None:
        for choice in list(self._waiting):
            self._flush(choice, out)
        reasons = event.reasons or (event.reason,)
        candidates = [
            candidate(i, [wire.text("")], reasons[i] if i < len(reasons) else event.reason)
            for i in range(max(self._choices, len(reasons)))
        ]
        self._end(_encode(response(candidates, self._usage, self._answer)), out)

    def _on_error(self, event: Error, out: list[bytes]) -> None:
        out[:0] = self._unsent
        self._take_turns(self._lanes.drain(), out)  # what was produced is not kept back
        self._end(error_body(event.error), out)

    def _end(self, payload: bytes, out: list[bytes]) -> None:
        out += (self._framing.before, payload, self._framing.last)
        self._done = True
        self._around.clear()

    # Start, Warn and Unknown have no frame.
    _HANDLERS: ClassVar[dict[type, Callable[[Encoder, Any, list[bytes]], None]]] = {
        PartStart: _on_part_start,
        TextDelta: _on_text,
        ReasoningDelta: _on_text,
        ArgsDelta: _on_args,
        MediaDelta: _on_media,
        Signature: _on_signature,
        PartEnd: _on_part_end,
        Usage: _on_usage,
        Finish: _on_finish,
        Error: _on_error,
    }


def response(candidates: list[dict[str, Any]], usage: Usage | None, answer: Answer) -> dict[str, Any]:
    """A response object; what is in a frame and in a whole reply has the same order."""
    counted = {} if usage is None else {"usageMetadata": counts.to_wire(usage)}
    return {"candidates": candidates, **counted, "modelVersion": answer.model, "responseId": answer.id}


def candidate(index: int, parts: list[wire.WirePart], reason: Reason | None) -> dict[str, Any]:
    finish = {} if reason is None else {"finishReason": FINISH_OUT[reason]}
    return {"content": {"role": "model", "parts": parts}, **finish, "index": index}

"""Events to a client's lines of JSON.

A text line is a constant head, the encoded text and a constant tail.  There is one place for all text, so of the texts
that are open one speaks and the others wait (F26).  Calls go out in pieces as they come, each with its index; then once
more whole, and whole again in the `response` that ends the stream.
"""

from __future__ import annotations

from typing import Any, Final

from rivermouth.dialects.cohere_v1.tables import ERROR, FINISH_REASONS
from rivermouth.dialects.cohere_v1.transcript import Transcript, too_long
from rivermouth.dialects.dialect import Answer
from rivermouth.ir import media
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
    TextDelta,
    Usage,
    merge_usage,
)
from rivermouth.ir.lanes import Lanes, Said
from rivermouth.vendors.cohere.failures import sentence
from rivermouth.wire import json
from rivermouth.wire.ndjson import line

TEXT_HEAD: Final = b'{"is_finished":false,"event_type":"text-generation","text":'
_TAIL: Final = b"}\n"
_encode: Final = json.encode


class Encoder:
    """Speaks choice 0.  After Finish or Error it says nothing more.

    Raises `ApiError` for an answer that is too long to be repeated at the end, and when what waits is more than the
    cap; what came before it goes out before the error.
    """

    __slots__ = ("_answer", "_begun", "_calls", "_done", "_failed", "_lanes", "_said", "_speaks", "_unsent", "_usage")

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._begun = False
        self._done = False
        self._failed = False
        self._speaks: set[int] = set()  # the open parts whose text goes out as it comes: one at most
        self._lanes = Lanes()
        self._calls: dict[int, int] = {}  # call parts -> their index
        self._said = Transcript()
        self._unsent: list[bytes] = []
        self._usage: Usage | None = None

    def feed(self, events: list[Event]) -> bytes:
        """The lines of these events, all at once."""
        out: list[bytes] = []
        try:
            self._write(events, out)
        except ApiError:
            self._unsent += out
            raise
        return b"".join(out)

    def statistics(self) -> dict[str, int]:
        """`held_bytes`, of what the last line will repeat, and `waiting_chars`, each with its cap."""
        return {**self._said.statistics(), **self._lanes.statistics()}

    def _write(self, events: list[Event], out: list[bytes]) -> None:
        speaks, keep = self._speaks, self._said.text
        for event in events:
            if self._done:
                break
            if type(event) is TextDelta and event.part in speaks:
                encoded = _encode(event.text)
                if not keep(encoded) and not self._failed:
                    raise too_long()
                if not self._begun:
                    self._begin(out)
                out += (TEXT_HEAD, encoded, _TAIL)
            else:
                self._other(event, out)

    def _other(self, event: Event, out: list[bytes]) -> None:
        match event:
            case TextDelta():
                self._hold(event)
            case ArgsDelta():
                self._argue(event, out)
            case PartStart():
                self._part(event, out)
            case PartEnd():
                self._part_end(event, out)
            case MediaDelta():
                self._write([TextDelta(event.part, media.sentence(PartKind.FILE, event.url))], out)
            case Usage():
                self._usage = merge_usage(self._usage, event)
            case Finish():
                if self._calls:
                    self._line(out, "tool-calls-generation", {"tool_calls": self._said.calls()})
                self._end(FINISH_REASONS[event.reason], {}, out)
            case Error():
                self._fail(event, out)
            case _:  # Start, reasoning, signatures, Warn and Unknown have no place on this wire
                pass

    # -- parts --------------------------------------------------------------------------------------------------------

    def _part(self, event: PartStart, out: list[bytes]) -> None:
        if event.choice or event.kind is PartKind.REASONING:
            return
        if event.kind is not PartKind.TOOL:
            if self._lanes.open(event.part, None):
                self._speaks.add(event.part)
            return
        identity, name = event.id or "", event.name or ""
        index = self._calls[event.part] = self._said.call(identity, name)
        self._line(out, "tool-calls-chunk", {"tool_call_delta": {"index": index, "name": name, "id": identity}})

    def _hold(self, event: TextDelta | PartEnd) -> None:
        if self._lanes.waits(event.part):
            self._lanes.hold(event.part, event)

    def _part_end(self, event: PartEnd, out: list[bytes]) -> None:
        if event.part in self._speaks:
            self._speaks.remove(event.part)
            self._take_turns(self._lanes.close(event.part), out)
        else:
            self._hold(event)

    def _take_turns(self, turns: list[Said], out: list[bytes]) -> None:
        """Parts that waited say what they have to say."""
        for part, said, ended in turns:
            self._speaks.add(part)
            self._write(said, out)
            if ended:
                self._speaks.remove(part)

    def _argue(self, event: ArgsDelta, out: list[bytes]) -> None:
        index = self._calls.get(event.part)
        if index is None:
            return
        if not self._said.argue(index, event.json) and not self._failed:
            raise too_long()
        self._line(out, "tool-calls-chunk", {"tool_call_delta": {"index": index, "parameters": event.json}})

    # -- the end ------------------------------------------------------------------------------------------------------

    def _fail(self, event: Error, out: list[bytes]) -> None:
        """What was produced is not kept back, whether or not it fits into the last line too."""
        out[:0] = self._unsent
        self._failed = True
        self._take_turns(self._lanes.drain(), out)
        self._end(ERROR, {"error": sentence(event.error)}, out)

    def _end(self, word: str, more: dict[str, Any], out: list[bytes]) -> None:
        response = self._said.response(self._answer, word, self._usage)
        self._line(out, "stream-end", {"finish_reason": word, **more, "response": response}, finished=True)
        self._done = True

    def _line(self, out: list[bytes], kind: str, members: dict[str, Any], *, finished: bool = False) -> None:
        if not self._begun:
            self._begin(out)
        out.append(line(_encode({"is_finished": finished, "event_type": kind, **members})))

    def _begin(self, out: list[bytes]) -> None:
        self._begun = True
        start = {"is_finished": False, "event_type": "stream-start", "generation_id": self._answer.id}
        out.append(line(_encode(start)))


def failed_end(said: Transcript, answer: Answer, error: ApiError) -> bytes:
    """The last line of a stream that failed: what was said, and the error."""
    response = said.response(answer, ERROR, None)
    end = {"is_finished": True, "event_type": "stream-end", "finish_reason": ERROR, "error": sentence(error)}
    return line(_encode({**end, "response": response}))

"""This dialect on both sides: lines pass as they came; the protocol does not even say the model's name.  Only a whole
answer, which a server that does not stream gives under the same media type, is said anew as a stream.

The decoder taps the same lines, and its word decides what the client sees of the end: `stream-end` passes only when it
made a Finish.  What is passed is also kept, since a stream that fails must still end with all that it said.
"""

from __future__ import annotations

from rivermouth.dialects.cohere_v1.encoder import Encoder, failed_end
from rivermouth.dialects.cohere_v1.reply import encode_reply, parse_reply, streamed
from rivermouth.dialects.cohere_v1.transcript import Transcript
from rivermouth.dialects.dialect import Answer
from rivermouth.ir.errors import ApiError
from rivermouth.ir.events import ArgsDelta, Error, Event, Finish, PartKind, PartStart, TextDelta
from rivermouth.wire import json
from rivermouth.wire.frame import Frame


class Relay:
    """Lines to the bytes for a client of the same dialect."""

    __slots__ = ("_answer", "_calls", "_done", "_said")

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._done = False
        self._calls: dict[int, int] = {}  # call parts -> their index
        self._said = Transcript()

    def feed(self, frame: Frame, events: list[Event]) -> bytes:
        """The client's line for one line of the upstream; nothing after the stream's one end."""
        if self._done:
            return b""
        if len(events) > 1 and type(events[-1]) is Finish and not streamed(frame.data):
            self._done = True
            return Encoder(self._answer).feed(events)
        for event in events:
            match event:
                case TextDelta():
                    self._said.text(json.encode(event.text))
                case ArgsDelta():
                    self._said.argue(self._calls[event.part], event.json)
                case PartStart(kind=PartKind.TOOL):
                    self._calls[event.part] = self._said.call(event.id or "", event.name or "")
                case Error():
                    return self.fail(event.error)
                case Finish():
                    self._done = True
                case _:
                    pass
        return json.line_safe(frame.data) + b"\n"

    def fail(self, error: ApiError) -> bytes:
        """The stream ends here, badly, with all that it said."""
        if self._done:
            return b""
        self._done = True
        return failed_end(self._said, self._answer, error)


def relay_reply(body: bytes, answer: Answer) -> bytes:
    """A whole reply as it came: there is nothing in it to touch.  A stream that nobody asked for becomes one."""
    return encode_reply(parse_reply(body), answer) if streamed(body) else json.line_safe(body)

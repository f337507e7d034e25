"""This dialect on both sides: frames pass as they came; the protocol does not even say the model's name.

The decoder taps the same frames, and its word decides what the client sees of the end: `message-end` passes only when
it made a Finish, and an error is said in our own frame after closing what is open.
"""

from __future__ import annotations

from typing import Final

from rivermouth.dialects.cohere_v2 import frames
from rivermouth.dialects.cohere_v2.encoder import stream_error
from rivermouth.dialects.dialect import Answer
from rivermouth.ir.errors import ApiError
from rivermouth.ir.events import Error, Event, Finish
from rivermouth.wire import json, sse
from rivermouth.wire.frame import Frame

_PLAIN: Final = b"event: content-delta\ndata: "


class Relay:
    """Frames to the bytes for a client of the same dialect."""

    __slots__ = ("_answer", "_begun", "_done", "_open")

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._begun = False
        self._done = False
        self._open: list[int] = []  # indexes of the texts that were passed and not closed

    def feed(self, frame: Frame, events: list[Event]) -> bytes:
        """The bytes for one frame; b"" for one that is not the client's to see."""
        if self._done:
            return b""
        data = frame.data
        if frame.name == "content-delta" and b"\n" not in data:  # the hot path
            return _PLAIN + json.line_safe(data) + b"\n\n"
        if events and type(events[-1]) is Error:
            return self.fail(events[-1].error)
        name = frames.frame_type(frame)
        if name == frames.DONE or (name == "message-start" and self._begun):
            return b""
        if name == "content-start":
            self._open.append(_index(data))
        elif name == "content-end":
            index = _index(data)
            self._open = [each for each in self._open if each != index]
        elif name == "message-start":
            self._begun = True
        elif name == "message-end":
            if not events or type(events[-1]) is not Finish:
                return b""
            self._done = True
        data = json.line_safe(data).replace(b"\n", b"\ndata: ")
        return sse.event(name, data) if name else sse.data(data)

    def fail(self, error: ApiError) -> bytes:
        """Closes the texts that are open, in order, and says the error.  Nothing comes after it.

        A call stays open: who waits for its end would run it.
        """
        if self._done:
            return b""
        self._done = True
        closed = [sse.event("content-end", b'{"type":"content-end","index":%d}' % index) for index in self._open]
        return b"".join([*closed, stream_error(error, self._answer.id)])


def relay_reply(body: bytes, answer: Answer) -> bytes:
    """A whole reply as it came: there is nothing in it to touch."""
    return json.line_safe(body)


def _index(data: bytes) -> int:
    return json.decode_as(frames.INDEXED, data).index or 0

"""This dialect on both sides: frames pass as they came, but for the model's name, and `usage` for who did not ask.

The chunk that ends a choice is held until what follows it shows that the stream goes on or is over: a stream that is
cut off must not look complete (F10).
"""

from __future__ import annotations

from typing import Final

from rivermouth.dialects.dialect import Answer
from rivermouth.dialects.openai_completions.encoder import DONE
from rivermouth.dialects.openai_completions.failures import encode_stream_error
from rivermouth.dialects.openai_completions.shapes import Chunk
from rivermouth.ir.errors import ApiError
from rivermouth.ir.events import Error, Event, Finish
from rivermouth.vendors.openai.splice import drop_member, replace_member, unended
from rivermouth.wire import json, sse
from rivermouth.wire.frame import Frame

_LF: Final = ord("\n")
_USAGE: Final = b'"usage"'
_chunk: Final = json.typed(Chunk)


class Relay:
    """Frames and their events in, bytes out.  Holds at most one finish chunk and one usage chunk."""

    __slots__ = ("_done", "_finish", "_name", "_said", "_usage", "_wants_usage")

    def __init__(self, answer: Answer) -> None:
        self._wants_usage = answer.request is not None and answer.request.include_usage
        self._name = json.encode(answer.model)
        self._finish = b""
        self._said = b""  # the same, should its end not come
        self._usage = b""
        self._done = False

    def feed(self, frame: Frame, events: list[Event]) -> bytes:
        """The bytes for one frame; b"" for one that is held back or is nothing of the client's."""
        data = frame.data
        if self._done or not data:
            return b""
        last = events[-1] if events else None
        if isinstance(last, Error):
            return self.fail(last.error)
        if isinstance(last, Finish):
            self._done = True
            return self._finish + self._usage + DONE
        if data.startswith(b"[DONE]"):
            return b""
        return self._chunk(data)

    def fail(self, error: ApiError) -> bytes:
        """The in-stream error.  The end that a held chunk told of did not come; what it says beside that did."""
        if self._done:
            return b""
        self._done = True
        return self._said + encode_stream_error(error)

    def _chunk(self, data: bytes) -> bytes:
        chunk = json.decode_as(_chunk, data)
        data = replace_member(data, "model", self._name)
        if not self._wants_usage and _USAGE in data:
            data = drop_member(data, "usage")
        if chunk.usage is not None and not chunk.choices:
            self._usage = _frame(data) if self._wants_usage else b""
            return b""
        if not any(choice.finish_reason for choice in chunk.choices or ()):
            return _frame(data)
        earlier, self._finish = self._finish, _frame(data)
        self._said = _frame(unended(data)) if any(choice.text for choice in chunk.choices or ()) else b""
        return earlier


def relay_reply(body: bytes, answer: Answer) -> bytes:
    """A whole reply as it came, with the model's name.  Raises `WireError`."""
    return replace_member(body, "model", json.encode(answer.model))


def _frame(data: bytes) -> bytes:
    """A frame on one line: a line break can only be white space between tokens, so a space is as good."""
    if _LF in data:
        data = data.replace(b"\n", b" ")
    return sse.data(json.line_safe(data))

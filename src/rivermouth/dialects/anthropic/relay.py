"""This dialect on both sides: frames pass as they came; only the model's name in message_start is ours.

The decoder taps the same frames, and its word decides what the client sees of the end: message_stop passes only
when it made a Finish, and an error is said in our own envelope.
"""

from __future__ import annotations

import msgspec

from rivermouth.dialects.anthropic.decoder import frame_type
from rivermouth.dialects.anthropic.errors import encode_stream_error
from rivermouth.dialects.dialect import Answer
from rivermouth.ir.errors import ApiError, WireError
from rivermouth.ir.events import Error, Event, Finish
from rivermouth.wire import json, sse
from rivermouth.wire.frame import Frame


class _Typed(msgspec.Struct, frozen=True):
    type: str = ""


class _Indexed(msgspec.Struct):
    index: int
    content_block: _Typed = _Typed()


_indexed = json.typed(_Indexed)
_CALLS = "tool_use"
"""How the types of blocks end that somebody runs when they are whole."""


class Relay:
    """Frames to the bytes for a client of the same dialect."""

    __slots__ = ("_answer", "_begun", "_done", "_open")

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._begun = False
        self._done = False
        self._open: list[int] = []  # wire indexes of the blocks that an error closes

    def feed(self, frame: Frame, events: list[Event]) -> bytes:
        if self._done or frame.data == b"[DONE]":
            return b""
        if events and type(events[-1]) is Error:
            return self.fail(events[-1].error)
        name, data = frame_type(frame), json.line_safe(frame.data)
        match name:
            case "content_block_start":
                begun = json.decode_as(_indexed, data)
                if not begun.content_block.type.endswith(_CALLS):
                    self._open.append(begun.index)
            case "content_block_stop":
                index = json.decode_as(_indexed, data).index
                self._open = [i for i in self._open if i != index]
            case "message_start":
                if self._begun:
                    return b""
                self._begun = True
                data = rename(data, self._answer.model, inside="message")
            case "message_stop":
                if not events or type(events[-1]) is not Finish:
                    return b""
                self._done = True
        return sse.event(name, data.replace(b"\n", b"\ndata: ")) if name else sse.data(data)

    def fail(self, error: ApiError) -> bytes:
        """Closes the blocks that are open, in order, and says the error.  Nothing comes after it.

        A call stays open: agents run a call when its block ends, and the error comes too late for them.
        """
        if self._done:
            return b""
        self._done = True
        stops = [sse.event("content_block_stop", b'{"type":"content_block_stop","index":%d}' % i) for i in self._open]
        return b"".join([*stops, encode_stream_error(error, self._answer.id)])


def relay_reply(body: bytes, answer: Answer) -> bytes:
    """A whole reply with only the model's name replaced."""
    return rename(body, answer.model)


def rename(data: bytes, model: str, *, inside: str | None = None) -> bytes:
    """The object with its `model` (or that of its member `inside`) replaced; every other value keeps its bytes.

    Raises `WireError` when there is no such object.
    """
    fields = json.fields(data)
    if inside is None:
        fields["model"] = json.raw(model)
    elif inside in fields:
        fields[inside] = msgspec.Raw(rename(bytes(fields[inside]), model))
    else:
        raise WireError(f"a frame without {inside!r}")
    return json.encode(fields)

"""This dialect on both sides: frames pass as they came.

What is edited, and nothing else: the model's name; `usage`, if the client did not ask for it; the routing block on the
last finish chunk; the upstream's error, which becomes ours.  The last finish chunk and the usage chunk are held until
`[DONE]`: only then the end is true, and only then the routing block knows what the answer cost.
"""

from __future__ import annotations

from typing import Final

from rivermouth.dialects.dialect import Answer
from rivermouth.dialects.openai_chat.encoder import DONE
from rivermouth.dialects.openai_chat.failures import encode_stream_error
from rivermouth.dialects.openai_chat.shapes import Chunk
from rivermouth.dialects.openai_chat.template import LEARN_CAP, PROBE, cut
from rivermouth.ir.errors import ApiError
from rivermouth.ir.events import ArgsDelta, Error, Event, Finish, PartEnd, ReasoningDelta, TextDelta, Usage
from rivermouth.vendors.openai.splice import drop_member, members, replace_member, set_member, unended
from rivermouth.wire import json, sse
from rivermouth.wire.frame import Frame
from rivermouth.wire.stencil import Stencil

_PLAIN: Final = frozenset({TextDelta, ReasoningDelta, ArgsDelta})
_CLOSING: Final = frozenset({PartEnd, Usage})
_NULL_USAGE: Final = b',"usage":null'
_LF: Final = ord("\n")
_chunk: Final = json.typed(Chunk)


class Relay:
    """Frames and their events in, bytes out.  Holds at most one finish chunk and one usage chunk."""

    def __init__(self, answer: Answer) -> None:
        request = answer.request
        self._answer = answer
        self._wants_usage = request is not None and request.include_usage
        self._name = json.encode(answer.model)
        self._needle = b""  # the model member as this upstream writes it
        self._member = b""  # and what takes its place
        self._head: bytes | None = None  # the last text frame, cut around its text,
        self._tail = b""
        self._edited = (b"", b"")  # and the same, edited and framed
        self._lessons = 0
        self._finish: bytes | None = None
        self._says = False  # something, beside the end
        self._usage: bytes | None = None
        self._done = False

    def feed(self, frame: Frame, events: list[Event]) -> bytes:
        """The bytes for one frame; b"" for one that is held back or is nothing of the client's."""
        if self._done:
            return b""
        data = frame.data
        if len(events) == 1 and type(events[0]) in _PLAIN:
            head = self._head
            if head is not None and data.startswith(head) and data.endswith(self._tail):
                text = data[len(head) : len(data) - len(self._tail)]
                if _is_string(text):
                    before, after = self._edited
                    return before + (text if text.isascii() else json.line_safe(text)) + after
            framed = self._plain(data)
            if self._lessons < LEARN_CAP:
                self._learn(data)
            return framed
        last = events[-1] if events else None
        if isinstance(last, Error):
            return self.fail(last.error)
        if isinstance(last, Finish):
            return self._end()
        if not data or data.startswith(b"[DONE]"):
            return b""
        return self._whole(data, events)

    def plain(self, part: int, upstream: Stencil) -> Stencil | None:
        """What stands around the next delta, given what stands around it in the upstream's frame."""
        if self._head is None or self._done or upstream != (self._head + b'"', b'"' + self._tail):
            return None
        before, after = self._edited
        return Stencil(before + b'"', b'"' + after)

    def fail(self, error: ApiError) -> bytes:
        """The in-stream error.  The end that a held chunk told of did not come (F10); what it says beside that did."""
        if self._done:
            return b""
        self._done = True
        said = _frame(unended(self._finish)) if self._finish is not None and self._says else b""
        return said + encode_stream_error(error)

    def _plain(self, data: bytes) -> bytes:
        """A chunk that only carries on an open part: neither the finish nor usage can stand in it."""
        if self._needle and data.count(self._needle) == 1:
            data = data.replace(self._needle, self._member)
        else:
            data = self._rename(data)
        if not self._wants_usage and b'"usage"' in data:
            data = _without_usage(data)
        return _frame(data)

    def _learn(self, data: bytes) -> None:
        """Cut the frame around its text and edit what stands around it, once; a probe in its place proves the cut."""
        self._lessons += 1
        parts = cut(data)
        if parts is None:
            return
        head, tail = parts
        before, found, after = self._plain(head + PROBE + tail).partition(PROBE)
        if found:
            self._head, self._tail, self._edited = head, tail, (before, after)

    def _whole(self, data: bytes, events: list[Event]) -> bytes:
        """A chunk that opens, closes or counts something."""
        chunk = json.decode_as(_chunk, data)
        data = self._rename(data)
        if not chunk.choices and chunk.usage is not None:
            self._usage = data if self._wants_usage else None
            return b""
        if not self._wants_usage:
            data = _without_usage(data)
        if not any(choice.finish_reason for choice in chunk.choices or ()):
            return _frame(data)
        earlier, self._finish = self._finish, data
        self._says = any(type(event) not in _CLOSING for event in events)
        return _frame(earlier) if earlier is not None else b""

    def _end(self) -> bytes:
        self._done = True
        finish = self._finish
        if finish is not None and self._answer.routing is not None:
            key, block = self._answer.routing
            finish = set_member(finish, key, json.encode(block))
        return b"".join([*(_frame(held) for held in (finish, self._usage) if held is not None), DONE])

    def _rename(self, data: bytes) -> bytes:
        """The model's name replaced; learns how this upstream writes it."""
        model = members(data).get("model")
        if model is None:
            return data
        edited = replace_member(data, "model", self._name)
        for head in (b'"model":', b'"model": '):
            needle = head + bytes(model)
            if data.count(needle) == 1 and data.replace(needle, head + self._name) == edited:
                self._needle, self._member = needle, head + self._name
        return edited


def relay_reply(body: bytes, answer: Answer) -> bytes:
    """A whole reply as it came, with the model's name and the routing block.  Raises `WireError`."""
    data = replace_member(body, "model", json.encode(answer.model))
    if answer.routing is not None:
        key, block = answer.routing
        data = set_member(data, key, json.encode(block))
    return data


def _without_usage(data: bytes) -> bytes:
    if data.count(_NULL_USAGE) == 1 and data.count(b'"usage"') == 1:
        return data.replace(_NULL_USAGE, b"")
    return drop_member(data, "usage")


def _is_string(data: bytes) -> bool:
    """True for exactly one JSON string.  The decoder has read the frame, so it is JSON: only a quote inside matters."""
    if data.count(b'"') == 2 and data[:1] == data[-1:] == b'"' and data[-2:-1] != b"\\":
        return True
    return json.text(data) is not None


def _frame(data: bytes) -> bytes:
    """A frame on one line: a line break can only be white space between tokens, so a space is as good."""
    if _LF in data:
        data = data.replace(b"\n", b" ")
    return sse.data(json.line_safe(data))

"""This dialect on both sides: frames pass as they came.

What is edited, and nothing else: in the events that hold a whole response its id, its model and what is kept of it
are ours; an upstream's failure is said again in our own words.
"""

from __future__ import annotations

from typing import Final

import msgspec

from rivermouth.dialects.dialect import Answer
from rivermouth.dialects.openai_responses.decoder import frame_type
from rivermouth.dialects.openai_responses.frames import Frames
from rivermouth.dialects.openai_responses.response import Template, kept, response_id
from rivermouth.ir.errors import ApiError, WireError
from rivermouth.ir.events import Error, Event, Finish
from rivermouth.vendors.openai.splice import members, write
from rivermouth.wire import json, sse
from rivermouth.wire.frame import Frame

_LF: Final = ord("\n")
_RESPONSE: Final = "response"
_DELTA: Final = ".delta"


class _Numbered(msgspec.Struct):
    sequence_number: int = 0


_numbered: Final = json.typed(_Numbered)


class Relay:
    """Frames and their events in, bytes out."""

    __slots__ = ("_answer", "_done", "_last")

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._last: bytes | None = None  # the last frame that was passed
        self._done = False

    def feed(self, frame: Frame, events: list[Event]) -> bytes:
        """The bytes for one frame."""
        data = frame.data
        if self._done or not data or data.startswith(b"[DONE]"):
            return b""
        last = events[-1] if events else None
        if type(last) is Error:
            return self.fail(last.error)
        self._done = type(last) is Finish
        self._last = data
        name = frame_type(frame)
        if not name.endswith(_DELTA):
            data = _ours(data, self._answer)
        if _LF in data:  # only between tokens, so a space is as good
            data = data.replace(b"\n", b" ")
        data = json.line_safe(data)
        return sse.event(name, data) if name else sse.data(data)

    def fail(self, error: ApiError) -> bytes:
        """The response fails; its number goes on from what was passed, and without anything before it, it begins."""
        if self._done:
            return b""
        self._done = True
        out: list[bytes] = []
        template = Template(self._answer)
        if self._last is None:
            frames = Frames()
            frames.lifecycle("created", template.fill("in_progress", ()), out)
        else:
            frames = Frames(_number(self._last) + 1)
        frames.lifecycle("failed", template.fill("failed", (), error=error), out)
        return b"".join(out)


def relay_reply(body: bytes, answer: Answer) -> bytes:
    """A whole reply as it came, but for what is ours.  Raises `WireError`."""
    return write(_edited(members(body), answer))


def _ours(data: bytes, answer: Answer) -> bytes:
    """The event with what is ours in its response, if it has one."""
    fields = members(data)
    if bytes(fields.get(_RESPONSE, b""))[:1] != b"{":
        return data
    fields[_RESPONSE] = msgspec.Raw(write(_edited(members(fields[_RESPONSE]), answer)))
    return write(fields)


def _edited(response: dict[str, msgspec.Raw], answer: Answer) -> dict[str, msgspec.Raw]:
    own = {"id": response_id(answer), "model": answer.model}
    if answer.request is not None and answer.request.kept is not None:
        own |= kept(answer.request)
    return {**response, **{name: json.raw(value) for name, value in own.items()}}


def _number(data: bytes) -> int:
    try:
        return json.decode_as(_numbered, data).sequence_number
    except WireError:
        return 0

"""This dialect on both sides: frames pass as they came; only the model's name is ours, and the framing the client's.

An upstream's frames end alike, `"modelVersion":"..","responseId":".."}`: that end is learnt and exchanged, which is
exact, since nothing but the object itself can close there.
"""

from __future__ import annotations

from typing import Final

from rivermouth.dialects.dialect import Answer
from rivermouth.dialects.gemini.decoder import DONE
from rivermouth.dialects.gemini.errors import error_body
from rivermouth.dialects.gemini.framing import framing
from rivermouth.dialects.gemini.tables import FINISH_FAILED
from rivermouth.ir.errors import ApiError
from rivermouth.ir.events import Error, Event, Finish, ReasoningDelta, TextDelta
from rivermouth.wire import json
from rivermouth.wire.frame import Frame

_MEMBER: Final = "modelVersion"
_KEY: Final = b'"modelVersion":'
_LF, _CR = b"\n\r"  # to look for a number is far faster than to look for bytes of length one
_PLAIN: Final = frozenset({TextDelta, ReasoningDelta})
_ENDS: Final = frozenset({Finish, Error})
_FAILED: Final = frozenset(word.lower() for word in FINISH_FAILED)


class Relay:
    """Frames to the bytes for a client of the same dialect."""

    __slots__ = ("_before", "_cut", "_done", "_end", "_framing", "_mine", "_model", "_opening")

    def __init__(self, answer: Answer) -> None:
        self._framing = framing(answer.surface)
        self._opening = self._framing.opening  # not yet sent
        self._model = json.encode(answer.model)
        self._before = self._framing.before
        self._end: bytes | None = None  # how this upstream's objects end, from the model's name on
        self._cut = 0  # where that begins, from the end
        self._mine = b""  # and the same with the client's name for it, and what stands behind a frame
        self._done = False

    def feed(self, frame: Frame, events: list[Event]) -> bytes:
        """The bytes for one frame.  An end that is a failure in the protocol's own words passes like any other."""
        data, end = frame.data, self._end
        if end is not None and len(events) == 1 and type(events[0]) in _PLAIN and data.endswith(end) and not self._done:
            return self._before + _line(data[: self._cut]) + self._mine
        if self._done or data == DONE:
            return b""
        last = events[-1] if events else None
        if type(last) is Error and last.error.code not in _FAILED:
            return self.fail(last.error)
        self._done = type(last) in _ENDS
        return self._framed(self._renamed(data))

    def fail(self, error: ApiError) -> bytes:
        """The error as the last frame; the protocol has nothing to close."""
        if self._done:
            return b""
        self._done = True
        return self._framed(error_body(error))

    def _framed(self, payload: bytes) -> bytes:
        opening, self._opening = self._opening, b""
        form = self._framing
        return opening + form.before + _line(payload) + (form.last if self._done else form.after)

    def _renamed(self, data: bytes) -> bytes:
        """The frame with the client's name for the model; learns how this upstream's frames end."""
        renamed = rename(data, self._model)
        before, found, end = data.rpartition(_KEY)
        mine, same, other = renamed.rpartition(_KEY)
        if found and same and before == mine:
            self._end, self._cut = found + end, -len(found + end)
            self._mine = _line(same + other) + self._framing.after
        return renamed


def _line(payload: bytes) -> bytes:
    """The object on one line; a line break can only be white space between tokens."""
    if _LF in payload or _CR in payload:
        payload = payload.replace(b"\r", b" ").replace(b"\n", b" ")
    return json.line_safe(payload)


def relay_reply(body: bytes, answer: Answer) -> bytes:
    """A whole reply with only the model's name replaced.  Raises `WireError` when it is no object."""
    return json.line_safe(rename(body, json.encode(answer.model)))


def rename(data: bytes, model: bytes) -> bytes:
    """The object with the model's name replaced, if it says one; every other value keeps its bytes."""
    fields = json.fields(data)
    name = fields.get(_MEMBER)
    if name is None:
        return data
    old = _KEY + bytes(name)
    if data.count(old) == 1:
        edited = data.replace(old, _KEY + model)
        if bytes(json.fields(edited)[_MEMBER]) == model:
            return edited
    return json.encode({**fields, _MEMBER: json.Raw(model)})

"""Ollama on both sides: lines pass as they came, with the model's name replaced by the one the client asked for."""

from __future__ import annotations

from typing import Final

from rivermouth.dialects.dialect import Answer
from rivermouth.dialects.ollama.encode import Encoder
from rivermouth.dialects.ollama.failure import stream_error
from rivermouth.ir.errors import ApiError, WireError
from rivermouth.ir.events import Error, Event, Finish
from rivermouth.wire import json
from rivermouth.wire.frame import Frame

_MEMBER: Final = {"chat": "message", "generate": "response"}
_ENDS: Final = (Finish, Error)
_OPENING: Final = b'{"model":'


class Relay:
    """One stream.  If the upstream was asked on the sibling route, its frames are of the other shape: then they are
    translated, from the first on."""

    __slots__ = ("_answer", "_done", "_encoder", "_known", "_mine", "_passed")

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._mine = json.encode(answer.model)
        self._known: bytes | None = None  # how this upstream's lines open, model included
        self._encoder: Encoder | None = None
        self._passed = False  # lines of the client's own shape
        self._done = False

    def feed(self, frame: Frame, events: list[Event]) -> bytes:
        """The client's line for one line of the upstream; nothing after the stream's one end.

        Raises `WireError` when the shape changes on the way.
        """
        if self._done:
            return b""
        if events and type(events[-1]) in _ENDS:
            self._done = True
        if self._encoder is not None:
            return self._encoder.feed(events)
        data, known = frame.data, self._known
        if known is not None and data.startswith(known):  # the hot path: only the opening differs
            return _OPENING + self._mine + json.line_safe(data[len(known) - 1 :]) + b"\n"
        fields = json.fields(data)
        if _foreign(fields, self._answer.kind):
            if self._passed:
                raise WireError("a line of the sibling route")
            self._encoder = Encoder(self._answer)
            return self._encoder.feed(events)
        self._passed = True
        if "model" not in fields:
            return json.line_safe(data) + b"\n"
        known = _OPENING + bytes(fields["model"]) + b","
        self._known = known if data.startswith(known) else None
        return _renamed(fields, self._mine) + b"\n"

    def fail(self, error: ApiError) -> bytes:
        """The stream ends here, badly; there is nothing to close on this wire."""
        if self._done:
            return b""
        self._done = True
        return stream_error(error)


def relay_reply(body: bytes, answer: Answer) -> bytes:
    """The upstream's whole reply with the client's name for the model."""
    fields = json.fields(body)
    return _renamed(fields, json.encode(answer.model)) if "model" in fields else json.line_safe(body)


def _renamed(fields: dict[str, json.Raw], model: bytes) -> bytes:
    return json.encode({**fields, "model": json.Raw(model)})


def _foreign(fields: dict[str, json.Raw], kind: str) -> bool:
    return any(member in fields for other, member in _MEMBER.items() if other != kind) and _MEMBER[kind] not in fields

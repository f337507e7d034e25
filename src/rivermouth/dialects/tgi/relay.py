"""This dialect on both sides.  Frames pass as they came, if the upstream was asked on the route that the client used.

An upstream may answer a stream with one document, which comes here as chat chunks; a native client then gets what the
events say.
"""

from __future__ import annotations

from typing import Final

from rivermouth.dialects.dialect import Answer
from rivermouth.dialects.tgi import chat
from rivermouth.dialects.tgi.chat import ChatEncoder, ChatRelay
from rivermouth.dialects.tgi.decode import is_chat, parse_reply
from rivermouth.dialects.tgi.encode import NativeEncoder, encode_native, frame
from rivermouth.dialects.tgi.failures import error_body
from rivermouth.dialects.tgi.parameters import wishes
from rivermouth.dialects.tgi.tables import CHAT, COMPAT
from rivermouth.ir.errors import ApiError, WireError
from rivermouth.ir.events import Error, Event, Finish
from rivermouth.ir.reply import Reply
from rivermouth.wire import json
from rivermouth.wire.frame import Frame

_entries: Final = json.typed(list[json.Raw])


def encoder(answer: Answer) -> NativeEncoder | ChatEncoder:
    """The encoder of the route that the client used."""
    return ChatEncoder(answer) if answer.kind == CHAT else NativeEncoder(answer)


def encode_reply(reply: Reply, answer: Answer) -> bytes:
    """The whole answer in the form of the route that the client used."""
    return chat.encode_reply(reply, answer) if answer.kind == CHAT else encode_native(reply, answer)


class Relay:
    """The first frame tells whether frames can pass; if not, the events are written anew."""

    __slots__ = ("_answer", "_inner")

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._inner: ChatRelay | NativeRelay | Rewrite | None = None

    def feed(self, frame: Frame, events: list[Event]) -> bytes:
        if self._inner is None:
            self._inner = self._relay(frame, events)
        return self._inner.feed(frame, events)

    def fail(self, error: ApiError) -> bytes:
        if self._inner is None:
            self._inner = ChatRelay(self._answer) if self._answer.kind == CHAT else NativeRelay()
        return self._inner.fail(error)

    def _relay(self, frame: Frame, events: list[Event]) -> ChatRelay | NativeRelay | Rewrite:
        wants_chat = self._answer.kind == CHAT
        if is_chat(frame.data) is not wants_chat and not (events and type(events[-1]) is Error):
            return Rewrite(self._answer)
        return ChatRelay(self._answer) if wants_chat else NativeRelay()


class NativeRelay:
    """Frames as they came; an error in our own words."""

    __slots__ = ("_done",)

    def __init__(self) -> None:
        self._done = False

    def feed(self, received: Frame, events: list[Event]) -> bytes:
        if self._done:
            return b""
        last = events[-1] if events else None
        if isinstance(last, Error):
            return self.fail(last.error)
        self._done = isinstance(last, Finish)
        return frame(json.line_safe(received.data.replace(b"\n", b" ")))

    def fail(self, error: ApiError) -> bytes:
        if self._done:
            return b""
        self._done = True
        return frame(error_body(error))


class Rewrite:
    """The events in the client's own form."""

    __slots__ = ("_encoder",)

    def __init__(self, answer: Answer) -> None:
        self._encoder = encoder(answer)

    def feed(self, frame: Frame, events: list[Event]) -> bytes:
        return self._encoder.feed(events)

    def fail(self, error: ApiError) -> bytes:
        return self._encoder.feed([Error(error)])


def relay_reply(body: bytes, answer: Answer) -> bytes:
    """A whole reply as it came: in the list that the client's route has, and with details only if it asked."""
    if is_chat(body) is not (answer.kind == CHAT):
        return encode_reply(parse_reply(body), answer)
    if answer.kind == CHAT:
        return chat.relay_reply(body, answer)
    fields = json.fields(_first(body))
    if not wishes(answer.request).details:
        fields.pop("details", None)
    return json.encode([fields] if answer.kind == COMPAT else fields)


def _first(body: bytes) -> bytes:
    """The object, out of the list that the compatible route puts it in."""
    if body.lstrip()[:1] != b"[":
        return body
    entries = json.decode_as(_entries, body)
    if not entries:
        raise WireError("a reply without an entry")
    return bytes(entries[0])

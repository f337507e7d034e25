"""What a server of this protocol says, to events: its native frames and its chat, told apart by what comes."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from rivermouth.dialects.tgi import chat
from rivermouth.dialects.tgi.chat import ChatDecoder
from rivermouth.dialects.tgi.failures import stream_error
from rivermouth.dialects.tgi.tables import FINISH_IN, NAME
from rivermouth.ir.errors import ApiError, Kind, WireError, truncated
from rivermouth.ir.events import (
    Error,
    Event,
    Finish,
    PartEnd,
    PartKind,
    PartStart,
    Reason,
    Start,
    TextDelta,
    Usage,
    Warn,
)
from rivermouth.ir.names import quoted
from rivermouth.ir.reply import Choice, Reply
from rivermouth.ir.request import Request, Text
from rivermouth.wire import json
from rivermouth.wire.frame import Frame


class _Token(msgspec.Struct, gc=False):
    text: str = ""
    special: bool = False


class _Details(msgspec.Struct):
    finish_reason: str | None = None
    generated_tokens: int | None = None
    input_length: int | None = None
    prefill: list[Any] | None = None


class _Frame(msgspec.Struct):
    token: _Token | None = None
    generated_text: str | None = None
    details: _Details | None = None
    error: Any = None


class _Whole(msgspec.Struct):
    generated_text: str | None = None
    details: _Details | None = None
    choices: Any = None
    error: Any = None


_frame: Final = json.typed(_Frame)
_whole: Final = json.typed(_Whole)
_wholes: Final = json.typed(list[_Whole])
_decode: Final = json.decode_as


def is_chat(data: bytes) -> bool:
    """True for a chunk or a reply of the chat route: no native one has a member of this name."""
    return b'"choices"' in data or data.startswith(b"[DONE]")


class Decoder:
    """Frames to events.  The first frame tells which of the two streams it is."""

    __slots__ = ("_inner", "_request")

    def __init__(self, request: Request | None = None) -> None:
        self._request = request
        self._inner: NativeDecoder | ChatDecoder | None = None

    def feed(self, frame: Frame) -> list[Event]:
        inner = self._inner
        if inner is None:
            if not frame.data:
                return []
            inner = self._inner = ChatDecoder(self._request) if is_chat(frame.data) else NativeDecoder()
        return inner.feed(frame)

    def eof(self) -> list[Event]:
        if self._inner is None:
            self._inner = NativeDecoder()
        return self._inner.eof()


class NativeDecoder:
    """One text, whose end is the frame that repeats it whole."""

    __slots__ = ("_done", "_open", "_started")

    def __init__(self) -> None:
        self._started = False
        self._open = False
        self._done = False

    def feed(self, frame: Frame) -> list[Event]:
        if self._done:
            return []
        wire = _decode(_frame, frame.data)
        token = wire.token
        if self._open and token is not None and wire.generated_text is None and not token.special and token.text:
            return [TextDelta(0, token.text)]
        if wire.error is not None:
            self._done = True
            return [Error(stream_error(frame.data))]
        if token is None and wire.generated_text is None:
            raise WireError("a frame without a token")
        events: list[Event] = []
        if not self._started:
            self._started = True
            events.append(Start())
        if token is not None and token.text and not token.special:
            if not self._open:
                self._open = True
                events.append(PartStart(0, PartKind.TEXT))
            events.append(TextDelta(0, token.text))
        whole = wire.generated_text
        if whole and not self._open:  # a server that says all of it at once
            self._open = True
            events += [PartStart(0, PartKind.TEXT), TextDelta(0, whole)]
        return events if whole is None else events + self._close(wire.details)

    def eof(self) -> list[Event]:
        if self._done:
            return []
        self._done = True
        return [Error(truncated(NAME, "part 0 (text)" if self._open else None))]

    def _close(self, details: _Details | None) -> list[Event]:
        self._done = True
        events: list[Event] = [PartEnd(0)] if self._open else []
        usage = _usage(details)
        if usage is not None:
            events.append(usage)
        word = details.finish_reason if details is not None else None
        if word is not None and word not in FINISH_IN:
            events.append(Warn(f"the upstream's finish_reason {quoted(word)} is not known", "finish_reason"))
        return [*events, Finish(FINISH_IN.get(word or "", Reason.STOP))]


def parse_reply(body: bytes) -> Reply:
    """A whole reply of either route.  Raises `ApiError` for an error, `WireError` for anything else."""
    if body.lstrip()[:1] == b"[":
        wholes = _decode(_wholes, body)
        if not wholes:
            raise ApiError(Kind.UPSTREAM, "the upstream's reply holds no text", code="empty", provider=NAME)
        whole = wholes[0]
    else:
        whole = _decode(_whole, body)
    if whole.error is not None:
        raise stream_error(body)
    if whole.choices is not None:
        return chat.parse_reply(body)
    if whole.generated_text is None:
        raise WireError("a reply without generated_text")
    word = whole.details.finish_reason if whole.details is not None else None
    parts = (Text(whole.generated_text),) if whole.generated_text else ()
    return Reply(choices=(Choice(parts, FINISH_IN.get(word or "", Reason.STOP)),), usage=_usage(whole.details))


def _usage(details: _Details | None) -> Usage | None:
    """What was counted; the prompt's length, where only its tokens were given, is their number."""
    if details is None:
        return None
    prompt = details.input_length
    if prompt is None and details.prefill:
        prompt = len(details.prefill)
    usage = Usage(input_tokens=prompt, output_tokens=details.generated_tokens)
    return None if usage == Usage() else usage

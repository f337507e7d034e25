"""A chat's frames as its clients get them: data-only SSE, one JSON object with `event` in each, an `id:` on each.

    /stream    start, provider, token ..., and exactly one of done, cancelled, error
    /events    the same across turns, and hello, snapshot, caught_up, bye; reasoning and tool calls too

One entry of the log is one frame, so whoever has read a frame to its end lacks nothing up to its id.

Pure: what a follower has read goes in, bytes come out, the same for the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeGuard

import msgspec

from rivermouth.chat import frames
from rivermouth.chat.machine import State
from rivermouth.ir.events import ArgsDelta, Event, PartKind, PartStart, ReasoningDelta, TextDelta
from rivermouth.log.port import FrameId
from rivermouth.wire import json

KEEP_ALIVE: Final = b": \n\n"

REASONS: Final[dict[State, str]] = {
    State.STOPPED: "stopped by the user",
    State.SUPERSEDED: "superseded by a newer request",
}


class View(msgspec.Struct, frozen=True):
    """pieces: reasoning and tool calls are shown too.  whole: ends carry what lets a client check its text."""

    pieces: bool = False
    whole: bool = False


STREAM: Final = View()
STREAM_PIECES: Final = View(pieces=True)
EVENTS: Final = View(pieces=True, whole=True)


def sse(event: str, at: FrameId | None, **members: Any) -> bytes:
    """One frame."""
    body = json.encode({"event": event, **members})
    head = b"id: %b\n" % str(at).encode() if at is not None else b""
    return head + b"data: " + body + b"\n\n"


def start(at: FrameId | None, message_id: int, generation: int, view: View, user_message_id: int | None) -> bytes:
    more = {"user_message_id": user_message_id} if view.whole and user_message_id is not None else {}
    return sse("start", at, message_id=message_id, generation=generation, **more)


def token(at: FrameId | None, text: str) -> bytes:
    return sse("token", at, token=text)


LONG_CHARS: Final = 8 * 1024


def long(event: str, at: FrameId | None, member: str, text: str, begin: int = 0, **members: Any) -> Iterator[bytes]:
    """One frame whose member `member` is the text from `begin` on, in pieces: so a client that has missed megabytes
    costs no more than one that has missed nothing.  Joined, they are what `sse` gives."""
    head = b"id: %b\n" % str(at).encode() if at is not None else b""
    yield head + b"data: " + json.encode({"event": event, **members})[:-1] + b',"' + member.encode() + b'":"'
    for index in range(begin, len(text), LONG_CHARS):
        yield json.encode(text[index : index + LONG_CHARS])[1:-1]
    yield b'"}\n\n'


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How a turn ended, from its log or from its row."""

    state: str
    message_id: int | None
    provider: str | None
    error: dict[str, str] | None
    text_chars: int
    digest: str | None = None


def ending(at: FrameId | None, end: Ending, view: View) -> bytes:
    """The one end of a turn."""
    state = State(end.state)
    checks = {"text_chars": end.text_chars, "digest": end.digest} if view.whole and end.digest is not None else {}
    if state in REASONS:
        return sse("cancelled", at, reason=REASONS[state], message_id=end.message_id, **checks)
    if state is State.COMPLETED:
        return sse("done", at, message_id=end.message_id, provider=end.provider, **checks)
    error = end.error or {"type": "unavailable", "message": "the answer was interrupted"}
    if end.text_chars:
        interrupted = {"type": error["type"]}
        return sse("done", at, message_id=end.message_id, provider=end.provider, interrupted=interrupted, **checks)
    more = {"message_id": end.message_id} if view.whole else {}
    return sse("error", at, error=error, **more)


def said(at: FrameId, frame: frames.Said, view: View, skip_chars: int = 0) -> bytes:
    """The frame of an entry, which has one piece of the answer (`Inside.take`); b"" where the view does not show it.

    skip_chars: so many of its text were shown before.
    """
    events = [frames.unpack(packed) for packed in frame.events]
    text = "".join(event.text for event in events if isinstance(event, TextDelta))[skip_chars:]
    if text:
        return token(at, text)
    if not view.pieces:
        return b""
    thought = "".join(event.text for event in events if isinstance(event, ReasoningDelta))
    if thought:
        return sse("reasoning", at, reasoning=thought)
    pieces: list[ArgsDelta | PartStart] = [event for event in events if _calls(event)]
    return _tool_call(at, frame, pieces) if pieces else b""


def _tool_call(at: FrameId, frame: frames.Said, pieces: Sequence[ArgsDelta | PartStart]) -> bytes:
    """A call that begins has its name; every piece of its arguments is put behind those before it."""
    part = pieces[0].part
    names = [event.name for event in pieces if isinstance(event, PartStart)]
    arguments = "".join(event.json for event in pieces if isinstance(event, ArgsDelta))
    more: dict[str, Any] = {"name": names[0]} if names else {}
    if arguments:
        more["arguments"] = arguments
    return sse("tool_call", at, call=frame.calls.get(str(part), str(part)), part=part, **more)


def _calls(event: Event) -> TypeGuard[ArgsDelta | PartStart]:
    return isinstance(event, ArgsDelta) or (isinstance(event, PartStart) and event.kind is PartKind.TOOL)


def text_of(frame: frames.Said | frames.Warned) -> str:
    """What a person is shown of it."""
    if isinstance(frame, frames.Warned):
        return frame.text
    return "".join(packed[2] for packed in frame.events if packed[0] == TextDelta.__name__)

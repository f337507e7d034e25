"""The chat as a client of the engine, in this process.

The engine speaks to clients in bytes of their dialect.  This one's is the log's own form of events, a line for each
read, so the engine is used as every client uses it: its commit point, its fallbacks, its clocks and its one end hold
here too, and nothing of a failed attempt arrives.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from itertools import groupby
from typing import Any, Final, NoReturn

import msgspec

from rivermouth.chat.draft import chars_of
from rivermouth.chat.frames import from_lines, to_line
from rivermouth.dialects.dialect import Answer, Dialect, Operation, Route, Surface
from rivermouth.engine.call import Head
from rivermouth.ir.errors import ApiError
from rivermouth.ir.events import (
    ArgsDelta,
    Error,
    Event,
    Finish,
    MediaDelta,
    PartKind,
    PartStart,
    ReasoningDelta,
    TextDelta,
)


class _Encoder:
    def feed(self, events: list[Event]) -> bytes:
        return to_line(events)


def _encoder(answer: Answer) -> _Encoder:
    return _Encoder()


def _never(*_: Any) -> NoReturn:
    raise TypeError("the chat is a client, and it streams")


SURFACE: Final = Surface(prefix="/api/chats", stream_type="text/event-stream")
ROUTE: Final = Route(method="POST", path="/{model}/stream", operation=Operation.GENERATE, kind="chat", streams=True)

CHAT: Final = Dialect(
    name="chat",
    surfaces=(SURFACE,),
    routes=(ROUTE,),
    keys=(),
    keep_alive=None,
    losses=frozenset(),
    parse_request=_never,
    encoder=_encoder,
    encode_reply=_never,
    encode_error=_never,
    build_request=_never,
    reader=_never,
    decoder=_never,
    parse_reply=_never,
    parse_error=_never,
    auth=_never,
)
"""Not discovered, so not served: no client can ask for it."""

_KINDS: Final[dict[type, str]] = {
    TextDelta: "text",
    ReasoningDelta: "reasoning",
    ArgsDelta: "tool",
    MediaDelta: "media",
}


def piece_of(event: Event) -> tuple[str, int] | None:
    """Which piece of the answer it belongs to, for a client: its kind, and of tool calls and media which one.  None for
    what belongs to none, and may stand beside any."""
    if isinstance(event, PartStart):
        return ("tool", event.part) if event.kind is PartKind.TOOL else None
    if isinstance(event, TextDelta | ReasoningDelta):
        return _KINDS[type(event)], 0
    if isinstance(event, ArgsDelta | MediaDelta):
        return _KINDS[type(event)], event.part
    return None


class Inside:
    """The engine's `Sink`: keeps events until their owner takes them, and no more of them than `limit_chars`.

    `wake` is called when there is something to do: `wake_at` characters, or an end.
    finished: the engine has said its last word, which was `failure`, or a good end.
    """

    def __init__(self, limit_chars: int, wake: Callable[[], None]) -> None:
        self.started = False
        self.finished = False
        self.failure: ApiError | None = None
        self.complete = False
        self.wake_at = 0
        self.chars = 0
        self._limit_chars = limit_chars
        self._wake = wake
        self._deaf = False
        self._pending: deque[Event] = deque()
        self._room = asyncio.Event()

    def write(self, data: bytes) -> bool:
        if self.chars >= self._limit_chars and not self._deaf:
            return False
        self._take(data)
        return True

    async def send(self, data: bytes, *, last: bool, head: Head) -> None:
        self.started = True
        while self.chars >= self._limit_chars and not self._deaf:
            self._room.clear()
            await self._room.wait()
        self._take(data)
        if last:
            self._finish()

    async def document(self, body: bytes, *, head: Head) -> None:
        _never()

    async def fail(self, error: ApiError) -> None:
        self.failure = error
        self._finish()

    def hang_up(self) -> None:
        """Hear nothing more; what is here already stays."""
        self._deaf = True
        self._room.set()

    def finish(self) -> None:
        """The engine has returned without a word."""
        if not self.finished:
            self._finish()

    @property
    def pending(self) -> bool:
        return bool(self._pending)

    def take(self, most_chars: int) -> list[Event]:
        """The next events, oldest first, of one piece of the answer only; neighbouring deltas of one part are one."""
        taken: list[Event] = []
        piece: tuple[str, int] | None = None
        chars = 0
        while self._pending and chars < most_chars:
            event = self._pending[0]
            its = piece_of(event)
            if piece is not None and its is not None and its != piece:
                break
            piece = piece or its
            self._pending.popleft()
            chars += chars_of(event)
            taken.append(event)
        self.chars -= chars
        if self.chars < self._limit_chars:
            self._room.set()
        return _joined(taken)

    def _take(self, data: bytes) -> None:
        if self._deaf:
            return
        for event in from_lines(data):
            match event:
                case Error():
                    self.failure = event.error
                case Finish():
                    self.complete = True
                    self._pending.append(event)
                case _:
                    self._pending.append(event)
                    self.chars += chars_of(event)
        if self.chars >= self.wake_at:
            self._wake()

    def _finish(self) -> None:
        self.finished = True
        self._wake()


_JOINED: Final[dict[type, str]] = {TextDelta: "text", ReasoningDelta: "text", ArgsDelta: "json"}
"""Deltas, and what of them is joined."""


def _joined(events: list[Event]) -> list[Event]:
    """Neighbouring deltas of one part as one."""
    out: list[Event] = []
    for (kind, _), run in groupby(events, key=lambda event: (type(event), getattr(event, "part", None))):
        field = _JOINED.get(kind)
        if field is None:
            out += run
        else:
            deltas = list(run)
            whole = "".join(getattr(delta, field) for delta in deltas)
            out.append(msgspec.structs.replace(deltas[0], **{field: whole}) if len(deltas) > 1 else deltas[0])
    return out

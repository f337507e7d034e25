"""The two answers an HTTP upstream can give, as `Upstream`s: a stream of frames, or one document.

`Stream` is the hot path: one read of the socket, one batch, no task woken where `onward` takes it, and no timer.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from rivermouth.dialects.dialect import Answer, Dialect, Operation
from rivermouth.ir.errors import ApiError, Kind, WireError
from rivermouth.ir.events import Error, Event, Finish, TextDelta
from rivermouth.ir.fold import unfold
from rivermouth.ir.reply import Reply
from rivermouth.ir.request import Request
from rivermouth.providers.client import Response
from rivermouth.providers.failures import Failures
from rivermouth.providers.provider import NO_HEADERS, Batch, Onward
from rivermouth.wire.frame import Frame, Reader
from rivermouth.wire.stencil import Stencil, plain_chars

DOCUMENT_CAP_BYTES: Final = 32 * 1024 * 1024

_ENDS: Final = frozenset({Finish, Error})
_LINE_END: Final = b"\n\n"
LEARN_CAP: Final = 8
"""How often a stream may be looked at again: one whose every frame has other framing is read whole each time."""


class Stream:
    """Frames as they come.  `relay`: each frame is kept beside the events it made.

    A last frame without its line end still counts when its payload is whole: JSON that was cut does not parse.
    """

    __slots__ = (
        "_complete",
        "_decode",
        "_decoder",
        "_failures",
        "_feed",
        "_framing",
        "_fresh",
        "_lessons",
        "_plain",
        "_read",
        "_reader",
        "_relay",
        "_response",
        "_returned",
    )

    headers = NO_HEADERS

    def __init__(
        self, response: Response, dialect: Dialect, request: Request, failures: Failures, *, relay: bool
    ) -> None:
        self._response = response
        self._read = response.read
        self._reader: Reader = dialect.reader()
        self._feed = self._reader.feed
        self._decoder = dialect.decoder(request)
        self._decode = self._decoder.feed
        self._plain: Callable[[], tuple[int, Stencil] | None] | None = getattr(self._decoder, "plain", None)
        self._fresh = dialect.reader
        self._framing: tuple[bytes, bytes] | None = None
        self._lessons = LEARN_CAP
        self._failures = failures
        self._relay = relay
        self._complete = False
        self._returned: Batch | None = None

    async def read(self, onward: Onward | None = None) -> Batch:
        data = await self._read(None if onward is None else partial(self._pass_on, onward))
        batch, self._returned = self._returned, None
        if batch is not None:
            return batch
        return self._at_end() if data is None else self._batch(data)

    async def close(self) -> None:
        await self._response.close(complete=self._complete)

    def _pass_on(self, onward: Onward, data: bytes) -> bool:
        """Offer what these bytes say; `read` returns what is not taken."""
        batch = self._batch(data)
        if onward.take(batch):
            event = batch.events[0] if len(batch.events) == 1 else None
            if type(event) is TextDelta and self._plain is not None:
                self._straighten(onward, event.part, data)
            return True
        self._returned = batch
        return False

    def _straighten(self, onward: Onward, part: int, data: bytes) -> None:
        """What has just passed was one delta of text.  If it was one frame, others like it need not be read."""
        found = self._plain() if self._plain is not None else None
        if found is None or found[0] != part or self._reader.statistics()["buffered_bytes"]:
            return
        head, tail = stencil = found[1]
        before, _, rest = data.partition(head)
        text, _, after = rest.partition(tail)
        if plain_chars(text) and self._is_frame(before, after, data, head + text + tail):
            take = onward.plain(part, stencil)
            if take is not None:
                self._response.straighten(data, before + head, tail + after, take)

    def _is_frame(self, before: bytes, after: bytes, data: bytes, payload: bytes) -> bool:
        """These bytes are one frame with that payload, and so are others with the same around another payload."""
        if self._framing == (before, after) and data == before + payload + after:
            return True
        if self._lessons == 0:
            return False
        self._lessons -= 1
        reader = self._fresh()
        frames = reader.feed(data)
        if len(frames) != 1 or frames[0].data != payload or reader.statistics()["buffered_bytes"]:
            return False
        self._framing = (before, after)
        return data == before + payload + after

    def _batch(self, data: bytes) -> Batch:
        """What these bytes say."""
        events: list[Event] = []
        frames: list[tuple[Frame, int]] | None = [] if self._relay else None
        broken: WireError | None = None
        try:
            found = self._feed(data)
        except WireError as error:
            found, broken = error.frames, error
        try:
            for frame in found:
                made = self._decode(frame)
                if frames is not None:
                    frames.append((frame, len(made)))
                if made:
                    events += made
                    if type(made[-1]) in _ENDS:
                        self._end(events)
                        return Batch(events, frames)
            if broken is not None:
                raise broken
        except WireError as error:
            events.append(Error(self._failures.malformed(error)))
        except ApiError as error:
            events.append(Error(self._failures.cleaned(error)))
        return Batch(events, frames)

    def _at_end(self) -> Batch:
        """The body ended properly: what its last bytes say, and the truth if that is no end."""
        events: list[Event] = []
        frames: list[tuple[Frame, int]] | None = [] if self._relay else None
        try:
            found = self._feed(_LINE_END)
        except WireError as error:
            found = error.frames
        try:
            for frame in found:
                made = self._decode(frame)
                if frames is not None:
                    frames.append((frame, len(made)))
                events += made
        except WireError:
            pass  # a frame that was cut: the decoder says so
        told = bool(events) and type(events[-1]) in _ENDS
        if not told:
            events += self._decoder.eof()
        if not events or type(events[-1]) not in _ENDS:
            events.append(Error(self._failures.failure(Kind.TRUNCATED, "the stream ended before it was complete")))
        self._end(events, foreign=told)
        return Batch(events, frames)

    def _end(self, events: list[Event], *, foreign: bool = True) -> None:
        """Notes a good end; an error speaks in the provider's name and without secrets.  foreign: in its words."""
        last = events[-1]
        if isinstance(last, Error):
            events[-1] = Error(self._failures.cleaned(last.error, foreign=foreign))
        else:
            self._complete = True


class Document:
    """One whole reply, as the shortest stream that says it.  `same_dialect`: its bytes, or frames, are wanted too."""

    __slots__ = ("_complete", "_dialect", "_failures", "_request", "_response", "_same_dialect")

    headers = NO_HEADERS

    def __init__(
        self, response: Response, dialect: Dialect, request: Request, failures: Failures, *, same_dialect: bool
    ) -> None:
        self._response = response
        self._dialect = dialect
        self._request = request
        self._failures = failures
        self._same_dialect = same_dialect
        self._complete = False

    async def read(self, onward: Onward | None = None) -> Batch:
        body = await whole(self._response, self._failures)
        self._complete = True
        if self._same_dialect and self._request.stream:
            return reframed(self._failures.parsed(self._reply, body), self._dialect, self._request)
        return Batch(self._failures.parsed(self._events, body), None, body if self._same_dialect else None)

    async def close(self) -> None:
        await self._response.close(complete=self._complete)

    def _events(self, body: bytes) -> list[Event]:
        read = self._dialect.read_reply
        if read is None:
            return unfold(self._reply(body))
        events = read(body)
        last = events[-1] if events else None
        if isinstance(last, Error):
            raise last.error
        return events

    def _reply(self, body: bytes) -> Reply:
        reply = self._dialect.parse_reply(body)
        if not reply.choices:
            raise ApiError(Kind.UPSTREAM, "malformed answer: it has no choices", code="malformed")
        return reply


def reframed(reply: Reply, dialect: Dialect, request: Request) -> Batch:
    """A whole reply as the frames that this dialect would have streamed, for a client that relays frames."""
    counted = msgspec.structs.replace(request, include_usage=True)
    route = next(r for r in dialect.routes if r.operation is Operation.GENERATE and r.streams)
    answer = Answer(
        id=reply.id or "",
        model=reply.model or request.model,
        created_ns=(reply.created or 0) * 1_000_000_000,
        surface=dialect.surfaces[0],
        kind=route.kind,
        request=counted,
    )
    decode = dialect.decoder(counted).feed
    events: list[Event] = []
    frames: list[tuple[Frame, int]] = []
    for frame in dialect.reader().feed(dialect.encoder(answer).feed(unfold(reply))):
        made = decode(frame)
        events += made
        frames.append((frame, len(made)))
    return Batch(events, frames)


async def whole(response: Response, failures: Failures, cap_bytes: int = DOCUMENT_CAP_BYTES) -> bytes:
    """The whole body.  Raises `ApiError` above the cap, and when the body is cut."""
    pieces: list[bytes] = []
    size_bytes = 0
    while (piece := await response.read()) is not None:
        size_bytes += len(piece)
        if size_bytes > cap_bytes:
            raise failures.failure(Kind.UPSTREAM, f"the upstream's answer is larger than {cap_bytes} bytes")
        pieces.append(piece)
    return b"".join(pieces)


async def beginning(response: Response, cap_bytes: int) -> tuple[bytes, bool]:
    """The body's first `cap_bytes`, and whether that was all of it."""
    pieces: list[bytes] = []
    left_bytes = cap_bytes
    while left_bytes > 0:
        piece = await response.read()
        if piece is None:
            return b"".join(pieces), True
        pieces.append(piece[:left_bytes])
        left_bytes -= len(piece)
    return b"".join(pieces), False

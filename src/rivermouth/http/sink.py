"""The client's side of one call over ASGI: one answer, started once, ended once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

from rivermouth.dialects.dialect import Dialect, Surface
from rivermouth.engine.call import Head
from rivermouth.http.headers import JSON, STREAM, Header, retry_after
from rivermouth.ir.errors import ApiError

IGNORED_CHARS: Final = 1024
PLAIN: Final = Head()

Send = Callable[[Any], Awaitable[None]]
AtOnce = Callable[[int, list[Header], bytes], bool]


class AsgiSink:
    """Implements the engine's `Sink`.  `headers` are those that every answer of this request carries.

    surface: where a stream would be; None where nothing is served.
    write, at_once: the connection's own ways for a piece of a stream, and for a whole answer: False, and it is sent.
    limits: asked once, when an answer begins, for the headers that say what its caller has left; None: nothing to say.
    """

    __slots__ = (
        "_at_once",
        "_call_id",
        "_dialect",
        "_headers",
        "_send",
        "_surface",
        "_write",
        "close_after",
        "ended",
        "hang_up",
        "limits",
        "started",
    )

    def __init__(
        self,
        send: Send,
        dialect: Dialect,
        surface: Surface | None,
        call_id: str,
        headers: list[Header],
        hang_up: Callable[[], None],
        write: Callable[[bytes], bool],
        at_once: AtOnce | None = None,
    ) -> None:
        self._send = send
        self._dialect = dialect
        self._surface = surface
        self._call_id = call_id
        self._headers = headers
        self.hang_up = hang_up
        self._write = write
        self._at_once = at_once
        self.limits: Callable[[], Iterable[Header]] | None = None
        self.started = False
        self.ended = False
        self.close_after = False

    def write(self, data: bytes) -> bool:
        return self.ended or (self.started and self._write(data))

    async def send(self, data: bytes, *, last: bool, head: Head = PLAIN) -> None:
        if self.ended:
            return
        if not self.started:
            self.started = True
            headers = [*_stream_headers(self._surface), *STREAM, *self._headers, *_told(head), *self._left()]
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        if last:
            self.ended = True
        await self._send({"type": "http.response.body", "body": data, "more_body": not last})

    async def document(self, body: bytes, *, head: Head = PLAIN) -> None:
        await self.answer(200, body, [JSON, *_told(head)])

    async def fail(self, error: ApiError) -> None:
        failure = self._dialect.encode_error(error, self._call_id)
        extra = [(k.lower().encode(), v.encode("latin-1")) for k, v in failure.headers.items()]
        if error.retry_after_s is not None:
            extra.append(retry_after(error.retry_after_s))
        await self.answer(failure.status, failure.body, [JSON, *extra])

    async def answer(self, status: int, body: bytes, headers: list[Header]) -> None:
        """One whole answer."""
        if self.started:
            raise RuntimeError("an answer had begun already")
        self.started = self.ended = True
        length = (b"content-length", str(len(body)).encode())
        closing = [(b"connection", b"close")] if self.close_after else []
        headers = [*headers, *self._left(), *closing, length, *self._headers]
        if self._at_once is not None and self._at_once(status, headers, body):
            return
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        await self._send({"type": "http.response.body", "body": body, "more_body": False})

    def _left(self) -> Iterable[Header]:
        return self.limits() if self.limits is not None else ()


def _stream_headers(surface: Surface | None) -> list[Header]:
    """Those that tell a client how to read the stream."""
    if surface is None:
        return []
    named = (("content-type", surface.stream_type), *surface.stream_headers)
    return [(name.encode(), value.encode()) for name, value in named]


def _told(head: Head) -> list[Header]:
    """The headers of R18 and R30.  Names of fields may come from the client's own JSON: printable ones only, and not
    too many."""
    told = [(name.encode(), value.encode("latin-1")) for name, value in head.headers.items()]
    text = ", ".join(name for name in head.ignored if name.isascii() and name.isprintable())
    return [*told, (b"x-rivermouth-ignored", text[:IGNORED_CHARS].encode())] if text else told

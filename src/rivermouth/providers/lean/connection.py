"""One connection to an upstream, and the answer that arrives on it.

Theory of operation
    IDLE     in the pool; the upstream may close it, and then it is gone
    ASKED    a request is written; the parser takes interim answers (1xx) and waits for a head
    BODY     the head is there; bytes pile up in `parts` until `read` takes them
    ENDED    the parser saw the message's end, or the socket closed: properly where the head announced no length
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import lru_cache
from typing import Final, cast

import httptools

from rivermouth.providers.client import KEEPALIVE_S, Take

HIGH_BYTES: Final = 256 * 1024
"""Unread bytes at which the socket is paused; it goes on when they are taken."""
HEAD_CAP_BYTES: Final = 64 * 1024
IDLE_CAP: Final = 512
"""Connections kept to one upstream."""
INTERIM: Final = range(100, 200)
SIZE_DIGITS: Final = 10
"""Where the line with a chunk's size has ended, or the chunk goes the long way."""


class Connection(asyncio.Protocol):
    """One socket and the answer that arrives on it.  `lost` is set when the socket has closed."""

    def __init__(self, pool: list[Connection]) -> None:
        self._pool = pool
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._waiter: asyncio.Future[bool] | None = None
        self._onward: Callable[[bytes], bool] | None = None
        self._way: Callable[[bytes], bool] | None = None
        self._raw = b""
        self._parser: httptools.HttpResponseParser
        self._parts: list[bytes] = []
        self._size = 0
        self._paused = False
        self._head_size = 0
        self._fruitless = 0
        self.lost = False
        self.broken = False
        self.heard = False
        self.status = 0
        self.headers: dict[str, str] = {}
        self.ended = True
        self.keep = False
        self.idle_since = 0.0

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one in all but its base class

    def data_received(self, data: bytes) -> None:
        way = self._way
        if way is not None:
            if way(data):
                return
            self._way = None
        if self.ended:  # bytes that nobody asked for: the connection is not to be trusted
            self.keep = False
            self._transport.close()
            return
        self.heard = True
        had = self._size
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._break()
        if self._size != had:
            self._fruitless = 0
        elif not self.ended:
            self._without_body(len(data))
        if self._onward is not None and self._parts:
            self._raw = data
            if self._pass_on(self._onward):
                return
        if self._size > HIGH_BYTES and not self._paused:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        if not self.ended and exc is None and self._until_close():
            self.ended = True
        self.keep = False
        if self in self._pool:
            self._pool.remove(self)
        self._wake()

    # What the parser calls.

    def on_message_begin(self) -> None:
        if self.ended:
            raise ValueError("more than one answer")

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.status:  # a trailer
            return
        self._head_size += len(name) + len(value)
        if self._head_size > HEAD_CAP_BYTES:
            raise ValueError("the head is too large")
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status in INTERIM:
            self.headers = {}
            return
        self.status = status
        self.keep = self._parser.should_keep_alive()

    def on_body(self, body: bytes) -> None:
        self._parts.append(body)
        self._size += len(body)

    def on_message_complete(self) -> None:
        if self.status:  # an interim answer is no end
            self.ended = True

    # What the client calls.

    def ask(self, head: bytes, body: bytes | None) -> None:
        """Write a request; the connection must be fresh or from the pool."""
        self._parser = httptools.HttpResponseParser(self)
        self.status, self.headers, self._head_size, self._fruitless = 0, {}, 0, 0
        self._way, self._raw = None, b""
        self.ended = self.heard = self.keep = False
        self._transport.write(head + body if body is not None else head)

    async def answered(self) -> bool:
        """True when the head is there, False when the socket closed before it."""
        while not self.status:
            if self.lost:
                return False
            await self._wait()
        return True

    async def take(self, onward: Callable[[bytes], bool] | None = None) -> bytes | None:
        """All bytes that are here, waiting for the first; None at the proper end.  Raises `ConnectionError` if cut.

        What arrives while it waits goes to `onward`, until that says False: then this returns b"".
        """
        while not self._parts:
            if self.ended:
                return None
            if self.lost:
                raise ConnectionResetError
            self._onward = onward
            if await self._wait():
                return b""
        data = self._arrived()
        if self._paused:
            self._paused = False
            self._transport.resume_reading()
        return data

    @property
    def fresh(self) -> bool:
        """A kept connection that can take a request now."""
        idle_s = self._loop.time() - self.idle_since
        return not self.lost and not self._transport.is_closing() and idle_s < KEEPALIVE_S

    def keep_or_drop(self, *, complete: bool) -> None:
        """Back to the pool, if the answer is whole and the upstream keeps connections; else the socket closes."""
        if complete and self.ended and self.keep and not self.lost and len(self._pool) < IDLE_CAP:
            self._parts, self._size = [], 0
            self.idle_since = self._loop.time()
            self._pool.append(self)
        else:
            self.drop()

    def drop(self) -> None:
        """Close the socket at once; what was not sent is not sent any more."""
        self._transport.abort()

    def straighten(self, data: bytes, head: bytes, tail: bytes, take: Take) -> None:
        """See `client.Response`.  The way is there until the next bytes that do not fit it.

        The parser has to stand between two chunks, since it does not see those that go this way.
        """
        raw = self._raw
        if raw != b"%x\r\n%b\r\n" % (len(data), data):
            return
        tail += b"\r\n"

        def way(raw: bytes) -> bool:
            waiter = self._waiter
            if waiter is None or waiter.done():
                return False
            texts = _between(raw, head, tail)
            if texts is None:
                return False
            try:
                return take(texts)
            except Exception as error:  # it is the reader's, and raised where it reads
                waiter.set_exception(error)
                return True

        self._way = way

    async def _wait(self) -> bool:
        """Until something has happened; True when `onward` wants no more."""
        self._waiter = self._loop.create_future()
        try:
            return await self._waiter
        finally:
            self._waiter = self._onward = None

    def _arrived(self) -> bytes:
        """What lies here, as one piece; nothing lies here any more."""
        parts, self._parts, self._size = self._parts, [], 0
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _pass_on(self, onward: Callable[[bytes], bool]) -> bool:
        """Hand what has arrived to the reader without waking it; False when it has to be woken."""
        waiter = self._waiter
        if waiter is None or waiter.done():
            return False
        try:
            if onward(self._arrived()):
                return not self.ended
            waiter.set_result(True)
        except Exception as error:  # it is the reader's, and raised where it reads
            waiter.set_exception(error)
        return True

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(False)

    def _without_body(self, size: int) -> None:
        """Bytes of a head or a trailer that does not end; the parser would keep them all."""
        self._fruitless += size
        if self._fruitless > HEAD_CAP_BYTES:
            self._break()

    def _break(self) -> None:
        """What comes here is not HTTP, or not within its bounds."""
        self.broken = True
        self._transport.abort()

    def _until_close(self) -> bool:
        """The answer has no announced length: the end of the connection is its end."""
        if not self.status:
            return False
        chunked = "chunked" in self.headers.get("transfer-encoding", "").lower()
        return not chunked and "content-length" not in self.headers


def _between(raw: bytes, head: bytes, tail: bytes) -> list[bytes] | None:
    """What stands between these ends in each of the HTTP chunks, of which there are only whole ones; None where that
    is not so.  A busy loop reads several at once, and all others one."""
    line = _size_line(len(raw))
    if line is not None and raw.startswith(line) and raw.startswith(head, len(line)) and raw.endswith(tail):
        return [raw[len(line) + len(head) : -len(tail)]]
    texts: list[bytes] = []
    at, whole = 0, len(raw)
    while at < whole:
        start = raw.find(b"\r\n", at + 1, at + SIZE_DIGITS) + 2
        if not raw.startswith(head, start):
            return None
        digits = raw[at : start - 2]
        try:
            size = int(digits, 16)
        except ValueError:
            return None
        end = start + size + 2
        if end > whole or b"%x" % size != digits or not raw.endswith(tail, start + len(head), end):
            return None
        texts.append(raw[start + len(head) : end - len(tail)])
        at = end
    return texts


@lru_cache(maxsize=4096)
def _size_line(length: int) -> bytes | None:
    """How an HTTP chunk begins that is so long with all that is around it; None where none is."""
    for digits in range(1, SIZE_DIGITS):
        size = length - digits - 4
        if size > 0 and len(b"%x" % size) == digits:
            return b"%x\r\n" % size
    return None

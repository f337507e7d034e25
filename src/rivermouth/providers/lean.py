"""The HTTP/1.1 client of the hot path: `client.Client` on asyncio.Protocol and httptools, without a proxy.

A general client pays for every HTTP chunk with several Python calls and for every request with hundreds; here a chunk
is one callback, and `read` hands out all that has arrived.  It keeps connections, pauses the socket above a bound, and
reports a cut only after what came before it was delivered.

Theory of operation of one connection
    IDLE     in the pool; the upstream may close it, and then it is gone
    ASKED    a request is written; the parser takes interim answers (1xx) and waits for a head
    BODY     the head is there; bytes pile up in `parts` until `read` takes them
    ENDED    the parser saw the message's end, or the socket closed: properly where the head announced no length

A request on a kept connection that closes before a single byte of an answer is asked once more on a new one: the
upstream had closed it while it lay idle.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import zlib
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final, cast
from urllib.parse import urlsplit

import httptools

from rivermouth.ir.errors import ApiError, Kind
from rivermouth.providers.client import DRAIN_S, KEEPALIVE_S, Response, Take, trust
from rivermouth.providers.outbound import FROM_ENVIRONMENT, Outbound

HIGH_BYTES: Final = 256 * 1024
"""Unread bytes at which the socket is paused; it goes on when they are taken."""
HEAD_CAP_BYTES: Final = 64 * 1024
IDLE_CAP: Final = 512
"""Connections kept to one upstream."""
INFLATED_CAP_BYTES: Final = 1024 * 1024
"""What one read may make of compressed bytes at a time; the rest follows in the next read."""
ZLIB_OR_GZIP: Final = zlib.MAX_WBITS | 32
INTERIM: Final = range(100, 200)
SIZE_DIGITS: Final = 10
"""Where the line with a chunk's size has ended, or the chunk goes the long way."""
ENCODINGS: Final = frozenset({"gzip", "deflate", "x-gzip"})


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


class LeanClient:
    """`client.Client` for an upstream that is reached without a proxy."""

    def __init__(
        self,
        name: str,
        base_url: str,
        *,
        connect_s: float,
        ca_file: str | None,
        outbound: Outbound = FROM_ENVIRONMENT,
    ) -> None:
        parts = urlsplit(base_url)
        self._name = name
        self._connect_s = connect_s
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._tls = trust(ca_file, outbound.ca_file) if parts.scheme == "https" else None
        self._authority = parts.netloc.rpartition("@")[2]
        self._pool: list[Connection] = []
        self._open: set[Connection] = set()

    async def open(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> Response:
        head = self._head(method, url, headers, body)
        connection = self._kept()
        if connection is not None:
            answered = await self._exchange(connection, head, body)
            if not answered and connection.heard:
                raise self._no_answer(connection)
            if not answered:
                connection = None
        if connection is None:
            connection = await self._connect()
            if not await self._exchange(connection, head, body):
                raise self._no_answer(connection)
        return LeanResponse(self._name, connection, self._open)

    async def close(self) -> None:
        for connection in (*self._pool, *self._open):
            connection.drop()
        self._pool.clear()
        await asyncio.sleep(0)  # the transports close their sockets in the loop's next turn

    async def _exchange(self, connection: Connection, head: bytes, body: bytes | None) -> bool:
        self._open.add(connection)
        answered = False
        try:
            connection.ask(head, body)
            answered = await connection.answered()
        finally:
            if not answered:
                self._open.discard(connection)
                connection.drop()
        return answered

    def _kept(self) -> Connection | None:
        while self._pool:
            connection = self._pool.pop()
            if connection.fresh:
                return connection
            connection.drop()
        return None

    async def _connect(self) -> Connection:
        loop = asyncio.get_running_loop()
        server = self._host if self._tls is not None else None
        try:
            async with asyncio.timeout(self._connect_s):
                _, connection = await loop.create_connection(
                    lambda: Connection(self._pool), self._host, self._port, ssl=self._tls, server_hostname=server
                )
        except TimeoutError:
            text = f"no connection to the upstream within {self._connect_s:g} s"
            raise ApiError(Kind.TIMEOUT, text, clock="connect", code="connect_timeout", provider=self._name) from None
        except OSError as error:
            raise ApiError(Kind.NETWORK, _unconnected(error), provider=self._name) from None
        return connection

    def _head(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> bytes:
        parts = urlsplit(url)
        target = parts.path or "/"
        if parts.query:
            target += "?" + parts.query
        lines = [f"{method} {target} HTTP/1.1", f"host: {self._authority}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if body is not None:
            lines.append(f"content-length: {len(body)}")
        text = "\r\n".join(lines)
        if text.count("\n") != len(lines) - 1 or "\0" in text:
            raise ApiError(Kind.INTERNAL, "a header for the upstream holds a line break", provider=self._name)
        return text.encode("latin-1", "replace") + b"\r\n\r\n"

    def _no_answer(self, connection: Connection) -> ApiError:
        if connection.broken:
            return ApiError(Kind.UPSTREAM, "the upstream's answer is not HTTP", provider=self._name)
        return ApiError(Kind.NETWORK, "the upstream closed the connection without an answer", provider=self._name)


class LeanResponse:
    """`client.Response` over a connection."""

    __slots__ = ("_closed", "_connection", "_inflate", "_name", "_open", "_take", "headers", "status")

    def __init__(self, name: str, connection: Connection, open_: set[Connection]) -> None:
        self._name = name
        self._connection = connection
        self._open = open_
        self._take = connection.take
        self._closed = False
        self.status = connection.status
        self.headers: Mapping[str, str] = connection.headers
        encoding = connection.headers.get("content-encoding", "identity").strip().lower()
        self._inflate = None if encoding in ("", "identity") else Inflate(encoding)

    async def read(self, onward: Callable[[bytes], bool] | None = None) -> bytes | None:
        try:
            if self._inflate is None:
                return await self._take(onward)
            return await self._inflated(self._inflate)
        except ConnectionError:
            if self._connection.broken:
                raise self._failure(Kind.UPSTREAM, "malformed answer: not HTTP") from None
            text = "the connection to the upstream was cut in the middle of its answer"
            raise self._failure(Kind.TRUNCATED, text) from None

    def straighten(self, data: bytes, head: bytes, tail: bytes, take: Take) -> None:
        if self._inflate is None:
            self._connection.straighten(data, head, tail, take)

    async def close(self, *, complete: bool) -> None:
        if self._closed:
            return
        self._closed = True
        connection = self._connection
        try:
            if complete and not connection.ended and not connection.lost:
                await self._drain()
        finally:
            self._open.discard(connection)
            connection.keep_or_drop(complete=complete)
        if not complete:
            await asyncio.sleep(0)  # the transport closes its socket in the loop's next turn

    async def _drain(self) -> None:
        """The few bytes that end the body of a finished answer."""
        try:
            async with asyncio.timeout(DRAIN_S):
                while await self._take() is not None:
                    pass
        except (ConnectionError, TimeoutError):
            return  # the connection is then not kept

    async def _inflated(self, inflate: Inflate) -> bytes | None:
        while True:
            data = inflate.more() if inflate.waiting else None
            if data is None:
                taken = await self._take()
                if taken is None:
                    if not inflate.whole:
                        raise self._failure(Kind.UPSTREAM, "malformed answer: its compression is broken")
                    return None
                inflate.take(taken)
                data = inflate.more()
            if data is None:
                raise self._failure(Kind.UPSTREAM, "malformed answer: its compression is broken or not known")
            if data:
                return data

    def _failure(self, kind: Kind, text: str) -> ApiError:
        return ApiError(kind, text, provider=self._name)


class Inflate:
    """Compressed bytes to plain ones, a bounded piece at a time.  We ask for identity; some upstreams do not listen."""

    def __init__(self, encoding: str) -> None:
        self._known = encoding in ENCODINGS
        self._engine = zlib.decompressobj(ZLIB_OR_GZIP)
        self._input = b""

    @property
    def waiting(self) -> bool:
        """Bytes are here that `more` has not looked at."""
        return bool(self._input)

    @property
    def whole(self) -> bool:
        return self._engine.eof

    def take(self, data: bytes) -> None:
        self._input += data

    def more(self) -> bytes | None:
        """The next piece, b"" when more input is needed; None when the input is no such compression."""
        if not self._known:
            return None
        if self._engine.eof:  # gzip may consist of several members
            self._engine = zlib.decompressobj(ZLIB_OR_GZIP)
        try:
            data = self._engine.decompress(self._input, INFLATED_CAP_BYTES)
        except zlib.error:
            return None
        self._input = self._engine.unconsumed_tail or self._engine.unused_data
        return data


def _unconnected(error: OSError) -> str:
    """Why there is no connection, in the system's words; never the address."""
    match error:
        case ssl.SSLCertVerificationError():
            return "the upstream's TLS certificate was not accepted"
        case ssl.SSLError():
            return "no TLS connection to the upstream"
        case _ if type(error).__name__ == "gaierror":
            return "the upstream's host name is not known"
        case _ if error.errno:
            return f"no connection to the upstream: {os.strerror(error.errno)}"
        case _:
            return "no connection to the upstream"

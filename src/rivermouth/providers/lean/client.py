"""Requests over kept connections, and each answer as its reader takes it.

A request on a kept connection that closes before a single byte of an answer is asked once more on a new one: the
upstream had closed it while it lay idle.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from rivermouth.ir.errors import ApiError, Kind
from rivermouth.providers.client import DRAIN_S, Response, Take, trust
from rivermouth.providers.lean.connection import Connection
from rivermouth.providers.lean.inflate import Inflate
from rivermouth.providers.outbound import FROM_ENVIRONMENT, Outbound


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

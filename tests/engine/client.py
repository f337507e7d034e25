"""A client on a bare socket, in the test's own loop: exactly the bytes that came, each as soon as it is here.

    async with connected(server.port) as client:
        await client.send("POST", "/v1/chat/completions", body)
        answer = await client.answer()                      the head is here
        await answer.until(b"hello")                        so much of the body is here
        await answer.rest()                                 all of it, to its proper end
        client.leave()                                      the socket closes, whatever runs

Every wait has the same deadline, so a server that hangs fails the test and not the suite.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from tests.engine.lab import DEADLINE_S, LOOPBACK

READ_LIMIT_BYTES: Final = 64 * 1024


class Cut(AssertionError):
    """The connection ended where more was due."""


class Answer:
    """One answer.  `headers` has lower-case names; `body` is what has come so far, without the chunks' framing."""

    def __init__(self, client: Client, status: int, pairs: list[tuple[str, str]], *, bodiless: bool) -> None:
        self._reader = client.reader
        self.status = status
        self.pairs = pairs
        self.headers = dict(pairs)
        self.body = b""
        self.ended = bodiless or self.headers.get("content-length") == "0" or status == 204

    @property
    def call_id(self) -> str:
        return self.headers["x-request-id"]

    async def until(self, mark: bytes) -> bytes:
        """The body so far, as soon as `mark` is in it."""
        async with asyncio.timeout(DEADLINE_S):
            while mark not in self.body:
                if self.ended:
                    raise Cut(f"the body ended without {mark!r}: {self.body!r}")
                await self.more()
        return self.body

    async def rest(self) -> bytes:
        """The whole body, to its proper end."""
        async with asyncio.timeout(DEADLINE_S):
            while not self.ended:
                await self.more()
        return self.body

    async def json(self) -> Any:
        return json.loads(await self.rest())

    async def more(self) -> None:
        """The next piece of the body."""
        try:
            if "content-length" in self.headers:
                self.body += await self._reader.readexactly(int(self.headers["content-length"]))
                self.ended = True
                return
            size = int(await self._reader.readuntil(b"\r\n"), 16)
            self.body += (await self._reader.readexactly(size + 2))[:-2]
            self.ended = size == 0
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise Cut(f"the connection was cut after {self.body[-2000:]!r}") from error


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self._writer = writer
        self._method = ""

    async def raw(self, data: bytes) -> None:
        """These bytes and no others."""
        self._writer.write(data)
        await self._writer.drain()

    async def send(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> None:
        """One request."""
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        lines = {"host": LOOPBACK, "content-length": str(len(data)), **(headers or {})}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        self._method = method
        await self.raw(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + data)

    async def answer(self) -> Answer:
        """The next answer, as soon as its head is here."""
        try:
            async with asyncio.timeout(DEADLINE_S):
                head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise Cut("the connection was closed without an answer") from error
        pairs = [(name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in head[1:] if line)]
        return Answer(self, int(head[0].split()[1]), pairs, bodiless=self._method == "HEAD")

    async def ask(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Answer:
        """One request and the head of its answer."""
        await self.send(method, path, body, headers)
        return await self.answer()

    async def closed(self) -> bytes:
        """What came before the server closed the connection; returns when it has."""
        async with asyncio.timeout(DEADLINE_S):
            try:
                return await self.reader.read()
            except ConnectionError:
                return b""

    def leave(self) -> None:
        """Closes the socket at once."""
        self._writer.transport.abort()


@asynccontextmanager
async def connected(
    port: int, *, receive_bytes: int | None = None, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Client]:
    """A connection to the server; `receive_bytes` makes its window small, so that a reader soon counts as slow."""
    sock = socket.socket()
    if receive_bytes is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, (LOOPBACK, port))
    name = LOOPBACK if tls is not None else None
    reader, writer = await asyncio.open_connection(sock=sock, limit=READ_LIMIT_BYTES, ssl=tls, server_hostname=name)
    client = Client(reader, writer)
    try:
        yield client
    finally:
        client.leave()


@asynccontextmanager
async def calling(
    port: int, path: str, body: Any = None, headers: Mapping[str, str] | None = None, *, method: str = "POST"
) -> AsyncIterator[Client]:
    """One request on a connection of its own; its answer is still to come."""
    async with connected(port) as client:
        await client.send(method, path, body, headers)
        yield client


@asynccontextmanager
async def asking(
    port: int, path: str, body: Any = None, headers: Mapping[str, str] | None = None, *, method: str = "POST"
) -> AsyncIterator[Answer]:
    """One request on a connection of its own, and the head of its answer."""
    async with calling(port, path, body, headers, method=method) as client:
        yield await client.answer()

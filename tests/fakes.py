"""A fake upstream on a real socket, led byte by byte by the test.

    async with FakeUpstream() as upstream:
        provider = ...(upstream.url)
        opening = asyncio.ensure_future(provider.open(...))
        asked = await upstream.asked()              the next request, read whole
        await asked.head(200, "text/event-stream")  nothing is sent before the test says so
        await asked.send(b"data: ...")              one chunk of the body, flushed
        await asked.end() | asked.cut() | asked.reset()
        await asked.gone()                          returns when the client has closed its socket

Nothing here sleeps: each step is an event that the test gives or waits for.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self

Script = Callable[["Asked"], Coroutine[Any, Any, None]]

SSE = "text/event-stream"
NDJSON = "application/x-ndjson"
JSON = "application/json"


class Asked:
    """One request that came, and the ways to answer it."""

    def __init__(
        self, method: str, path: str, headers: dict[str, str], body: bytes, writer: asyncio.StreamWriter
    ) -> None:
        self.method = method
        self.path = path
        self.headers = headers
        self.body = body
        self._writer = writer
        self._gone = asyncio.Event()
        self._chunked = False

    async def raw(self, data: bytes) -> None:
        """These bytes and no others."""
        self._writer.write(data)
        await self._writer.drain()

    async def head(self, status: int, media: str | None, *, chunked: bool = True, **headers: str) -> None:
        """The status line and the headers; an underscore in a name stands for a hyphen."""
        self._chunked = chunked
        lines = [f"HTTP/1.1 {status} Whatever"]
        if media is not None:
            lines.append(f"content-type: {media}")
        if chunked:
            lines.append("transfer-encoding: chunked")
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        await self.raw("\r\n".join(lines).encode() + b"\r\n\r\n")

    async def send(self, data: bytes) -> None:
        """A piece of the body."""
        await self.raw(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)

    async def end(self, data: bytes = b"") -> None:
        """The last piece and the proper end of a chunked body, in one write."""
        last = b"%x\r\n%b\r\n" % (len(data), data) if data else b""
        await self.raw(last + b"0\r\n\r\n")

    async def answer(self, status: int, media: str | None, body: bytes, **headers: str) -> None:
        """A whole answer with a Content-Length."""
        await self.head(status, media, chunked=False, content_length=str(len(body)), **headers)
        await self.raw(body)

    def cut(self) -> None:
        """Close the connection where it stands."""
        self._writer.close()

    def reset(self) -> None:
        """Break the connection: the client gets a reset."""
        sock = self._writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    async def gone(self) -> None:
        """Returns when the client has closed its side."""
        await self._gone.wait()

    @property
    def is_gone(self) -> bool:
        return self._gone.is_set()

    def mark_gone(self) -> None:
        self._gone.set()


class FakeUpstream:
    """Listens on loopback.  With a `script` each request is answered by it, else the test takes them with `asked`."""

    def __init__(self, script: Script | None = None) -> None:
        self._script = script
        self._queue: asyncio.Queue[Asked] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self.connections = 0
        self.requests: list[Asked] = []
        self.url = ""

    async def asked(self) -> Asked:
        """The next request."""
        return await self._queue.get()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        self._run(self._serve(reader, writer))

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Requests of one connection, one after the other, until the client closes it."""
        mine: list[Asked] = []
        try:
            while True:
                asked = await read_request(reader, writer)
                mine.append(asked)
                self.requests.append(asked)
                if self._script is not None:
                    self._run(self._script(asked))
                else:
                    self._queue.put_nowait(asked)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            for asked in mine:
                asked.mark_gone()
            writer.close()


async def read_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Asked:
    """One whole request.  Raises `IncompleteReadError` when the client closed instead."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, path, _ = head[0].split(" ", 2)
    pairs = (line.split(":", 1) for line in head[1:] if line)
    headers = {name.strip().lower(): value.strip() for name, value in pairs}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Asked(method, path, headers, body, writer)

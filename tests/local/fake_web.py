"""A web server on loopback that hands out files as a test wants them: whole, in part, half way, lying, redirecting."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NamedTuple


class Asked(NamedTuple):
    """One request as it arrived; header names in lower case."""

    path: str
    headers: Mapping[str, str]


class Served:
    """What stands at one path.

    etag: its validator; None for none.  ranges: whether a part of it can be had.  stop_at: the connection is held there
    until `go_on` is set (and cut there if `cut`).  announced: the length that is claimed.  extra: more headers.
    """

    def __init__(
        self,
        body: bytes = b"",
        *,
        status: int = 200,
        etag: str | None = '"v1"',
        ranges: bool = True,
        stop_at: int | None = None,
        cut: bool = False,
        announced: int | None = None,
        extra: Mapping[str, str] | None = None,
    ) -> None:
        self.body = body
        self.status = status
        self.etag = etag
        self.ranges = ranges
        self.stop_at = stop_at
        self.cut = cut
        self.announced = announced
        self.extra = dict(extra or {})


class FakeWeb:
    """`asked` has every request.  `stopped` is set when a held answer stands, `dropped` when its reader left."""

    def __init__(self, pages: Mapping[str, Served | Callable[[Asked], Served]] | None = None) -> None:
        self.pages = dict(pages or {})
        self.asked: list[Asked] = []
        self.stopped = asyncio.Event()
        self.dropped = asyncio.Event()
        self.go_on = asyncio.Event()
        self.url = ""
        self._server: asyncio.Server | None = None
        self._handlers: set[asyncio.Task[None]] = set()

    async def start(self) -> FakeWeb:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def stop(self) -> None:
        assert self._server is not None
        self.go_on.set()
        self._server.close()
        for handler in list(self._handlers):
            await handler

    def ranges_asked(self) -> list[str | None]:
        return [asked.headers.get("range") for asked in self.asked]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._handlers.add(task)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                lines = head.split("\r\n")
                headers = dict(line.split(": ", 1) for line in lines[1:] if line)
                asked = Asked(lines[0].split()[1], {name.lower(): value for name, value in headers.items()})
                self.asked.append(asked)
                found = self.pages.get(asked.path.partition("?")[0], Served(status=404))
                await self._answer(asked, found if isinstance(found, Served) else found(asked), reader, writer)
        finally:
            self._handlers.discard(task)
            writer.close()

    async def _answer(
        self, asked: Asked, served: Served, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        status, body, headers = served.status, served.body, {"Connection": "close", **served.extra}
        if served.etag is not None:
            headers["ETag"] = served.etag
        if served.ranges:
            headers["Accept-Ranges"] = "bytes"
        begin = 0
        wanted = asked.headers.get("range", "")
        if served.ranges and status == 200 and wanted and asked.headers.get("if-range") == served.etag:
            begin = int(wanted.removeprefix("bytes=").removesuffix("-"))
            status = 206
            headers["Content-Range"] = f"bytes {begin}-{len(body) - 1}/{len(body)}"
        if served.announced is None or served.announced >= 0:
            headers.setdefault(
                "Content-Length", str(len(body) - begin if served.announced is None else served.announced)
            )
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        writer.write(f"HTTP/1.1 {status} Said\r\n{head}\r\n".encode())
        stop_at = None if served.stop_at is None or served.stop_at < begin else served.stop_at
        writer.write(body[begin:stop_at])
        await writer.drain()
        if stop_at is None or served.cut:
            return
        self.stopped.set()
        gone = asyncio.create_task(reader.read(1))
        goes_on = asyncio.create_task(self.go_on.wait())
        await asyncio.wait([gone, goes_on], return_when=asyncio.FIRST_COMPLETED)
        goes_on.cancel()
        gone.cancel()
        with suppress(asyncio.CancelledError, ConnectionError):
            await gone
        if not self.go_on.is_set():
            self.dropped.set()
            return
        writer.write(body[stop_at:])
        await writer.drain()

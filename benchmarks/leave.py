#!/usr/bin/env python3
"""Measures how soon the work for a client has ended that leaves, and writes its part of docs/benchmarks.md.

A server runs as users run it.  200 clients have their answers at the same time from a fake upstream here, and leave one
after the other.  The time is from the client's close to the moment at which the upstream sees its own socket closed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import targets
from chat_stop import at
from run import allow_many_files
from sections import Line, measured, put

CLIENTS = 200
GOAL_MS = 100.0
PIECE_S = 0.05
APART_S = 0.01
PATIENCE_S = 20.0
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


@dataclass(frozen=True)
class Kind:
    """How a client asks: path, headers of its key, whether it wants a stream."""

    title: str
    path: str
    key: Callable[[str], str]
    stream: bool = True


KINDS = (
    Kind("an openai client in its stream", "/v1/chat/completions", lambda key: f"authorization: Bearer {key}"),
    Kind("an anthropic client in its stream", "/v1/messages", lambda key: f"x-api-key: {key}"),
    Kind(
        "a client that waits for a whole answer",
        "/v1/chat/completions",
        lambda key: f"authorization: Bearer {key}",
        stream=False,
    ),
)


class Call(asyncio.Protocol):
    """One connection to the upstream: notes its request, says a piece now and then if asked to, notes its end."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._received = b""
        self._client: str | None = None
        self._saying: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, found, body = self._received.partition(b"\r\n\r\n")
        length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        if self._client is None and found and len(body) >= length:
            wanted = json.loads(body)
            self._client = wanted["messages"][-1]["content"]
            self._upstream.begun(self._client)
            if wanted.get("stream"):
                self._saying = asyncio.get_running_loop().create_task(self._say())

    async def _say(self) -> None:
        choice = {"index": 0, "delta": {"content": "word "}, "finish_reason": None}
        chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
        piece = b"data: " + json.dumps(chunk).encode() + b"\n\n"
        self._transport.write(HEAD)
        while True:
            self._transport.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            await asyncio.sleep(PIECE_S)

    def connection_lost(self, error: Exception | None) -> None:
        if self._saying is not None:
            self._saying.cancel()
        if self._client is not None:
            self._upstream.ended(self._client)


class Upstream:
    """Who is being answered, and when the socket of each was closed."""

    def __init__(self) -> None:
        self._begun: dict[str, asyncio.Event] = {}
        self._ended: dict[str, asyncio.Future[float]] = {}

    def expect(self, client: str) -> None:
        self._begun[client] = asyncio.Event()
        self._ended[client] = asyncio.get_running_loop().create_future()

    def begun(self, client: str) -> None:
        self._begun[client].set()

    def ended(self, client: str) -> None:
        self._ended[client].set_result(time.perf_counter())

    async def asked(self, client: str) -> None:
        await self._begun[client].wait()

    async def closed(self, client: str) -> float:
        """When its socket was closed; raises where the client had not left before."""
        return await self._ended[client]


async def answered(kind: Kind, port: int, key: str, upstream: Upstream, client: str) -> asyncio.StreamWriter:
    """A client whose answer has begun, or is being made."""
    upstream.expect(client)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    wanted = {"model": "lab/m", "messages": [{"role": "user", "content": client}], "max_tokens": 100}
    body = json.dumps({**wanted, "stream": kind.stream}).encode()
    head = f"POST {kind.path} HTTP/1.1\r\nhost: localhost\r\n{kind.key(key)}\r\ncontent-length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    await upstream.asked(client)
    if kind.stream:
        await reader.readuntil(b"word")
    return writer


async def left(kind: Kind, port: int, key: str, upstream: Upstream, clients: int, name: str) -> list[float]:
    """Seconds from the close of each client to that of its upstream's socket."""
    names = [f"{name} {number}" for number in range(clients)]
    writers = [await answered(kind, port, key, upstream, one) for one in names]
    begun = []
    for writer in writers:
        begun.append(time.perf_counter())
        writer.transport.abort()
        await asyncio.sleep(APART_S)
    ended = [await upstream.closed(one) for one in names]
    if any(after < before for before, after in zip(begun, ended, strict=True)):
        raise RuntimeError("an answer ended before its client had left")
    return [after - before for before, after in zip(begun, ended, strict=True)]


async def measure(port: int, key: str, upstream: Upstream, clients: int) -> list[Line]:
    lines = []
    for kind in KINDS:
        await left(kind, port, key, upstream, 1, f"warm {kind.title}")
        took = [seconds * 1000 for seconds in await left(kind, port, key, upstream, clients, kind.title)]
        lines += [
            Line(f"{kind.title}: p50 of {clients}", at(0.5, took), "ms"),
            Line(f"{kind.title}: p99 of {clients}", at(0.99, took), "ms", GOAL_MS),
        ]
    return lines


async def run(clients: int, core: int | None) -> list[Line]:
    upstream = Upstream()
    loop = asyncio.get_running_loop()
    listening = await loop.create_server(lambda: Call(upstream), "127.0.0.1", 0, backlog=clients)
    async with listening, asyncio.timeout(PATIENCE_S + clients * (APART_S + PIECE_S) * len(KINDS)):
        with (
            tempfile.TemporaryDirectory(prefix="bench-") as place,
            targets.rivermouth(listening.sockets[0].getsockname()[1], core, Path(place)) as target,
        ):
            return await measure(target.port, target.key, upstream, clients)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=CLIENTS, help="of each kind; default %(default)s")
    parser.add_argument("--no-write", action="store_true", help="print the table, leave the page alone")
    arguments = parser.parse_args()
    allow_many_files()
    pinned = (os.cpu_count() or 1) >= 2
    if pinned:
        os.sched_setaffinity(0, {1})
    lines = asyncio.run(run(arguments.clients, 0 if pinned else None))
    text = measured(lines, "all at once in their answers, one after another leaving")
    print(text)
    if not arguments.no_write:
        put("leave", "Clients that leave", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

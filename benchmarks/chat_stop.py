#!/usr/bin/env python3
"""Measures how soon an answer of a chat has ended for those who follow it, and writes its part of docs/benchmarks.md.

A server runs as users run it, its provider is a fake upstream here that either says a piece each few milliseconds or
takes the request and says nothing at all.  Each answer is followed twice, by the client that asked and by one that
watches the chat.  The time is from the first byte of the request (`/cancel`, or the newer message) to the frame
`cancelled` at the slower of the two.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import targets
from aiohttp import web
from sections import Line, measured, put

TIMES = 200
GOAL_MS = 250.0
PIECE_S = 0.005
KINDS = {"silent": "an upstream that says nothing", "talking": "an upstream that streams"}
KEY = "bench-key-of-the-chat"
PATIENCE_S = 20.0


class Upstream:
    """Takes calls of OpenAI's chat completions.  `asked` holds a turn for each that has arrived."""

    def __init__(self) -> None:
        self.asked = asyncio.Semaphore(0)
        self.port = 0
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._answer)
        app.router.add_get("/v1/models", self._models)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)

    async def __aenter__(self) -> Upstream:
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _models(self, request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": name, "object": "model"} for name in KINDS]})

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        wanted = await request.json()
        self.asked.release()
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        if wanted["model"] == "silent":
            await asyncio.Event().wait()  # until the connection is closed
        with contextlib.suppress(ConnectionError):  # the server has left
            await response.prepare(request)
            while True:
                await response.write(b"data: " + json.dumps(_piece()).encode() + b"\n\n")
                await asyncio.sleep(PIECE_S)
        return response


def _piece() -> dict[str, Any]:
    choice = {"index": 0, "delta": {"content": "word "}, "finish_reason": None}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


class Follower:
    """One stream of frames."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def until(self, *events: str) -> tuple[dict[str, Any], float]:
        """The next frame that is one of these, and when it was here."""
        async for line in self._response.content:
            if line.startswith(b"data: "):
                frame = json.loads(line[6:])
                if frame["event"] in events:
                    return frame, time.perf_counter()
        raise RuntimeError(f"a stream ended without {' or '.join(events)}")


class Chat:
    """One chat, followed."""

    def __init__(self, session: aiohttp.ClientSession, upstream: Upstream, path: str, watcher: Follower) -> None:
        self._session = session
        self._upstream = upstream
        self._path = path
        self.watcher = watcher

    async def ask(self, kind: str) -> Follower:
        """An answer that has begun: the upstream has the request, and where it talks, both have read a piece."""
        asker = Follower(await self._post("stream", {"content": "Go on", "model": f"lab/{kind}"}))
        await self._upstream.asked.acquire()
        if kind == "talking":
            await asyncio.gather(asker.until("token"), self.watcher.until("token"))
        return asker

    async def ask_again(self, kind: str) -> Follower:
        """As soon as the server has taken it."""
        return Follower(await self._post("stream", {"content": "Now this", "model": f"lab/{kind}"}))

    async def begun(self) -> None:
        await self._upstream.asked.acquire()

    async def cancel(self) -> dict[str, Any]:
        async with await self._post("cancel", {}) as response:
            answer: dict[str, Any] = await response.json()
            return answer

    async def _post(self, what: str, body: dict[str, Any]) -> aiohttp.ClientResponse:
        response = await self._session.post(f"{self._path}/{what}", json=body)
        response.raise_for_status()
        return response


@contextlib.asynccontextmanager
async def chat(session: aiohttp.ClientSession, upstream: Upstream) -> AsyncIterator[Chat]:
    """A new chat that is watched."""
    async with session.post("/api/chats", json={}) as made:
        path = f"/api/chats/{(await made.json())['id']}"
    async with session.get(f"{path}/events") as response:
        response.raise_for_status()
        watcher = Follower(response)
        await watcher.until("caught_up")
        yield Chat(session, upstream, path, watcher)


async def stop(session: aiohttp.ClientSession, upstream: Upstream, kind: str) -> tuple[float, float]:
    """Seconds to the last follower's `cancelled`, and to the answer of `/cancel` itself."""
    async with chat(session, upstream) as one:
        asker = await one.ask(kind)
        begun = time.perf_counter()
        answer, first, second = await asyncio.gather(one.cancel(), asker.until(*ENDS), one.watcher.until(*ENDS))
        answered = time.perf_counter()
        if answer != {"cancelled": True} or any(frame["event"] != "cancelled" for frame, _ in (first, second)):
            raise RuntimeError(f"a stop was answered {answer}, and its followers read {first[0]}, {second[0]}")
        return max(first[1], second[1]) - begun, answered - begun


async def supersede(session: aiohttp.ClientSession, upstream: Upstream, kind: str) -> tuple[float, float]:
    """Seconds to the last follower's `cancelled`, and to the `start` of the newer answer."""
    async with chat(session, upstream) as one:
        asker = await one.ask(kind)
        begun = time.perf_counter()

        async def newer() -> tuple[Follower, float]:
            follower = await one.ask_again(kind)
            return follower, (await follower.until("start"))[1]

        (_, started), first, second = await asyncio.gather(newer(), asker.until(*ENDS), one.watcher.until(*ENDS))
        if any(frame["event"] != "cancelled" for frame, _ in (first, second)):
            raise RuntimeError(f"the followers of a superseded answer read {first[0]}, {second[0]}")
        await one.begun()
        await one.cancel()
        return max(first[1], second[1]) - begun, started - begun


ENDS = ("cancelled", "done", "error")
WAYS = {"stop": (stop, "the answer of /cancel"), "supersede": (supersede, "the newer answer's start")}


def at(share: float, values: list[float]) -> float:
    """The value that this share of them does not exceed."""
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]


async def measure(url: str, upstream: Upstream, times: int) -> list[Line]:
    lines = []
    headers = {"authorization": f"Bearer {KEY}"}
    timeout = aiohttp.ClientTimeout(total=None, sock_read=PATIENCE_S)
    async with aiohttp.ClientSession(url, headers=headers, timeout=timeout) as session:
        for word, (way, other) in WAYS.items():
            for kind, title in KINDS.items():
                await way(session, upstream, kind)  # whatever is imported at its first use
                both = [await way(session, upstream, kind) for _ in range(times)]
                ended, followed = ([pair[n] * 1000 for pair in both] for n in (0, 1))
                lines += [
                    Line(f"{word}, {title}: p50 of {times}", at(0.5, ended), "ms"),
                    Line(f"{word}, {title}: p99 of {times}", at(0.99, ended), "ms", GOAL_MS),
                    Line(f"{word}, {title}: p99 until {other}", at(0.99, followed), "ms"),
                ]
    return lines


async def run(times: int) -> list[Line]:
    async with Upstream() as upstream:
        with tempfile.TemporaryDirectory(prefix="bench-") as place:
            port, config = targets.free_port(), Path(place) / "rivermouth.toml"
            config.write_text(
                f"""
data_dir = {str(Path(place) / "data")!r}
server.port = {port}
server.keys = ["env:BENCH_KEY"]
[resilience]
retries = 0
cooldown = false
[providers.lab]
dialect = "openai_chat"
base_url = "http://127.0.0.1:{upstream.port}/v1"
""",
                encoding="utf-8",
            )
            command = [sys.executable, "-m", "rivermouth", "serve", "--config", str(config)]
            with targets.running(command, None, port, {"BENCH_KEY": KEY}):
                return await measure(f"http://127.0.0.1:{port}", upstream, times)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=TIMES, help="of each; default %(default)s")
    parser.add_argument("--no-write", action="store_true", help="print the table, leave the page alone")
    arguments = parser.parse_args()
    text = measured(asyncio.run(run(arguments.times)), "followed twice, one after another")
    print(text)
    if not arguments.no_write:
        put("stops", "Stops of chats", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

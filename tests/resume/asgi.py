"""A client without a socket: one request to the server's own application, on its own loop.

heard = await server.run(visit(server, "GET", path))
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple

from tests.engine.lab import DEADLINE_S, LOOPBACK, Lab


class Heard(NamedTuple):
    """`body`: what was sent to the client before it left."""

    status: int
    headers: dict[str, str]
    body: bytes
    ended: bool


async def visit(
    server: Lab,
    method: str,
    path: str,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
    *,
    leave_at: int | None = None,
) -> Heard:
    """One request, to the end of its answer.  leave_at: or until so many bytes of it have come."""
    begun: dict[str, Any] = {}
    parts: list[bytes] = []
    gone = asyncio.Event()
    asked = False
    ended = False

    async def receive() -> dict[str, Any]:
        nonlocal asked
        if not asked:
            asked = True
            return {"type": "http.request", "body": body, "more_body": False}
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        nonlocal ended
        if message["type"] == "http.response.start":
            begun.update(message)
        elif not gone.is_set():
            parts.append(message["body"])
            ended = not message["more_body"]
        if leave_at is not None and begun and sum(map(len, parts)) >= leave_at:
            gone.set()

    raw, _, query = path.partition("?")
    lines = {"host": LOOPBACK, "content-length": str(len(body)), **(headers or {})}
    scope = {
        "type": "http",
        "method": method,
        "path": raw,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in lines.items()],
        "scheme": "http",
        "client": (LOOPBACK, 1),
        "server": (LOOPBACK, server.port),
        "extensions": {},
    }
    async with asyncio.timeout(DEADLINE_S):
        await server.inside.server.config.app(scope, receive, send)  # type: ignore[operator]
    pairs = {name.decode(): value.decode() for name, value in begun["headers"]}
    return Heard(begun["status"], pairs, b"".join(parts), ended)

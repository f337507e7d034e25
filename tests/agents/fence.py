"""The way out, as a proxy that lets nothing through and keeps what wanted to pass: an agent's telemetry, for one.

It sees what heeds the variables for proxies, as all these agents were seen to do; it is no wall.
"""

from __future__ import annotations

import asyncio
from typing import Any, Self


class Fence:
    """Listens on loopback while inside; `wanted` is the address of each request that would have left the machine."""

    def __init__(self) -> None:
        self.wanted: list[str] = []
        self.url = ""
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._refuse, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *why: Any) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    async def _refuse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = (await reader.readline()).decode("latin-1").split()
            self.wanted.append(line[1] if len(line) > 1 else "nothing")
            while (await reader.readline()).strip():
                pass
            writer.write(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

"""A server on given sockets, for whichever command wants one: `serve`, `demo`, and `chat` in a thread of its own."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from rivermouth.cli.places import WILDCARDS, announced
from rivermouth.config import Config
from rivermouth.store.datadir import DataDir

if TYPE_CHECKING:
    from rivermouth.compose import Services
    from rivermouth.http.server import Server

Ready = Callable[["Server", "Services"], None]
Tls = tuple[str, str]


async def serving(
    config: Config, data: DataDir, sockets: list[socket.socket], ready: Ready, *, scripted: bool, tls: Tls | None = None
) -> None:
    """Serves until it is stopped; `ready` is called on the loop when connections are taken.

    Raises `DataDirBusy`, `StoreError`, `ConfigError`.
    """
    from rivermouth.compose import services
    from rivermouth.http.front import server

    async with services(config, data, scripted=scripted) as made:
        running = server(made, tls=tls)
        with announced(data, url_of(sockets[0], tls) + config.http.base_path):
            await running.run_on(sockets, lambda: ready(running, made))


def listening(addresses: list[tuple[str, int]]) -> list[socket.socket]:
    """Sockets for all addresses, or for none.  Raises `OSError`."""
    from rivermouth.http.server import listen

    sockets: list[socket.socket] = []
    try:
        for host, port in addresses:
            sockets.append(listen(host, port))
    except OSError:
        close(sockets)
        raise
    return sockets


def close(sockets: list[socket.socket]) -> None:
    """Idempotent."""
    for sock in sockets:
        sock.close()


def url_of(sock: socket.socket, tls: Tls | None = None) -> str:
    """How a client on this machine calls the socket."""
    host, port = sock.getsockname()[:2]
    host = WILDCARDS.get(host, host)
    return f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"


def loop_factory() -> type[asyncio.AbstractEventLoop] | None:
    """uvloop's loop where it exists."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.Loop

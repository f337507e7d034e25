"""A server on given sockets, for whichever command wants one: `serve`, `demo`, and `chat` in a thread of its own."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from importlib import import_module
from typing import TYPE_CHECKING

from rivermouth.cli.places import WILDCARDS, announced
from rivermouth.config import Config
from rivermouth.ir.errors import ApiError
from rivermouth.store.datadir import DataDir

if TYPE_CHECKING:
    from rivermouth.compose import Services
    from rivermouth.http.server import Server
    from rivermouth.local.provider import LocalProvider

Ready = Callable[["Server", "Services"], None]
Tls = tuple[str, str]


async def serving(
    config: Config,
    data: DataDir,
    sockets: list[socket.socket],
    ready: Ready,
    *,
    scripted: bool,
    tls: Tls | None = None,
    warm: str | None = None,
) -> None:
    """Serves until it is stopped; `ready` is called on the loop when connections are taken.

    warm: a local model that will be asked at once, so its engine process loads it while everything else starts.
    Raises `DataDirBusy`, `StoreError`, `ConfigError`.
    """
    from rivermouth.compose import local_provider, services

    async with AsyncExitStack() as stack:
        local = local_provider(config, data)
        stack.push_async_callback(local.close)
        if warm is not None:
            warming = asyncio.create_task(_warm(local, warm))
            stack.callback(warming.cancel)
        # In threads, because these take a second or two, in which the loop has an engine process to start.
        await asyncio.to_thread(import_module, "rivermouth.store.sqlite")
        made = await stack.enter_async_context(services(config, data, scripted=scripted, local=local))
        wiring = await asyncio.to_thread(import_module, "rivermouth.http.wiring")
        running: Server = wiring.server(made, bound=[sock.getsockname()[0] for sock in sockets], tls=tls)
        stack.enter_context(announced(data, url_of(sockets[0], tls) + config.http.base_path))
        await running.run_on(sockets, lambda: ready(running, made))


async def _warm(local: LocalProvider, model: str) -> None:
    """Loads it; why that fails is told to the call that needs it."""
    with suppress(ApiError):
        await local.warm(model)


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

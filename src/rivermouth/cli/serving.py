"""A server on given sockets, for whichever command wants one: `serve`, `demo`, and `chat` in a thread of its own."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack, suppress
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from rivermouth.cli.places import WILDCARDS, announced
from rivermouth.cli.reload import Reloader
from rivermouth.config import Config
from rivermouth.http.listening import listen
from rivermouth.ir.errors import ApiError
from rivermouth.observe.tracebacks import loop_failed, thread_failed
from rivermouth.secrets import Secret
from rivermouth.store.datadir import DataDir

if TYPE_CHECKING:
    from rivermouth.compose import Services
    from rivermouth.http.certificate import Certificate
    from rivermouth.http.server import Server
    from rivermouth.http.wiring import Wiring
    from rivermouth.local.provider import LocalProvider
    from rivermouth.platform.service import Issued

Ready = Callable[["Server", "Services"], None]
Tls = tuple[str, str]


class Reread(NamedTuple):
    """How a server that runs gets another configuration.  read: what the files say now; blocking, raises `ConfigError`.
    log: makes the log that of a configuration, without these secrets.  started: told of what does it, on the loop.
    """

    read: Callable[[], Config]
    log: Callable[[Config, Iterable[Secret]], None]
    started: Callable[[Reloader], None] = lambda reloader: None


async def serving(
    config: Config,
    data: DataDir,
    sockets: list[socket.socket],
    ready: Ready,
    *,
    scripted: bool,
    tls: Tls | None = None,
    warm: str | None = None,
    reread: Reread | None = None,
    first_key: Callable[[Issued], None] | None = None,
    alone: bool = False,
) -> None:
    """Serves until it is stopped; `ready` is called on the loop when connections are taken.

    warm: a local model that will be asked at once, so its engine process loads it while everything else starts.
    reread: reads the configuration again on SIGHUP and when a file of it changes.
    first_key: told of the first admin's key, which is made at the first start of a server that asks for keys.
    alone: the process does nothing but serve, so its garbage collector is set for that.
    Raises `DataDirBusy`, `StoreError`, `ConfigError`.
    """
    from rivermouth.compose import local_provider, services

    asyncio.get_running_loop().set_exception_handler(loop_failed)
    if alone:
        threading.excepthook = thread_failed
    async with AsyncExitStack() as stack:
        local = local_provider(config, data)
        stack.push_async_callback(local.close)
        if warm is not None:
            warming = asyncio.create_task(_warm(local, warm))
            stack.callback(warming.cancel)
        # In threads, because these take a second or two, in which the loop has an engine process to start.
        await asyncio.to_thread(import_module, "rivermouth.store.sqlite")
        made = await stack.enter_async_context(services(config, data, scripted=scripted, local=local))
        first = await made.platform.first_admin() if first_key is not None else None
        if first is not None and first_key is not None:
            first_key(first)
        wiring = await asyncio.to_thread(import_module, "rivermouth.http.wiring")
        certificate = await asyncio.to_thread(_certificate, tls) if tls is not None else None
        context = certificate.context if certificate is not None else None
        wired: Wiring = wiring.Wiring(made, bound=[sock.getsockname()[0] for sock in sockets], tls=context)
        running = wired.server
        stack.enter_context(announced(data, url_of(sockets[0], tls) + config.http.base_path))
        if reread is not None:
            reloader = Reloader(
                config,
                read=reread.read,
                renew=wired.renew,
                stop=running.stop,
                certificate=certificate,
                place=data.path,
                log_with=lambda new: reread.log(new, made.recorder.secrets),
                done=lambda refused: made.metrics.reloaded(refused=refused),
            )
            await stack.enter_async_context(reloader)
            reread.started(reloader)
        if alone:
            running.settle()
        await running.run_on(sockets, lambda: ready(running, made))


def _certificate(tls: Tls) -> Certificate:
    from rivermouth.http.certificate import Certificate

    return Certificate(*tls)


async def _warm(local: LocalProvider, model: str) -> None:
    """Loads it; why that fails is told to the call that needs it."""
    with suppress(ApiError):
        await local.warm(model)


def listening(addresses: list[tuple[str, int]]) -> list[socket.socket]:
    """Sockets for all addresses, or for none.  Raises `OSError`."""
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

"""A server in a thread of this process, for a command that needs one while it runs.

It listens on a free port of loopback and logs errors only.  Its loop is asyncio's own: signals belong to the main
thread, which runs the command.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from rivermouth.cli.serving import close, listening, serving, url_of
from rivermouth.config import Config, ConfigError, override, scripted_asked
from rivermouth.ir.errors import ApiError
from rivermouth.store.datadir import DataDir, DataDirBusy
from rivermouth.store.port import StoreError

if TYPE_CHECKING:
    from rivermouth.compose import Services
    from rivermouth.http.server import Server

LOOPBACK = "127.0.0.1"


@contextmanager
def embedded(config: Config, data: DataDir, model: str | None = None) -> Iterator[str]:
    """The address of a server that lives as long as this, and has `model` ready.  Raises what `serving` raises."""
    from rivermouth.observe import configure_logging

    configure_logging("text", level=logging.ERROR, secrets=config.secrets)
    config = override(config, host=LOOPBACK, port=0)
    config = msgspec.structs.replace(config, timeouts=msgspec.structs.replace(config.timeouts, drain_s=0.0))
    started: Future[tuple[str, asyncio.AbstractEventLoop, Server]] = Future()
    # A daemon, so that a second Ctrl-C always ends the process; the kernel and the engine processes clean up after it.
    thread = threading.Thread(target=_serve, args=(config, data, model, started), name="server", daemon=True)
    thread.start()
    url, loop, server = started.result()
    try:
        yield url
    finally:
        loop.call_soon_threadsafe(server.stop)
        thread.join()


def _serve(
    config: Config, data: DataDir, model: str | None, started: Future[tuple[str, asyncio.AbstractEventLoop, Server]]
) -> None:
    """The thread: serves until it is stopped; a failure to start is told to who waits."""
    sockets = listening([(LOOPBACK, 0)])

    def ready(server: Server, services: Services) -> None:
        started.set_result((url_of(sockets[0]) + config.http.base_path, asyncio.get_running_loop(), server))

    try:
        with asyncio.Runner() as runner:
            scripted = any(scripted_asked(config))
            runner.run(serving(config, data, sockets, ready, scripted=scripted, warm=model))
    except (DataDirBusy, StoreError, ConfigError, ApiError, OSError) as error:
        if started.done():
            raise
        started.set_exception(error)
    finally:
        close(sockets)

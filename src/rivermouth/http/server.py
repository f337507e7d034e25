"""uvicorn, with our own way to stop: drain first, close the listener then, end what still runs last.

The first signal starts the drain: /health says 503, new calls are refused, running ones go on for up to `drain_s`.
Then the listener closes and every call that still runs is told so in its own stream and gets its record.  A second
signal skips the rest of the drain.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import socket
import ssl
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Final

import structlog
import uvicorn

from rivermouth.http.app import App
from rivermouth.http.lifecycle import Lifecycle
from rivermouth.http.listening import BACKLOG
from rivermouth.http.protocol import Protocol

log = structlog.get_logger()

GRACE_S: Final = 5
"""After the drain: time for the in-stream errors and the records of calls that were ended."""
DRAIN_TICK_S: Final = 0.05
GC_THRESHOLD: Final = 50_000
KEEP_ALIVE_S: Final = 75


class Server(uvicorn.Server):
    """Runs `app` on the given sockets until it is told to stop.

    drain_s: how long the drain lasts, asked when it begins.  inflight: how many calls run.  end_all: ends each of them
    because of the shutdown.  tls: the context of the listeners, for TLS.
    """

    def __init__(
        self,
        app: App,
        *,
        lifecycle: Lifecycle,
        drain_s: Callable[[], float],
        inflight: Callable[[], int],
        end_all: Callable[[], None],
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=Protocol,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                backlog=BACKLOG,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=GRACE_S,
            )
        )
        self._lifecycle = lifecycle
        self._drain_s = drain_s
        self._inflight = inflight
        self._end_all = end_all
        self._tls = tls
        self._ready: Callable[[], None] = _nothing
        self.on_drain: Callable[[], None] = _nothing
        self._hurry = asyncio.Event()
        self._drain: asyncio.Task[None] | None = None
        self._settled = False

    def settle(self) -> None:
        """What lives now lives for ever, so the collector need not look at it again: only for a process that does
        nothing but serve."""
        gc.collect()
        gc.freeze()
        gc.set_threshold(GC_THRESHOLD, 20, 20)
        self._settled = True

    def settle_more(self) -> None:
        """The same for what was made since, if it was done at all; nobody waits while the heap is searched."""
        if self._settled:
            gc.freeze()

    async def run_on(self, sockets: list[socket.socket], ready: Callable[[], None]) -> None:
        """Serve until stopped; `ready` is called when connections are taken."""
        self._ready = ready
        try:
            await self.serve(sockets=sockets)
        finally:
            if self._drain is not None:
                await self._drain

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self.config.ssl = self._tls  # uvicorn would make one of its own, of files, and have no way to renew it
        await super().startup(sockets=sockets)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets=sockets)
        for connection in list(self.server_state.connections):  # of those who did not take their last words
            connection.transport.abort()

    def stop(self) -> None:
        """Begin to stop, or, if that has begun, hurry."""
        if self._drain is None:
            self._drain = asyncio.get_running_loop().create_task(self._drained())
        else:
            self._hurry.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Our handlers for the time of serving; uvicorn's would close the listener at once."""
        loop = asyncio.get_running_loop()
        signals = (signal.SIGINT, signal.SIGTERM)
        with contextlib.suppress(RuntimeError, ValueError):  # not in the main thread: a test's or an embedder's server
            for number in signals:
                loop.add_signal_handler(number, self.stop)
        try:
            yield
        finally:
            with contextlib.suppress(RuntimeError, ValueError):
                for number in signals:
                    loop.remove_signal_handler(number)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.stop()

    async def _drained(self) -> None:
        self._lifecycle.draining = True
        self.on_drain()
        drain_s = self._drain_s()
        log.info("server.draining", inflight=self._inflight(), drain_s=drain_s)
        ends_at = asyncio.get_running_loop().time() + drain_s
        while self._inflight() and not self._hurry.is_set() and asyncio.get_running_loop().time() < ends_at:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._hurry.wait(), DRAIN_TICK_S)
        self._end_all()
        self.should_exit = True


def _nothing() -> None:
    """No one waits for it."""

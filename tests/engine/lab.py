"""A whole server in a thread of this process: real sockets, the product's own loop, and its inside in reach.

    with lab(folder, CONFIG) as server:
        server.port                     answers on loopback
        await server.record(call_id)    the call's record, once it is final
        server.stop()                   begins the drain, as SIGTERM does

A test that needs signals, a kill or memory of its own takes a process instead (`tests.running`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, MutableMapping
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
from structlog.testing import capture_logs

from rivermouth.cli.reload import Reloader, Standing
from rivermouth.cli.serving import Reread, Tls, close, listening, loop_factory, serving
from rivermouth.compose import Services
from rivermouth.config import Config
from rivermouth.config.load import load, parse
from rivermouth.dialects import discover
from rivermouth.http.server import Server
from rivermouth.store.datadir import DataDir
from rivermouth.store.port import CallRecord, Status
from rivermouth.store.sqlite import SqliteCallStore
from tests.databases import laid

T = TypeVar("T")

DEADLINE_S: Final = 10.0
ASK_AGAIN_S: Final = 0.005
LOOPBACK: Final = "127.0.0.1"
OWN_FAULTS: Final = frozenset({"call.crashed", "request.crashed", "loop.failed"})
"""What the server logs of a fault of its own; an engine process that died is none."""


class Inside(NamedTuple):
    """What the server's thread tells when it takes connections."""

    loop: asyncio.AbstractEventLoop
    server: Server
    services: Services


class Lab:
    """One running server.  `log` is what it has logged, one mapping for each line."""

    def __init__(
        self,
        ports: list[int],
        data: DataDir,
        inside: Inside,
        thread: threading.Thread,
        log: list[MutableMapping[str, Any]],
    ) -> None:
        self.ports = ports
        self.port = ports[0]
        self.url = f"http://{LOOPBACK}:{self.port}"
        self.inside = inside
        self.log = log
        self._thread = thread
        self.folder = data.path.parent
        self.data_path = data.path
        self.reloader: Reloader
        self._store = SqliteCallStore.reader(data.database)

    def inflight(self) -> int:
        """Calls that run now."""
        return self.on_loop(lambda: len(list(self.inside.services.inflight())))

    def produced(self) -> int:
        """Characters that the running calls have got from their upstreams."""
        calls = self.inside.services.engine.inflight
        return self.on_loop(lambda: sum(call.ledger.checkpoint().text_chars for call in calls))

    def attempts(self) -> int:
        """Attempts of the running calls that are over."""
        calls = self.inside.services.engine.inflight
        return self.on_loop(lambda: sum(len(call.ledger.closed(Status.OPEN).attempts) for call in calls))

    def on_loop(self, ask: Callable[[], T]) -> T:
        """The answer of a function that runs on the server's loop."""
        told: Future[T] = Future()
        self.inside.loop.call_soon_threadsafe(lambda: told.set_result(ask()))
        return told.result(DEADLINE_S)

    def tasks(self) -> int:
        """Tasks that are alive on the server's loop."""
        return self.on_loop(lambda: len(asyncio.all_tasks()))

    def connections(self) -> int:
        """Clients that are connected."""
        return self.on_loop(lambda: len(self.inside.server.server_state.connections))

    def blocked(self) -> bool:
        """Some client does not take what is there for it."""
        return self.on_loop(lambda: any(c.flow.write_paused for c in self.inside.server.server_state.connections))

    def unread(self) -> bool:
        """Some connection is not read: there is more in it than is wanted yet."""
        return self.on_loop(lambda: any(c.flow.read_paused for c in self.inside.server.server_state.connections))

    async def reload(self, config: str) -> Standing:
        """Writes another configuration into the file and has it read; how that went."""
        (self.folder / "rivermouth.toml").write_text(config, encoding="utf-8")
        return await self.reread()

    async def reread(self) -> Standing:
        """Has the file read as it is."""
        await self.run(self.reloader.reload())
        return self.reloader.state

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Done on the server's loop."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self.inside.loop))

    def draining(self) -> bool:
        """The server has been told to stop."""
        return any(line["event"] == "server.draining" for line in self.log)

    @property
    def over(self) -> bool:
        """The server has stopped, and everything behind it."""
        return not self._thread.is_alive()

    def stop(self) -> None:
        """What a signal does: the first begins the drain, the second hurries."""
        self.inside.loop.call_soon_threadsafe(self.inside.server.stop)

    async def idle(self) -> None:
        """Returns when no call runs."""
        await until(lambda: self.inflight() == 0, "no call runs")

    async def record(self, call_id: str) -> CallRecord:
        """The record of a call, once it is final."""

        def final() -> CallRecord | None:
            found = self._store.get(call_id)
            return found if found is not None and found.status is not Status.OPEN else None

        return await until(final, f"the record of {call_id} is final")

    async def last(self) -> CallRecord:
        """The record of the newest call that has begun, once it is final: for a client that never saw an id."""
        await self.run(self.inside.services.recorder.flush())
        rows = await until(lambda: self._store.list(1), "there is a record")
        return await self.record(rows[0].id)

    def records(self) -> list[CallRecord]:
        """Every record, open ones too, newest first."""
        return list(self._store.list(10_000))

    def dispose(self) -> None:
        self._store.dispose()


async def until(ask: Callable[[], T | None], what: str) -> T:
    """The first answer that is true.  For what is outside this loop and tells nobody when it changes."""
    ends_at = time.monotonic() + DEADLINE_S
    while not (answer := ask()):
        assert time.monotonic() < ends_at, f"not within {DEADLINE_S:g} s: {what}"
        await asyncio.sleep(ASK_AGAIN_S)
    return answer


class Alarm(logging.Handler):
    """Keeps what the libraries below the server complain of: a task's lost exception, a crashed application."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.heard: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.heard.append(self.format(record))


@contextmanager
def listening_to_logs(*, crashes: bool) -> Iterator[list[MutableMapping[str, Any]]]:
    """What is logged inside; something of it must tell of a crash, or nothing may."""
    alarm = Alarm()
    root = logging.getLogger()
    root.addHandler(alarm)
    try:
        with capture_logs() as log:
            yield log
    finally:
        root.removeHandler(alarm)
    assert not alarm.heard, alarm.heard
    assert crashes == any(line["event"] in OWN_FAULTS for line in log), log


@contextmanager
def lab(
    folder: Path,
    config: str = "",
    *,
    addresses: int = 1,
    scripted: bool = True,
    env: Mapping[str, str] | None = None,
    tls: Tls | None = None,
    crashes: bool = False,
    reloads: bool = False,
) -> Iterator[Lab]:
    """A server with this configuration; its data is in `folder`/data, also that of a server before.

    crashes: the test makes the server meet a fault of its own, which must stand in its log.
    reloads: the configuration is in a file, and `Lab.reload` has it read again.
    """
    sockets = listening([(LOOPBACK, 0)] * addresses)
    ports = [sock.getsockname()[1] for sock in sockets]
    file = folder / "rivermouth.toml"
    if reloads:
        file.write_text(config, encoding="utf-8")

    def read() -> Config:
        known = frozenset(discover())
        made = load(file, env or {}, known) if reloads else parse(config, "rivermouth.toml", env or {}, known)
        if not made.local.devices:  # what a test shows does not depend on the machine that it runs on
            made = msgspec.structs.replace(made, local=msgspec.structs.replace(made.local, devices=("CPU",)))
        return msgspec.structs.replace(made, server=msgspec.structs.replace(made.server, port=ports[0]))

    made = read()
    data = DataDir(folder / "data")
    laid(data.database)
    started: Future[Inside] = Future()
    reloaders: list[Reloader] = []
    reread = Reread(read, lambda config, secrets: None, reloaders.append) if reloads else None

    async def serve() -> None:
        def ready(server: Server, services: Services) -> None:
            started.set_result(Inside(asyncio.get_running_loop(), server, services))

        await serving(made, data, sockets, ready, scripted=scripted, tls=tls, reread=reread)

    failed: list[BaseException] = []
    thread = threading.Thread(target=_run, args=(serve, started, failed), name="lab", daemon=True)
    try:
        with listening_to_logs(crashes=crashes) as log:
            thread.start()
            server = Lab(ports, data, started.result(DEADLINE_S), thread, log)
            if reloaders:
                server.reloader = reloaders[0]
            try:
                yield server
            finally:
                server.dispose()
                with contextlib.suppress(RuntimeError):  # the test has stopped it, and its loop is closed
                    server.stop()
                    server.stop()
                thread.join(DEADLINE_S)
            assert not thread.is_alive(), "the server did not stop"
            assert not failed, failed
    finally:
        close(sockets)


def _run(serve: Callable[[], Coroutine[Any, Any, None]], started: Future[Inside], failed: list[BaseException]) -> None:
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(serve())
    except BaseException as error:
        failed.append(error)
        if not started.done():
            started.set_exception(error)

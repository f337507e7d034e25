"""The configuration, read again while the server runs: on SIGHUP, and when a file of it has changed.

    asked -> read (in a thread) -> adopted -> another edition is made -> new calls begin with it
                     |                |                 |
                     '-- faulty ------'-----------------'---> nothing changes; the log and `doctor` say why

Files are looked at once a second, by their time, size and inode, from a thread, because the look at a network drive may
take its time.  That sees what a kernel's notifications miss: a mounted folder, a link that now leads elsewhere.  A file
counts as changed when it has stopped changing, so half a file is not read.

One reload at a time; what is asked for meanwhile is done after it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final

import msgspec
import structlog

from rivermouth.cli.notify import READY, notify, reloading
from rivermouth.config import Config, ConfigError
from rivermouth.config.live import adopted
from rivermouth.config.shape import FROM_FILE
from rivermouth.wire import json

if TYPE_CHECKING:
    from rivermouth.http.certificate import Certificate

log = structlog.get_logger()

STATE_FILE: Final = "server.config"
LOOK_S: Final = 1.0

Signature = tuple[tuple[int, int, int] | None, ...]


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """How the running configuration stands, for `doctor`.

    since: when it was taken over, in Unix seconds.  problems: why what the files say now was not.  waiting: settings
    whose new values wait for a restart.
    """

    file: str | None
    since: float
    problems: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()


class Reloader:
    """`async with` it while the server runs.

    read: the configuration as the files say it now, blocking; raises `ConfigError`.  renew: makes it that of new calls;
    raises `ConfigError` or `OSError` before anything has changed.  place: the folder in which the state is told.
    log_with: configures the log anew, because there may be other secrets to hide.  stop: stops the server.
    done: told of the end of each reload, and whether it was refused.
    """

    def __init__(
        self,
        config: Config,
        *,
        read: Callable[[], Config],
        renew: Callable[[Config], None],
        certificate: Certificate | None,
        place: Path,
        log_with: Callable[[Config], None],
        stop: Callable[[], None],
        done: Callable[[bool], None],
        look_s: float = LOOK_S,
    ) -> None:
        self._config = config
        self._read = read
        self._renew = renew
        self._certificate = certificate
        self._log_with = log_with
        self._stop = stop
        self._done = done
        self._look_s = look_s
        self._had_terminal = sys.stderr.isatty()
        self._file = place / STATE_FILE
        self.state = Standing(file=config.file, since=time.time())
        self._wanted = asyncio.Event()
        self._over = threading.Event()
        self._shown: Signature | None = None
        self._known: Signature = ()

    async def __aenter__(self) -> Reloader:
        self._tell(self.state)
        self._shown, self._known = self._certificate_now(), self._signature()
        loop = asyncio.get_running_loop()
        with contextlib.suppress(RuntimeError, ValueError):  # not in the main thread: signals are somebody else's
            loop.add_signal_handler(signal.SIGHUP, self.hung_up)
        self._task = loop.create_task(self._run())
        watch = threading.Thread(target=self._watch, args=(loop,), name="rivermouth-config", daemon=True)
        watch.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        with contextlib.suppress(RuntimeError, ValueError):
            asyncio.get_running_loop().remove_signal_handler(signal.SIGHUP)
        self._task.cancel()
        await asyncio.wait({self._task})
        self._file.unlink(missing_ok=True)

    def ask(self) -> None:
        """Read it again, soon.  From the loop."""
        self._wanted.set()

    def hung_up(self) -> None:
        """What SIGHUP means: a reload.  Where the server's terminal has gone, as when a window is closed, it stops."""
        if self._had_terminal and not sys.stderr.isatty():
            self._stop()
        else:
            self.ask()

    async def _run(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            await asyncio.to_thread(notify, reloading())
            try:
                await self.reload()
            finally:
                notify(READY)

    async def reload(self) -> None:
        """Once, now."""
        files = tuple(watched(self._config, self._certificate))
        before = await asyncio.to_thread(signature, files)
        problems = [*await self._take_over(), *await self._show()]
        if await asyncio.to_thread(signature, files) == before:  # else what came meanwhile is found by the next looks
            self._known = await asyncio.to_thread(self._signature)
        if problems:
            log.error("config.refused", file=self._config.file, problems=problems)
        self._tell(msgspec.structs.replace(self.state, problems=tuple(problems)))
        self._done(bool(problems))

    async def _take_over(self) -> list[str]:
        try:
            wanted = await asyncio.to_thread(self._read)
            new = adopted(self._config, wanted)
            self._renew(new.config)
        except ConfigError as error:
            return [str(problem) for problem in error.problems]
        except OSError as error:
            return [f"{error.filename or self._config.file}: {error.strerror or error}"]
        self._config = new.config
        self._log_with(new.config)
        self.state = Standing(file=new.config.file, since=time.time(), waiting=new.waiting)
        log.info("config.reloaded", file=new.config.file, changed=list(new.taken), after_restart=list(new.waiting))
        return []

    async def _show(self) -> list[str]:
        """The certificate, if its files have changed."""
        certificate, now = self._certificate, await asyncio.to_thread(self._certificate_now)
        if certificate is None or now == self._shown:
            return []
        try:
            await asyncio.to_thread(certificate.renew)
        except OSError as error:
            return [f"{' or '.join(certificate.files)}: {error.strerror or error}"]
        self._shown = now
        log.info("certificate.renewed", file=certificate.files[0])
        return []

    def _tell(self, state: Standing) -> None:
        """For `doctor`, which reads it while this is written."""
        self.state = state
        part = self._file.with_suffix(".part")
        with contextlib.suppress(OSError):  # a full disk must not keep a server from its configuration
            part.write_bytes(json.encode(state))
            part.replace(self._file)

    # In the thread.

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        seen = self._known
        while not self._over.wait(self._look_s):
            now = self._signature()
            if now != seen:
                seen = now  # it may still be on its way
            elif now != self._known:
                self._known = now
                if self._config.server.watch:
                    with contextlib.suppress(RuntimeError):  # the loop is closed: the server has stopped
                        loop.call_soon_threadsafe(self.ask)

    def _signature(self) -> Signature:
        return signature(watched(self._config, self._certificate))

    def _certificate_now(self) -> Signature | None:
        return signature(self._certificate.files) if self._certificate is not None else None


def watched(config: Config, certificate: Certificate | None) -> Iterator[str]:
    """The file, and those that it names whose contents count."""
    authorities = (config.outbound.ca_file, *(provider.ca_file for provider in config.providers.values()))
    yield from (name for name in (config.file, *authorities) if name is not None)
    yield from (s.label.removeprefix(FROM_FILE) for s in config.secrets if s.label.startswith(FROM_FILE))
    yield from certificate.files if certificate is not None else ()


def signature(files: Iterable[str]) -> Signature:
    """Another one when any of the files was changed, replaced, made or removed."""
    return tuple(_stat(file) for file in files)


def _stat(file: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino

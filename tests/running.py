"""A real server in a process of its own, on a free port of loopback, with a data directory of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rivermouth.store.datadir import DATABASE
from tests.databases import laid

START_S = 20.0
STOP_S = 20.0
_ANSWERS = re.compile(r"answers on (https?)://([^:\s]+):(\d+)")


class Running:
    """A server that answers.  `log` is everything that it has said on stderr so far."""

    def __init__(self, process: subprocess.Popen[str], data: Path) -> None:
        self.process = process
        self.data = data
        self.log: list[str] = []
        self.port = 0
        self.url = ""
        self._answers = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_ready(self, limit_s: float = START_S) -> None:
        """Returns when it takes connections; raises with its log when it did not start."""
        if not self._answers.wait(limit_s) or not self.port:
            self.process.kill()
            self.process.wait()
            raise RuntimeError("the server did not start:\n" + "".join(self.log))

    def terminate(self) -> None:
        """SIGTERM: the orderly way."""
        self.process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL: the other way."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """Ends it, if it has not ended yet, and returns its exit code."""
        if self.process.poll() is None:
            self.terminate()
            try:
                self.process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self.kill()
                raise RuntimeError("the server did not stop:\n" + "".join(self.log)) from None
        self._reader.join(STOP_S)
        if self.process.stderr is not None:
            self.process.stderr.close()
        return self.process.returncode

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log.append(line)
            found = _ANSWERS.search(line)
            if found and not self.port:
                self.port = int(found[3])
                self.url = f"{found[1]}://{found[2]}:{found[3]}"
                self._answers.set()
        self._answers.set()


@contextmanager
def running(
    folder: Path,
    config: str = "",
    *options: str,
    scripted: bool = True,
    env: dict[str, str] | None = None,
    module: str = "rivermouth",
    program: Path | None = None,
    start_s: float = START_S,
) -> Iterator[Running]:
    """`rivermouth serve` with this configuration; its data is in `folder`/data, also that of a server before.

    module: what is run instead of the package, with the same command line.  program: what is run instead of a module.
    """
    file = folder / "rivermouth.toml"
    file.write_text(config, encoding="utf-8")
    data = folder / "data"
    if program is None:  # a program that is not this checkout's brings a schema of its own
        laid(data / DATABASE)
    command = [
        *([str(program)] if program is not None else [sys.executable, "-m", module]),
        "serve",
        "--config",
        str(file),
        "--data-dir",
        str(data),
        "--port",
        "0",
    ]
    command += ["--scripted"] if scripted else []
    process = subprocess.Popen(
        [*command, *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env={**_environment(), **(env or {})},
    )
    server = Running(process, data)
    try:
        server.wait_ready(start_s)
        yield server
    finally:
        server.stop()


def _environment() -> dict[str, str]:
    """Ours without anybody's provider keys and proxies: what a test does not say must not matter."""
    unwanted = re.compile(r".*(_API_KEY|_BASE_URL|_PROXY|_proxy)$|OLLAMA_HOST|RIVERMOUTH_.*|OTEL_.*")
    return {k: v for k, v in os.environ.items() if not unwanted.fullmatch(k)}

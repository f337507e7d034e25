"""How the tests of this folder run the command: in this process, in one of its own, and on a terminal of its own."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
import typer.main

from rivermouth.cli import main

DEADLINE_S = 25.0
COMMAND = [sys.executable, "-m", "rivermouth"]
# Makes fd 0 the controlling terminal, so that Ctrl-C is a signal; then becomes the command.
ON_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)
BUILT = cache(typer.main.get_command)
"""What a process does once, and takes longer than most commands: to read all the functions for their options."""
UNWANTED = re.compile(r".*(_API_KEY|_BASE_URL|_PROXY|_proxy)|OLLAMA_HOST|RIVERMOUTH_.*")


class Ran(NamedTuple):
    """out: what is no UTF-8 in it stands there escaped, as `bytes_out` reads it."""

    code: int
    out: str
    err: str

    @property
    def bytes_out(self) -> bytes:
        return self.out.encode("utf-8", "surrogateescape")


class Cli:
    """`cli("list", "--json")` runs the command in this process, its words captured."""

    def __init__(self, patch: pytest.MonkeyPatch, capture: pytest.CaptureFixture[bytes]) -> None:
        self._patch = patch
        self._capture = capture

    def __call__(self, *words: str | Path) -> Ran:
        self._patch.setattr(sys, "argv", ["rivermouth", *map(str, words)])
        self._patch.setattr(typer.main, "get_command", BUILT)
        self._capture.readouterr()
        code = 0
        try:
            main()
        except SystemExit as left:
            code = left.code if isinstance(left.code, int) else int(left.code is not None)
        out, err = self._capture.readouterr()
        return Ran(code, out.decode("utf-8", "surrogateescape"), err.decode())


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Ours without anybody's keys and proxies, wide enough that no message is folded."""
    kept = {name: value for name, value in os.environ.items() if not UNWANTED.fullmatch(name)}
    return kept | {"COLUMNS": "200", "PYTHONUNBUFFERED": "1"} | dict(extra or {})


def run(*words: str | Path, stdin: str = "", env: Mapping[str, str] | None = None) -> Ran:
    """The command in a process of its own, to its end."""
    done = subprocess.run(
        [*COMMAND, *map(str, words)],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        env=environment(env),
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


class Terminal:
    """A process on a terminal of its own: what it shows is read, what a person would press is written."""

    def __init__(self, process: subprocess.Popen[bytes], master: int) -> None:
        self.process = process
        self.shown = ""
        self._master = master
        self._read_to = 0

    def expect(self, text: str) -> str:
        """Waits until `text` is shown, and returns what came before it since the last time."""
        ends_at = time.monotonic() + DEADLINE_S
        while (at := self.shown.find(text, self._read_to)) < 0:
            ready, _, _ = select.select([self._master], [], [], max(ends_at - time.monotonic(), 0))
            data = self._take() if ready else b""
            if not data:
                raise AssertionError(f"{text!r} was not shown; this was:\n{self.shown[self._read_to :]}")
            self.shown += data.decode("utf-8", "replace")
        before = self.shown[self._read_to : at]
        self._read_to = at + len(text)
        return before

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def code(self) -> int:
        """Its exit code, once it has ended."""
        return self.process.wait(DEADLINE_S)

    def _take(self) -> bytes:
        try:
            return os.read(self._master, 1 << 16)
        except OSError:  # the other side is closed: it has ended
            return b""


@contextmanager
def on_terminal(*words: str | Path, env: Mapping[str, str] | None = None) -> Iterator[Terminal]:
    """The command on a terminal; killed in the end if it still runs."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", ON_TERMINAL, *COMMAND, *map(str, words)],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        env=environment({"TERM": "xterm", **(env or {})}),
    )
    os.close(slave)
    try:
        yield Terminal(process, master)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.wait()
        os.close(master)

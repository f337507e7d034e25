"""The data directory: where it is, that it is private, and that one server at a time has it.

The lock is an flock on `server.lock`, held as long as the process lives: the kernel releases it at any death, so there
is no stale lock to judge.  Readers take no lock.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final

from platformdirs import user_data_path

from rivermouth.store.port import StoreError

ENVIRONMENT: Final = "RIVERMOUTH_DATA"
DATABASE: Final = "rivermouth.db"
LOCK: Final = "server.lock"


class DataDirBusy(Exception):
    """Another server has the directory; `pid` is its process, if it said."""

    def __init__(self, path: Path, pid: int | None) -> None:
        super().__init__(f"the data directory {path} is in use by a server with pid {pid or 'unknown'}")
        self.path = path
        self.pid = pid


class DataDir:
    """A directory, made private (0700) when it has to be made."""

    def __init__(self, path: Path) -> None:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path = path.resolve()

    @classmethod
    def locate(cls, option: str | Path | None, environ: Mapping[str, str], configured: str | None) -> DataDir:
        """The command line's, else the environment's, else the configuration's, else the platform's own place."""
        chosen = option or environ.get(ENVIRONMENT) or configured
        return cls(Path(chosen).expanduser() if chosen else user_data_path("rivermouth", appauthor=False))

    @property
    def database(self) -> Path:
        return self.path / DATABASE

    def lock(self) -> DataDirLock:
        """Take the directory for this process, until the lock is released.  Raises `DataDirBusy`."""
        return DataDirLock(self.path)


class DataDirLock:
    """Held from its making to `release`, or to the end of the process."""

    def __init__(self, path: Path) -> None:
        try:
            self._fd = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreError(f"the data directory {path} cannot be written: {error.strerror}") from None
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            said = os.pread(self._fd, 20, 0).strip()
            os.close(self._fd)
            raise DataDirBusy(path, int(said) if said.isdigit() else None) from None
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, b"%d\n" % os.getpid(), 0)

    def release(self) -> None:
        """Idempotent."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __enter__(self) -> DataDirLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

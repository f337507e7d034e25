"""Downloads that can go on another time: found again by what they are to become, bounded in age and size.

    <root>/partial/<key>.part       what has arrived; locked for as long as somebody writes to it
    <root>/partial/<key>.json       what the source said of it: the validator that proves it is still the same file

`key` is the sha256 that the whole file must have.  A part is kept only where the source can go on from the middle; it
is taken out of here by a rename when it is whole.  Nothing here is trusted: the whole file's sha256 is compared in the
end, and what does not match is removed.  All methods block on the disk.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

import msgspec

from rivermouth.ir.errors import ApiError, Kind, WireError
from rivermouth.local.models.registry import READ_BYTES
from rivermouth.local.sources.blocks import GoOn, Stopped, Tally
from rivermouth.wire import json

AGE_CAP_S: Final = 7 * 86_400.0
TOTAL_CAP_BYTES: Final = 64 << 30
KEPT_FROM_BYTES: Final = 256 * 1024
"""What is smaller is fetched anew sooner than it is found again."""


class Origin(msgspec.Struct, frozen=True):
    """The whole file as its source described it.  `validator`: its strong ETag, else its Last-Modified."""

    validator: str
    total_bytes: int


_ORIGIN: Final = json.typed(Origin)


class Partials:
    """The folder of parts.  Several processes may use one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root / "partial"

    def open(self, key: str) -> Partial:
        """The part with this key, which is empty if there was none.  Raises `ApiError` when somebody else has it."""
        self.root.mkdir(parents=True, exist_ok=True)
        path = self.root / f"{key}.part"
        while True:
            file = path.open("a+b")
            if not _lock(file):
                file.close()
                raise ApiError(
                    Kind.OVERLOADED,
                    "this file is being pulled already, under another name or by another program",
                    code="pull_busy",
                )
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                    return Partial(path, file)
            file.close()  # whoever had it has just moved it away

    def sweep(self, now_s: float) -> None:
        """Removes parts that are older than a week, and the oldest of those that take more room than they may."""
        total = 0
        for size, changed_s, path in sorted(self._idle(), key=lambda part: -part[1]):
            total += size
            if now_s - changed_s > AGE_CAP_S or total > TOTAL_CAP_BYTES:
                _remove(path)
        for path in self.root.glob("*.json"):
            if not path.with_suffix(".part").exists():
                path.unlink(missing_ok=True)

    def _idle(self) -> Iterator[tuple[int, float, Path]]:
        """Size, time of the last change, and path of each part that nobody writes to."""
        for path in self.root.glob("*.part"):
            with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
                if _lock(file):
                    stat = os.fstat(file.fileno())
                    yield stat.st_size, stat.st_mtime, path


class Partial:
    """One part, for one writer.  `size_bytes` have arrived; `origin` is None until a source has described the file."""

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self.path = path
        self.size_bytes = os.fstat(file.fileno()).st_size
        self.origin = _origin_at(path.with_suffix(".json"))
        self._file = file
        self._sha = hashlib.sha256()
        self._keep = True
        self._taken = False

    def rehash(self, go_on: GoOn) -> None:
        """Reads what arrived the last time, so that the sum goes on from there.  Empties a part of unknown origin."""
        if self.origin is None or self.size_bytes > self.origin.total_bytes:
            self.restart(None)
            return
        self._file.seek(0)
        while block := self._file.read(READ_BYTES):
            if not go_on():
                raise Stopped
            self._sha.update(block)

    def restart(self, origin: Origin | None) -> None:
        """Empties the part.  Without an origin it will not be kept, because nobody could go on with it."""
        self._file.truncate(0)
        self.size_bytes = 0
        self._sha = hashlib.sha256()
        self.origin = origin
        described = self.path.with_suffix(".json")
        if origin is None:
            described.unlink(missing_ok=True)
        else:
            described.write_bytes(json.encode(origin))

    def write(self, block: bytes) -> None:
        """Appends.  Raises `OSError`."""
        self._file.write(block)
        self._file.flush()
        self._sha.update(block)
        self.size_bytes += len(block)

    def tally(self) -> Tally:
        """Of all that has arrived."""
        return Tally(self._sha.hexdigest(), self.size_bytes)

    def discard(self) -> None:
        """It will not be kept: it is not what it should be, or its room is needed."""
        self._keep = False

    def take(self, place: Path) -> Path:
        """Moves the whole file to `place`, on the same disk."""
        self.path.replace(place)
        self.path.with_suffix(".json").unlink(missing_ok=True)
        self._taken = True
        return place

    def close(self) -> None:
        """Lets go of it: kept for the next time where that makes sense, else removed."""
        if not self._taken and (not self._keep or self.origin is None or self.size_bytes < KEPT_FROM_BYTES):
            _remove(self.path)
        self._file.close()


def _origin_at(path: Path) -> Origin | None:
    try:
        return json.decode_as(_ORIGIN, path.read_bytes())
    except (OSError, WireError):
        return None


def _lock(file: IO[bytes]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.with_suffix(".json").unlink(missing_ok=True)

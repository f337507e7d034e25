"""Files in blocks: copied and hashed in one pass, in a thread that stops within a block when nobody wants it any more.

`go_on` is how a thread learns that: it turns False when the task that waits for the thread is cancelled.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, Final, NamedTuple, TypeVar

from rivermouth.ir.errors import ApiError, Kind
from rivermouth.local.models.registry import READ_BYTES

T = TypeVar("T")

GoOn = Callable[[], bool]

SPARE_BYTES: Final = 64 * 1024 * 1024
"""What a pull leaves free on the disk."""


class Stopped(Exception):
    """Raised in a worker thread whose result nobody wants any more."""


class Tally(NamedTuple):
    sha256: str
    size_bytes: int


async def in_thread(work: Callable[[GoOn], T]) -> T:
    """Runs `work(go_on)` in a thread.  When cancelled, `go_on()` turns False, and this returns after the thread has."""
    stop = threading.Event()
    future = asyncio.get_running_loop().run_in_executor(None, work, lambda: not stop.is_set())
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        stop.set()
        await asyncio.wait([future])
        future.cancelled() or future.exception()  # read here, so that asyncio does not report it as lost
        raise


def copy_hashed(
    original: IO[bytes], copy: Path, go_on: GoOn, size_bytes: int, advance: Callable[[int], object] = lambda _: None
) -> Tally:
    """Copies and hashes in one pass.  What holds more or less than `size_bytes` fails, so a parcel cannot swell."""
    sha = hashlib.sha256()
    size = 0
    with copy.open("xb") as file:
        while block := original.read(READ_BYTES):
            if not go_on():
                raise Stopped
            size += len(block)
            if size > size_bytes:
                break
            file.write(block)
            sha.update(block)
            advance(size)
    if size != size_bytes:
        found = f"more than {size_bytes} bytes" if size > size_bytes else f"{size} of {size_bytes} bytes"
        raise ApiError(Kind.UPSTREAM, f"{copy.name} has {found}; nothing was kept", code="wrong_size")
    return Tally(sha.hexdigest(), size)


def check_digest(what: str, found: str, pinned: str) -> None:
    """Raises `ApiError` (digest_mismatch) unless they are the same."""
    if found != pinned:
        raise ApiError(
            Kind.UPSTREAM,
            f"the sha256 of {what} is {found}, not {pinned}; nothing was kept",
            code="digest_mismatch",
        )


def check_room(place: Path, needed_bytes: int) -> None:
    """Raises `ApiError` (disk_full) when the disk of `place` has no room for that much and some more."""
    free = shutil.disk_usage(place).free
    if free < needed_bytes + SPARE_BYTES:
        raise ApiError(
            Kind.INTERNAL,
            f"the model needs {(needed_bytes + SPARE_BYTES) >> 20} MiB on the disk, {free >> 20} MiB are free",
            code="disk_full",
            status=507,
        )


def disk_error(error: OSError) -> ApiError:
    """A failure of the disk, with the reason but not the path."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return ApiError(Kind.INTERNAL, "there is no room on the disk for the model", code="disk_full", status=507)
    return ApiError(Kind.INTERNAL, f"the model could not be written: {error.strerror}", code="disk_error")

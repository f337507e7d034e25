"""A GGUF file, or a folder with an OpenVINO model, of the operator's own: copied, so that it does not change any more.

Of a folder only the files with known names are taken, and only real ones: a link may lead to anything on this machine.
"""

from __future__ import annotations

import asyncio
import os
import stat
from functools import partial
from pathlib import Path
from typing import IO

import msgspec

from rivermouth.ir.errors import invalid
from rivermouth.local.models.catalog import Entry, FileSource
from rivermouth.local.models.registry import ModelFile, sha256_of
from rivermouth.local.sources.blocks import GoOn, Stopped, check_digest, check_room, copy_hashed, in_thread
from rivermouth.local.sources.gathered import Gathered, Orders, Telling, check_cap
from rivermouth.local.sources.layout import chosen


class Original(msgspec.Struct, frozen=True):
    """A file as it lies there.  `name` is the one it will have."""

    path: Path
    name: str
    linked: bool


async def from_path(entry: Entry, source: FileSource, place: Path, telling: Telling, orders: Orders) -> Gathered:
    """The one file, or the known files of the folder.  Their digests are read beforehand, and compared afterwards."""
    try:
        completed, originals = await asyncio.to_thread(_survey, entry, source.path)
        files = tuple([await in_thread(partial(_measured, original)) for original in originals])
    except OSError as error:
        why = "is not there" if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror}"
        raise invalid(f"{source.path.name!r} {why}", param="file") from error
    check_cap(sum(file.size_bytes for file in files), len(files), orders)
    pinned = {file.name: file.sha256 for file in entry.files}
    for file in files:
        check_digest(file.name, file.sha256, pinned.get(file.name) or file.sha256)
    await asyncio.to_thread(check_room, place, sum(file.size_bytes for file in files))
    loop = asyncio.get_running_loop()
    for original, file in zip(originals, files, strict=True):
        telling.begin(file.name, f"sha256:{file.sha256}", file.size_bytes)
        await in_thread(partial(_copied, original, file, place, telling, loop))
    await asyncio.sleep(0)  # what the threads told comes before what follows
    telling.verifying()
    return Gathered(completed, files, f"file:{source.path.name}")


def _survey(entry: Entry, path: Path) -> tuple[Entry, list[Original]]:
    """What is there: the entry with its format, and the files to take, the main one first."""
    if not path.is_dir():
        name = entry.files[0].name if entry.files else path.name
        return msgspec.structs.replace(entry, format="gguf"), [Original(path, name, linked=True)]
    names = chosen(os.listdir(path))
    if names is None:
        raise invalid(
            f"the folder {path.name!r} holds no OpenVINO model (openvino_model.xml and what belongs to it)",
            param="file",
            code="unsupported_model",
        )
    return msgspec.structs.replace(entry, format="openvino"), [Original(path / n, n, linked=False) for n in names]


def _measured(original: Original, go_on: GoOn) -> ModelFile:
    with _opened(original) as file:
        size = os.fstat(file.fileno()).st_size
    digest = sha256_of(original.path, go_on)
    if digest is None:
        raise Stopped
    return ModelFile(name=original.name, sha256=digest, size_bytes=size)


def _opened(original: Original) -> IO[bytes]:
    """The original, if it is a real file.  A link that the operator named is followed, one in a folder is not."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if original.linked else os.O_NOFOLLOW)
    if not original.linked and original.path.is_symlink():
        raise invalid(
            f"{original.name!r} is a symbolic link; copy the folder with its links followed (cp -rL)",
            param="file",
            code="unsupported_model",
        )
    file = os.fdopen(os.open(original.path, flags), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise invalid(f"{original.name!r} is not a file", param="file", code="unsupported_model")
    return file


def _copied(
    original: Original, file: ModelFile, place: Path, telling: Telling, loop: asyncio.AbstractEventLoop, go_on: GoOn
) -> None:
    with _opened(original) as source:
        tally = copy_hashed(
            source, place / file.name, go_on, file.size_bytes, lambda n: loop.call_soon_threadsafe(telling.advance, n)
        )
    if tally.sha256 != file.sha256:
        raise invalid(f"{file.name!r} changed while it was copied", param="file")

"""The network on disk, so that it is built once for each set of files and then only loaded.

    <cache>/<form>/encoder.xml, encoder.bin     the network, with its weights at half precision
    <cache>/<form>/built.json                   how long these files are; written last
    <cache>/<form>/compiled/                    what the engine makes of it for this machine's processor

`cache` belongs to one model, by the digest of its files; `form` changes with this program's way to build and with the
engine's version, and what has another form is removed.  A folder appears whole or not at all: it is made beside, synced
and renamed.  One whose files are not as long as they were is built again.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from rivermouth.ir.errors import WireError
from rivermouth.local.models import stages
from rivermouth.wire import json

FORM: Final = 1
NETWORK: Final = "encoder.xml"
NUMBERS: Final = "encoder.bin"
MARK: Final = "built.json"
COMPILED: Final = "compiled"

Save = Callable[[Path], None]


class _Built(msgspec.Struct, frozen=True):
    """Lengths in bytes."""

    network: int
    numbers: int


_BUILT: Final = json.typed(_Built)


def form_of(engine_version: str) -> str:
    """The name of the folder, with nothing in it that a path could be made to mean."""
    plain = "".join(c if c.isalnum() or c == "." else "-" for c in engine_version).strip(".")
    return f"{FORM}-{plain[:60]}"


def stored(place: Path) -> Path | None:
    """The network in this folder, if it is whole."""
    try:
        mark = json.decode_as(_BUILT, (place / MARK).read_bytes())
        sizes = _sizes(place)
    except (OSError, WireError):
        return None
    return place / NETWORK if mark == sizes else None


def keep(cache: Path, form: str, save: Save) -> Path:
    """Stores what `save` writes to the path that it is given, and returns where the network lies now.

    Raises what `save` raises, and `OSError`; then nothing is left behind.  If another process was faster, its network
    is the one.
    """
    cache.mkdir(parents=True, exist_ok=True)
    stage = Path(tempfile.mkdtemp(prefix=".building-", dir=cache))
    place = cache / form
    try:
        save(stage / NETWORK)
        (stage / MARK).write_bytes(json.encode(_sizes(stage)))
        for name in (NETWORK, NUMBERS, MARK):
            stages.sync(stage / name)
        stages.sync(stage)
        if place.exists() and stored(place) is None:
            shutil.rmtree(place)
        _publish(stage, place)
    finally:
        shutil.rmtree(stage, ignore_errors=True)
    _clear(cache, form)
    return place / NETWORK


def sweep(caches: Path, digests: set[str]) -> None:
    """Removes the caches of models that are here no more."""
    known = {folder_of(digest) for digest in digests}
    for place in caches.iterdir() if caches.is_dir() else ():
        if place.name not in known:
            shutil.rmtree(place, ignore_errors=True)


def folder_of(digest: str) -> str:
    """The name of a model's cache.  Raises `ValueError` for what is no digest."""
    kind, _, value = digest.partition(":")
    if kind != "sha256" or len(value) != 64 or not value.isalnum():
        raise ValueError(f"{digest[:80]!r} is not a sha256 digest")
    return f"sha256-{value}"


def _publish(stage: Path, place: Path) -> None:
    try:
        stage.rename(place)
        stages.sync(place.parent)
    except OSError:
        if stored(place) is None:  # else another process has just stored the same
            raise


def _clear(cache: Path, form: str) -> None:
    """What other versions left.  A folder that is still being built by another process will be built by it again."""
    for place in cache.iterdir():
        if place.name != form and not place.name.startswith("."):
            shutil.rmtree(place, ignore_errors=True)


def _sizes(place: Path) -> _Built:
    return _Built((place / NETWORK).stat().st_size, (place / NUMBERS).stat().st_size)


def saver(openvino: Any, network: Any) -> Save:
    """Writes a network at half precision: half the size, and the vectors differ in the fourth digit at most."""
    return lambda path: openvino.save_model(network, str(path), compress_to_fp16=True)

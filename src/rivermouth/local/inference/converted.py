"""What the engine makes of a GGUF file, kept: an OpenVINO model with its tokenizer, which loads in half the time.

    <cache>/<form>/openvino_model.xml ...       the model, and beside it the file it was made of, as a link
    <cache>/<form>/kept.json                    how long each of these files is; written last
    <cache>/compiled/                           what the engine makes of either for this machine's devices

`cache` belongs to one model, by its digest; `form` changes with this program's way and with the engine's version, and
what has another form is removed.  A folder appears whole or not at all: it is made beside, and renamed.  One whose
files are not as long as they were is made again.  Without room for it the file itself is loaded, as often as it takes.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final

from rivermouth.ir.errors import WireError
from rivermouth.local.models import stages
from rivermouth.local.models.openvino_ir import NETWORKS
from rivermouth.wire import json

FORM: Final = 1
LINK: Final = "model.gguf"
MARK: Final = "kept.json"
COMPILED: Final = "compiled"
FILES: Final = tuple(f"{name}{suffix}" for name in NETWORKS for suffix in (".xml", ".bin"))
ROOM_FACTOR: Final = 2
"""As many times the file's size must be free on the disk, or nothing is kept."""

_STAGE: Final = ".making-"
_SIZES: Final = json.typed(dict[str, int])


def form_of(engine_version: str) -> str:
    """The name of the folder, with nothing in it that a path could be made to mean."""
    plain = "".join(c if c.isalnum() or c == "." else "-" for c in engine_version).strip(".")
    return f"{FORM}-{plain[:60]}"


def found(cache: Path, form: str) -> Path | None:
    """The folder with the model, if it is whole."""
    place = cache / form
    try:
        kept = json.decode_as(_SIZES, (place / MARK).read_bytes())
        whole = kept == _sizes(place)
    except (OSError, WireError):
        return None
    return place if whole else None


def stage(cache: Path, file: Path) -> Path | None:
    """A folder of its own with a link to the file, for the engine to write into; None where there is no room."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        stages.sweep(cache, _STAGE)
        if shutil.disk_usage(cache).free < ROOM_FACTOR * file.stat().st_size:
            return None
        place = stages.opened(cache, _STAGE)
        (place / LINK).symlink_to(file.resolve())
    except OSError:
        return None
    return place


def publish(cache: Path, form: str, place: Path) -> Path | None:
    """The folder under its own name; None, with nothing left behind, when not everything was written."""
    try:
        (place / LINK).unlink()
        (place / MARK).write_bytes(json.encode(_sizes(place)))
        for name in (*FILES, MARK):
            stages.sync(place / name)
        target = cache / form
        if target.exists() and found(cache, form) is None:
            shutil.rmtree(target)
        place.rename(target)
        stages.sync(cache)
    except OSError:
        discard(place)
        return found(cache, form)  # another process may have been faster
    for other in cache.iterdir():
        if other.is_dir() and other.name not in (form, COMPILED) and not other.name.startswith("."):
            shutil.rmtree(other, ignore_errors=True)
    return target


def discard(place: Path) -> None:
    """Removes a stage."""
    shutil.rmtree(place, ignore_errors=True)


def size_of(cache: Path) -> int:
    """Bytes of everything that is kept for a model."""
    total = 0
    for path in cache.rglob("*") if cache.is_dir() else ():
        with suppress(OSError):
            total += path.lstat().st_size if not path.is_dir() else 0
    return total


def _sizes(place: Path) -> dict[str, int]:
    return {name: (place / name).stat().st_size for name in FILES}

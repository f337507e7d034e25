"""How the loads of a model went, and how its process last ended unasked; beside what is kept of the model.

    <cache>/history.json

Small, written whole, and only ever for people: what cannot be read is as if it were not there.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from rivermouth.ir.errors import WireError
from rivermouth.wire import json

FILE: Final = "history.json"
PLACES_CAP: Final = 16


class LoadTimes(msgspec.Struct, frozen=True, kw_only=True):
    """On one device in one way: the last load of each kind, in seconds.  warm: of what an earlier load had kept."""

    cold_s: float | None = None
    warm_s: float | None = None


class LastCrash(msgspec.Struct, frozen=True, kw_only=True):
    """at: Unix seconds.  how: one sentence.  stderr: its last lines, of one that died while loading."""

    at: int
    device: str
    how: str
    stderr: tuple[str, ...] = ()


class History(msgspec.Struct, frozen=True, kw_only=True):
    """loads: by device, with "one at a time" behind it where answers are.

    crash: what an earlier version kept under that name may quote a prompt: it is not read, and the next write drops it.
    """

    loads: dict[str, LoadTimes] = {}
    crash: LastCrash | None = msgspec.field(name="last_crash", default=None)


_HISTORY: Final = json.typed(History)


def read(cache: Path) -> History:
    """What is known."""
    try:
        return json.decode_as(_HISTORY, (cache / FILE).read_bytes())
    except (OSError, WireError):
        return History()


def with_load(history: History, way: str, seconds: float, *, cached: bool) -> History:
    """After one more load."""
    before = history.loads.get(way, LoadTimes())
    after = msgspec.structs.replace(before, **{"warm_s" if cached else "cold_s": round(seconds, 3)})
    loads = {**history.loads, way: after}
    return msgspec.structs.replace(history, loads=dict(list(loads.items())[-PLACES_CAP:]))


def note_load(cache: Path, way: str, seconds: float, *, cached: bool) -> None:
    """Keeps it, if the disk allows."""
    _write(cache, with_load(read(cache), way, seconds, cached=cached))


def note_crash(cache: Path, crash: LastCrash) -> None:
    """Keeps it in place of the one before, if the disk allows."""
    _write(cache, msgspec.structs.replace(read(cache), crash=crash))


def _write(cache: Path, history: History) -> None:
    fresh = cache / f".{FILE}.{os.getpid()}"
    with suppress(OSError):
        cache.mkdir(parents=True, exist_ok=True)
        fresh.write_bytes(json.encode(history))
        fresh.replace(cache / FILE)

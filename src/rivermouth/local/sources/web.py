"""One GGUF file at an address, known by its sha256."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import msgspec

from rivermouth.ir.errors import invalid
from rivermouth.local.models.catalog import Entry, WantedFile, WebSource
from rivermouth.local.models.registry import ModelFile
from rivermouth.local.sources.blocks import check_digest, in_thread
from rivermouth.local.sources.gathered import Clocks, Gathered, Orders, Telling
from rivermouth.local.sources.partials import Partial, Partials
from rivermouth.local.sources.transfer import Remote, transfer


async def from_web(
    entry: Entry, source: WebSource, place: Path, partials: Partials, telling: Telling, orders: Orders
) -> Gathered:
    """The file of the address, taken up where an earlier pull of the same sha256 ended."""
    wanted = entry.files[0]
    remote = Remote(url=source.url, cap_bytes=orders.cap_bytes, size_bytes=wanted.size_bytes, outbound=orders.outbound)
    file = await download(wanted, remote, place, partials, telling, orders.clocks)
    telling.verifying()
    gathered = msgspec.structs.replace(entry, format="gguf")
    return Gathered(gathered, (file,), shown(source.url))


async def download(
    wanted: WantedFile, remote: Remote, place: Path, partials: Partials, telling: Telling, clocks: Clocks
) -> ModelFile:
    """One file with a known sha256 into `place`.  Raises `ApiError`; then what can be gone on with is kept apart."""
    if wanted.sha256 is None:
        raise invalid("a download needs the sha256 of the file", param="sha256")
    part = await asyncio.to_thread(partials.open, wanted.sha256)
    try:
        await in_thread(part.rehash)
        digest = f"sha256:{wanted.sha256}"
        await transfer(remote, part, lambda total: telling.begin(wanted.name, digest, total), telling.advance, clocks)
        return await asyncio.to_thread(_taken, wanted, part, place)
    finally:
        await asyncio.to_thread(part.close)


def _taken(wanted: WantedFile, part: Partial, place: Path) -> ModelFile:
    tally = part.tally()
    try:
        check_digest(wanted.name, tally.sha256, wanted.sha256 or "")
    except BaseException:
        part.discard()
        raise
    part.take(place / wanted.name)
    return ModelFile(name=wanted.name, sha256=tally.sha256, size_bytes=tally.size_bytes)


def shown(url: str) -> str:
    """The address without what may be a secret in it."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))

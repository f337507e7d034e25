"""What is here already is verified again and told, instead of being fetched."""

from __future__ import annotations

import asyncio
from functools import partial

from rivermouth.ir.errors import ApiError
from rivermouth.local.models.catalog import Entry
from rivermouth.local.models.registry import Model, Registry, sha256_of
from rivermouth.local.sources.blocks import in_thread
from rivermouth.local.sources.gathered import Telling


async def verify_present(entry: Entry, registry: Registry, telling: Telling) -> bool:
    """True when the registry has this model already and its bytes are what they should be, which is checked anew."""
    model = await asyncio.to_thread(find, registry, entry)
    wanted = {file.name: file.sha256 for file in entry.files}
    if model is None or not wanted or {file.name: file.sha256 for file in model.files} != wanted:
        return False
    return await verify(model, telling)


async def verify(model: Model, telling: Telling) -> bool:
    """True when the model's files have the bytes that were published, which is told as if they came just now."""
    for file in model.files:
        if await in_thread(partial(sha256_of, model.file(file.name))) != file.sha256:
            return False
    for file in model.files:
        telling.begin(file.name, f"sha256:{file.sha256}", file.size_bytes)
        telling.advance(file.size_bytes)
    telling.verifying()
    return True


def find(registry: Registry, entry: Entry) -> Model | None:
    """The model that has the entry's name now; None when there is none, or one that a pull may mend."""
    try:
        return registry.find(str(entry.name))
    except ApiError:
        return None

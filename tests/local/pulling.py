"""What the tests of pulls share: frames, their grammar, and what may be left behind."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from itertools import groupby

from rivermouth.local.models.catalog import Entry
from rivermouth.local.models.registry import Registry
from rivermouth.local.sources.gathered import Clocks, Orders
from rivermouth.local.sources.pull import MANIFEST, SUCCESS, VERIFYING, Puller, PullProgress

HASTY = Clocks(connect_s=5.0, silence_s=5.0, tries=3, pause_s=0.0)


def puller_of(registry: Registry, *entries: Entry, orders: Orders | None = None) -> Puller:
    """Its catalogue has these entries."""
    return Puller(registry, {entry.name: entry for entry in entries}, orders=orders or Orders(clocks=HASTY))


async def frames_of(puller: Puller, wanted: str | Entry, accept: str | None = None) -> list[PullProgress]:
    """All frames of a client's pull by name, or of the operator's of an entry."""
    pull = puller.pull(wanted, accept) if isinstance(wanted, str) else puller.pull_entry(wanted, accept)
    return await rest_of(pull)


async def rest_of(pull: AsyncGenerator[PullProgress, None]) -> list[PullProgress]:
    async with aclosing(pull) as frames:
        return [frame async for frame in frames]


async def until_some_arrived(pull: AsyncGenerator[PullProgress, None]) -> list[PullProgress]:
    """The frames up to the first that tells of bytes."""
    seen: list[PullProgress] = []
    async for frame in pull:
        seen.append(frame)
        if frame.completed:
            break
    return seen


def check_frames(frames: list[PullProgress], *files: tuple[str, str, int]) -> None:
    """The whole grammar of a pull that succeeds: file name, digest and size of each, in this order."""
    assert frames[0] == MANIFEST
    assert frames[-2:] == [VERIFYING, SUCCESS]
    told = [(key, list(group)) for key, group in groupby(frames[1:-2], lambda f: (f.status, f.file, f.digest, f.total))]
    assert [key for key, _ in told] == [(f"pulling {name}", name, digest, total) for name, digest, total in files]
    for (_, _, _, total), group in told:
        done = [frame.completed for frame in group]
        assert done[0] == 0
        assert done[-1] == total
        assert done == sorted(set(done))  # type: ignore[type-var]


def nothing_left(registry: Registry, *, partial: bool = False) -> bool:
    """No model, no file, no staging folder; parts that can be gone on with, if they are allowed."""
    allowed = {"lock"}
    left = [
        path
        for path in registry.root.rglob("*")
        if path.is_file() and path.name not in allowed and not (partial and path.parent.name == "partial")
    ]
    return not left and not any((registry.root / "staging").iterdir())


def parts(registry: Registry) -> list[int]:
    """The sizes of the parts that lie there."""
    return sorted(path.stat().st_size for path in (registry.root / "partial").glob("*.part"))

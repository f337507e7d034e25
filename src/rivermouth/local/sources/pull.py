"""From a source to the registry: fetched, verified, checked, published; told in frames on the way.

    pulling manifest -> pulling <file> (0 ... total), for each file -> verifying sha256 digest -> success

One download for each model, followed by everyone who asked for it; frames that say the same thing more recently replace
those that a follower has not read.  The last follower to leave stops the download.  Whatever ends it early, the staging
folder goes and the registry has not changed; what a later pull can go on with is kept apart (`partials`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Final

import msgspec

from rivermouth.ir.errors import ApiError, Kind
from rivermouth.local.models.catalog import CATALOG, Catalog, Entry, Source
from rivermouth.local.models.names import ModelName
from rivermouth.local.models.references import Pulls, client_entry
from rivermouth.local.models.registry import Registry
from rivermouth.local.sources.fetch import fetch
from rivermouth.local.sources.gathered import Orders
from rivermouth.local.sources.present import verify_present
from rivermouth.providers.outbound import FROM_ENVIRONMENT, Outbound

STEPS: Final = 200


class PullProgress(msgspec.Struct, frozen=True, omit_defaults=True):
    """One frame.  `file`, `digest`, `total` and `completed` (bytes) are set together, on lines about a file."""

    status: str
    file: str | None = None
    digest: str | None = None
    total: int | None = None
    completed: int | None = None


MANIFEST = PullProgress("pulling manifest")
VERIFYING = PullProgress("verifying sha256 digest")
SUCCESS = PullProgress("success")


def add_frame(frames: deque[PullProgress], frame: PullProgress) -> None:
    """Appends, but replaces a last frame that is news no more; so at most a handful ever wait."""
    if frames and _replaceable(frames[-1]) and frame.digest == frames[-1].digest:
        frames[-1] = frame
    else:
        frames.append(frame)


def _replaceable(frame: PullProgress) -> bool:
    return frame.completed is not None and frame.total is not None and 0 < frame.completed < frame.total


Wish = tuple[ModelName, Source, str | None]
"""What makes two pulls the same: the name, where it comes from, and the licence that was accepted."""


class Puller:
    """Pulls into `registry`: for clients what `catalog` names (and what `pulls` admits), for the operator any entry."""

    def __init__(
        self,
        registry: Registry,
        catalog: Catalog = CATALOG,
        *,
        pulls: Pulls = Pulls.CATALOG,
        orders: Orders | None = None,
    ) -> None:
        self._registry = registry
        self._catalog = catalog
        self._pulls = pulls
        self._orders = orders or Orders()
        self._running: dict[Wish, _Download] = {}

    @property
    def names(self) -> frozenset[str]:
        """What the catalogue has, each with its tag."""
        return frozenset(map(str, self._catalog))

    def adopt(self, pulls: Pulls, limit_bytes: int, outbound: Outbound = FROM_ENVIRONMENT) -> None:
        """What pulls that begin from now on may be; one that runs goes on as it began."""
        self._pulls = pulls
        self._orders = msgspec.structs.replace(self._orders, cap_bytes=limit_bytes, outbound=outbound)

    async def pull(self, name: str, accept: str | None = None) -> AsyncGenerator[PullProgress, None]:
        """The frames of a client's pull.  Raises `ApiError` after the first for what it may not have.

        accept: the licence that the client accepts, by name.
        """
        yield MANIFEST
        async with aclosing(self._follow(client_entry(name, self._catalog, self._pulls), accept)) as frames:
            async for frame in frames:
                yield frame

    async def pull_entry(self, entry: Entry, accept: str | None = None) -> AsyncGenerator[PullProgress, None]:
        """The frames of the operator's pull; see `models.references.operator_entry`."""
        yield MANIFEST
        async with aclosing(self._follow(entry, accept)) as frames:
            async for frame in frames:
                yield frame

    async def _follow(self, entry: Entry, accept: str | None) -> AsyncGenerator[PullProgress, None]:
        """The frames after "pulling manifest"."""
        wish = (entry.name, entry.source, accept)
        download = self._running.get(wish)
        if download is None:
            orders = msgspec.structs.replace(self._orders, accept=accept)
            download = self._running[wish] = _Download(entry, self._registry, orders)
        follower = download.join()
        try:
            while (frame := await download.next_frame(follower)) is not None:
                yield frame
        finally:
            if download.leave(follower) and self._running.get(wish) is download:
                del self._running[wish]
            await download.settled()

    def statistics(self) -> dict[str, int]:
        """How many downloads run, and how many follow them."""
        return {
            "downloads": len(self._running),
            "followers": sum(download.followers for download in self._running.values()),
        }

    async def close(self) -> None:
        """Stops what runs; their followers see `cancelled`."""
        for download in list(self._running.values()):
            download.task.cancel()
            with suppress(asyncio.CancelledError, ApiError):
                await download.task


class _Follower:
    """Someone who reads the frames."""

    def __init__(self, frames: deque[PullProgress]) -> None:
        self.frames = frames
        self.wake = asyncio.Event()


class _Download:
    """One download and its followers."""

    def __init__(self, entry: Entry, registry: Registry, orders: Orders) -> None:
        self._entry = entry
        self._registry = registry
        self._orders = orders
        self._digests: set[str] = set()
        self._told: deque[PullProgress] = deque()
        self._followers: list[_Follower] = []
        self._file: PullProgress | None = None
        self.task = asyncio.create_task(self._run(), name=f"pull {entry.name}")
        self.task.add_done_callback(lambda _: self._wake())

    @property
    def followers(self) -> int:
        return len(self._followers)

    def join(self) -> _Follower:
        """A new follower, who is told first what the others were told."""
        follower = _Follower(deque(self._told))
        self._followers.append(follower)
        return follower

    def leave(self, follower: _Follower) -> bool:
        """True when nobody is left; the download is then being stopped."""
        self._followers.remove(follower)
        if self._followers:
            return False
        self.task.cancel()
        return True

    async def settled(self) -> None:
        """Returns when a download without followers has stopped and cleaned up."""
        if not self._followers:
            await asyncio.wait([self.task])
            if not self.task.cancelled():
                self.task.exception()  # read here, so that asyncio does not report it as lost

    async def next_frame(self, follower: _Follower) -> PullProgress | None:
        """The next frame, None after "success".  Raises the download's `ApiError`."""
        while not follower.frames:
            if self.task.done():
                if self.task.cancelled():
                    raise ApiError(Kind.CANCELLED, f"the pull of {self._entry.name} was stopped")
                self.task.result()
                return None
            follower.wake.clear()
            await follower.wake.wait()
        return follower.frames.popleft()

    async def _run(self) -> None:
        if not await verify_present(self._entry, self._registry, self):
            await fetch(self._entry, self._registry, self, self._orders)
        self._tell(SUCCESS)

    def begin(self, file: str, digest: str, total: int) -> None:
        """The lines of this file begin.  Of two files with the same bytes the first is told: digests are keys."""
        if digest in self._digests:
            self._file = None
            return
        self._digests.add(digest)
        self._file = PullProgress(f"pulling {file}", file, digest, total, 0)
        self._tell(self._file)

    def advance(self, completed: int) -> None:
        """`completed` bytes so far.  What goes back, beyond the total or too little forward is not told."""
        last = self._file
        if last is None or last.completed is None or last.total is None:
            return
        step = max(1, last.total // STEPS) if completed < last.total else 1
        if last.completed + step <= completed <= last.total:
            self._file = msgspec.structs.replace(last, completed=completed)
            self._tell(self._file)

    def verifying(self) -> None:
        """Everything is here; what remains is to look at it."""
        self._tell(VERIFYING)

    def _tell(self, frame: PullProgress) -> None:
        add_frame(self._told, frame)
        for follower in self._followers:
            add_frame(follower.frames, frame)
        self._wake()

    def _wake(self) -> None:
        for follower in self._followers:
            follower.wake.set()

"""What of the records may still be there, and the one who sees to it: at the start, each hour, after each change.

`keeping` decides, the archive deletes.  A text whose policy forbids texts today is deleted although it was allowed when
it was written: what the configuration says is true of all that is kept, not only of what is new.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import structlog

from rivermouth.config import Config, Retention
from rivermouth.store.archive import CallArchive, Keeping, Purged
from rivermouth.store.port import NANO, StoreError

log = structlog.get_logger()

EVERY_S: Final = 3600.0


def keeping(config: Config, now_ns: int) -> Keeping:
    """What may be there now.  Pure."""
    records = config.records
    return Keeping(
        calls_since_ns=_since(records.retention, now_ns),
        texts_since_ns=_since(records.text_retention, now_ns),
        texts=records.text == "all",
        answers=config.responses.store,
        answers_since_ns=_since(config.responses.ttl, now_ns),
        now_ns=now_ns,
        answers_of_policies=_each_since({n: p.retention_max for n, p in config.policies.items()}, now_ns),
        answers_of_endpoints=_each_since({n: e.retention for n, e in config.endpoints.items()}, now_ns),
        mute_policies=tuple(name for name, policy in config.policies.items() if not policy.records_text),
        mute_endpoints=tuple(name for name, endpoint in config.endpoints.items() if not endpoint.records_text),
    )


def _each_since(times: Mapping[str, str | None], now_ns: int) -> dict[str, int]:
    found = {name: _since(time, now_ns) for name, time in times.items()}
    return {name: since_ns for name, since_ns in found.items() if since_ns is not None}


def _since(time: str | None, now_ns: int) -> int | None:
    seconds = Retention(time).seconds if time is not None else None
    return now_ns - int(seconds * NANO) if seconds is not None else None


class Janitor:
    """`run` until it is cancelled.  wait: returns after so many seconds, or earlier when its event is set."""

    def __init__(
        self,
        archive: CallArchive,
        config: Callable[[], Config],
        *,
        now_ns: Callable[[], int],
        wait: Callable[[asyncio.Event, float], Awaitable[None]] | None = None,
    ) -> None:
        self._archive = archive
        self._config = config
        self._now_ns = now_ns
        self._wait = wait or _set_within
        self._changed = asyncio.Event()

    async def run(self) -> None:
        while True:
            self._changed.clear()
            await self.purge()
            await self._wait(self._changed, EVERY_S)

    async def purge(self) -> Purged:
        """Once.  A store that cannot do it now is asked again the next time."""
        try:
            gone = await asyncio.to_thread(self._archive.purge, keeping(self._config(), self._now_ns()))
        except StoreError as error:
            log.warning("records.unpurged", reason=str(error))
            return Purged(0, 0)
        if gone != Purged(0, 0):
            log.info("records.purged", calls=gone.calls, texts=gone.texts, answers=gone.answers)
        return gone

    def wake(self) -> None:
        """The configuration has changed."""
        self._changed.set()


async def _set_within(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass

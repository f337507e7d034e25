"""Which endpoints are worth asking now: a cooldown for each, told by its own failures.  Plain state, no clock."""

from __future__ import annotations

from typing import Final

import msgspec

from rivermouth.ir.errors import ApiError, Kind

FAILURES_TO_OPEN: Final = 3
COOLDOWN_S: Final = 15.0
COOLDOWN_MAX_S: Final = 300.0
"""A Retry-After above this is not believed for longer than this."""

ENTRIES_CAP: Final = 1024
_UNHEALTHY: Final = frozenset({Kind.NETWORK, Kind.UPSTREAM, Kind.TRUNCATED, Kind.TIMEOUT, Kind.OVERLOADED})


class _Entry(msgspec.Struct):
    failures: int = 0
    until_s: float = 0.0
    seen_s: float = 0.0


class Health:
    """Counts failures in a row; three of them, or a Retry-After, put the endpoint on a cooldown."""

    def __init__(self, *, enabled: bool = True) -> None:
        self._enabled = enabled
        self._entries: dict[str, _Entry] = {}

    def cooling(self, endpoint_id: str, now_s: float) -> bool:
        """True while the endpoint should be left alone, if another can serve."""
        entry = self._entries.get(endpoint_id)
        return entry is not None and entry.until_s > now_s

    def succeeded(self, endpoint_id: str) -> None:
        self._entries.pop(endpoint_id, None)

    def failed(self, endpoint_id: str, error: ApiError, now_s: float) -> None:
        told = error.retry_after_s is not None and error.retryable
        if not self._enabled or error.clock == "total" or not (told or error.kind in _UNHEALTHY):
            return  # the call's own time is over: that says nothing about the endpoint
        self._forget_the_healed(now_s)
        entry = self._entries.setdefault(endpoint_id, _Entry())
        entry.seen_s = now_s
        if error.retry_after_s is not None and error.retryable:
            entry.until_s = max(entry.until_s, now_s + min(error.retry_after_s, COOLDOWN_MAX_S))
        if error.kind in _UNHEALTHY:
            entry.failures += 1
            if entry.failures >= FAILURES_TO_OPEN:
                entry.until_s = max(entry.until_s, now_s + COOLDOWN_S)

    def _forget_the_healed(self, now_s: float) -> None:
        """Clients choose model names, so what is remembered of them is bounded."""
        if len(self._entries) < ENTRIES_CAP:
            return
        oldest = sorted(self._entries, key=lambda name: self._entries[name].seen_s)
        for name in oldest[: ENTRIES_CAP // 2]:
            del self._entries[name]

    def statistics(self, now_s: float) -> dict[str, float]:
        """Seconds left on each running cooldown, by endpoint id."""
        return {name: e.until_s - now_s for name, e in self._entries.items() if e.until_s > now_s}

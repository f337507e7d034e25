"""Which endpoints are worth asking now: a breaker for each, told by its own attempts.  Plain state, no clock.

closed     it is asked
open       after three failures in a row, or for as long as a Retry-After said: it is left for last
half open  its time is over: one call may try it.  A success closes the breaker; a failure opens it for twice as long
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from rivermouth.ir.errors import ApiError, Kind

FAILURES_TO_OPEN: Final = 3
COOLDOWN_S: Final = 15.0
COOLDOWN_MAX_S: Final = 300.0
"""No breaker stays open for longer, nor is a Retry-After above this believed."""

DOUBLINGS_MAX: Final = 10

ENTRIES_CAP: Final = 1024
_UNHEALTHY: Final = frozenset({Kind.NETWORK, Kind.UPSTREAM, Kind.TRUNCATED, Kind.TIMEOUT, Kind.OVERLOADED})


class State(StrEnum):
    """Of a breaker."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class _Entry(msgspec.Struct):
    failures: int = 0
    until_s: float = 0.0
    seen_s: float = 0.0
    probing: bool = False


class Health:
    """Counts failures in a row.  `begun` before each attempt; then `succeeded`, `failed`, or, if stopped, `left`."""

    def __init__(self, *, enabled: bool = True) -> None:
        self._enabled = enabled
        self._entries: dict[str, _Entry] = {}

    def cooling(self, endpoint_id: str, now_s: float) -> bool:
        """True while the endpoint should be left alone, if another can serve."""
        entry = self._entries.get(endpoint_id)
        return entry is not None and (entry.until_s > now_s or entry.probing)

    def state(self, endpoint_id: str, now_s: float) -> State:
        entry = self._entries.get(endpoint_id)
        if entry is None:
            return State.CLOSED
        if entry.until_s > now_s:
            return State.OPEN
        return State.HALF_OPEN if entry.failures >= FAILURES_TO_OPEN else State.CLOSED

    def begun(self, endpoint_id: str, now_s: float) -> None:
        """An attempt begins; at a breaker that is half open it is the one that tries."""
        entry = self._entries.get(endpoint_id)
        if entry is not None and self.state(endpoint_id, now_s) is State.HALF_OPEN:
            entry.probing = True

    def left(self, endpoint_id: str) -> None:
        """An attempt was stopped from this side: the next one may try in its place."""
        entry = self._entries.get(endpoint_id)
        if entry is not None:
            entry.probing = False

    def succeeded(self, endpoint_id: str) -> None:
        self._entries.pop(endpoint_id, None)

    def failed(self, endpoint_id: str, error: ApiError, now_s: float) -> None:
        told = error.retry_after_s is not None and error.retryable
        self.left(endpoint_id)
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
                again = min(entry.failures - FAILURES_TO_OPEN, DOUBLINGS_MAX)
                entry.until_s = max(entry.until_s, now_s + min(COOLDOWN_S * 2.0**again, COOLDOWN_MAX_S))

    def _forget_the_healed(self, now_s: float) -> None:
        """Clients choose model names, so what is remembered of them is bounded."""
        if len(self._entries) < ENTRIES_CAP:
            return
        oldest = sorted(self._entries, key=lambda name: self._entries[name].seen_s)
        for name in oldest[: ENTRIES_CAP // 2]:
            del self._entries[name]

    def states(self, now_s: float) -> dict[str, State]:
        """Of every endpoint whose breaker is not closed."""
        found = {name: self.state(name, now_s) for name in self._entries}
        return {name: state for name, state in found.items() if state is not State.CLOSED}

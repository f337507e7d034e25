"""What to do next with a call: try an endpoint, wait, or give up.  Pure; `engine.call` is the loop around it.

A candidate may be replaced only before the first content has reached the client (F18); the engine does not ask here
after that.  The order:

1. every candidate that policy has left once, those on a cooldown last;
2. then up to `retries` more tries, oldest first, at candidates whose last failure can heal, after a wait.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from rivermouth.ir.errors import ApiError, Kind
from rivermouth.routing.endpoint import Candidate

BACKOFF_S: Final = 0.5
BACKOFF_MAX_S: Final = 8.0
JITTER: Final = 0.5
"""The share of a wait that is left to chance, so that calls that failed together do not return together."""

FINAL: Final = frozenset({Kind.CONTENT_FILTERED, Kind.CANCELLED})
"""Nobody else is asked: what was asked for is not wanted, or no longer."""

HEALS: Final = frozenset({Kind.RATE_LIMITED, Kind.OVERLOADED, Kind.NETWORK, Kind.UPSTREAM, Kind.TRUNCATED})
"""Worth asking the same endpoint again.  A timeout is not: it has had its time."""

RETRYABLE_CLOCKS: Final = frozenset({"connect"})


class Failed(msgspec.Struct, frozen=True):
    """One attempt that did not commit: which candidate (index in the plan) and why."""

    candidate: int
    error: ApiError


class Try(msgspec.Struct, frozen=True):
    """Ask this candidate, after `wait_s` seconds (0 for at once)."""

    candidate: int
    wait_s: float = 0.0


class GiveUp(msgspec.Struct, frozen=True):
    """No candidate is left; the client gets this error."""

    error: ApiError


def order(candidates: Sequence[Candidate], cooling: frozenset[str]) -> list[int]:
    """The candidates' indices, those on a cooldown moved to the end: they are tried only if nothing else is left."""
    return sorted(range(len(candidates)), key=lambda i: candidates[i].endpoint.id in cooling)


def next_step(
    candidates: Sequence[Candidate],
    failed: list[Failed],
    cooling: frozenset[str],
    retries: int,
    left_s: float,
    draw: Callable[[], float],
) -> Try | GiveUp:
    """The step after these failures.  `left_s`: seconds left on the call's total clock.

    There is at least one candidate.  draw: a number in [0, 1), for the jitter of a wait that nobody asked for.
    """
    if not failed:
        return Try(order(candidates, cooling)[0])
    last = failed[-1]
    if last.error.kind in FINAL or last.error.clock == "total":
        return GiveUp(last.error)
    tried = {f.candidate for f in failed}
    for index in order(candidates, cooling):
        if index not in tried:
            return Try(index)
    spent = len(failed) - len(candidates)
    if spent < retries:
        latest = {f.candidate: f.error for f in failed}
        for index in sorted(latest, key=lambda i: _last_position(failed, i)):
            wait_s = _wait_s(latest[index], spent, draw)
            if wait_s is not None and wait_s < left_s:
                return Try(index, wait_s)
    return GiveUp(_most_telling(failed))


def _wait_s(error: ApiError, round_: int, draw: Callable[[], float]) -> float | None:
    """Seconds before the same endpoint may be asked again; None when that is useless."""
    if error.kind is Kind.TIMEOUT and error.clock not in RETRYABLE_CLOCKS:
        return None
    if error.kind not in HEALS and error.kind is not Kind.TIMEOUT:
        return None
    if error.code == "insufficient_quota":
        return None
    if error.retry_after_s is not None:
        return error.retry_after_s if error.retry_after_s <= BACKOFF_MAX_S else None
    return min(BACKOFF_S * 2.0**round_, BACKOFF_MAX_S) * (1.0 - JITTER * draw())


def _last_position(failed: list[Failed], candidate: int) -> int:
    return max(i for i, f in enumerate(failed) if f.candidate == candidate)


def _most_telling(failed: list[Failed]) -> ApiError:
    """The error that the client can act on best: what it did wrong, else the shortest wait, else the last."""
    for failure in failed:
        if failure.error.kind in (Kind.INVALID_REQUEST, Kind.TOO_LARGE):
            return failure.error
    waits = [f.error for f in failed if f.error.retry_after_s is not None]
    return min(waits, key=lambda e: e.retry_after_s or 0.0) if len(waits) == len(failed) else failed[-1].error

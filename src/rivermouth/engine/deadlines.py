"""The clocks of a call after its target has begun: first token, idle, total; and the keep-alive that shows life.

Connect belongs to the transport, which knows when it is connected.  Content resets idle; keep-alives and empty frames
do not.  Time in which the client does not take what we have is not the upstream's idleness.  One loop timer serves all
of it and is moved lazily: a chunk costs a few reads of the clock and no timer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec

from rivermouth.ir.errors import ApiError, Kind

KEEP_ALIVE_S: Final = 15.0


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds for each clock, and how long the status is held."""

    first_token_s: float = 60.0
    idle_s: float = 60.0
    total_s: float = 600.0
    hold_s: float = 15.0

    def within(self, other: Limits) -> Limits:
        """The smaller of each clock (R7)."""
        return Limits(**{f: min(getattr(self, f), getattr(other, f)) for f in self.__struct_fields__})

    def for_whole(self) -> Limits:
        """The clocks of an answer that comes in one piece: only the total can tell slow from stuck."""
        return msgspec.structs.replace(self, first_token_s=self.total_s, idle_s=self.total_s)


class Deadlines:
    """Started for each attempt; `expired` is called once with the timeout's error, `quiet` each `hold_s` of silence.

    With a `hold_s` of 0 `quiet` is called at once, and then each `KEEP_ALIVE_S`.
    """

    __slots__ = (
        "_begun",
        "_every_s",
        "_expired",
        "_first",
        "_handle",
        "_heard",
        "_hushed",
        "_limits",
        "_loop",
        "_quiet",
        "_sending_at",
        "_total_at",
        "_waiting",
    )

    def __init__(
        self, limits: Limits, total_at: float, expired: Callable[[ApiError], None], quiet: Callable[[], None] | None
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._limits = limits
        self._expired = expired
        self._quiet = quiet
        self._total_at = total_at
        now = self._loop.time()
        self._every_s = limits.hold_s or KEEP_ALIVE_S
        self._begun = self._heard = self._sending_at = now
        self._hushed = now + limits.hold_s - self._every_s
        self._first = True
        self._waiting = True
        self._handle: asyncio.TimerHandle | None = self._loop.call_at(self._next(now), self._tick)

    def content(self) -> None:
        """Content came: the first-token clock is over, idle starts anew."""
        self._first = False
        self._heard = self._loop.time()

    def passed(self, *, content: bool, written: bool) -> float:
        """Something came, and the client took it, if at all, without being waited for.  The loop's time."""
        now = self._loop.time()
        if content:
            self._first = False
            self._heard = now
        if written:
            self._hushed = now
        return now

    def sending(self) -> None:
        """We wait for the client now, not for the upstream."""
        self._waiting = False
        self._sending_at = self._loop.time()

    def sent(self) -> float:
        """The client took it; we wait for the upstream again, whose clock stood still meanwhile.  The loop's time."""
        now = self._loop.time()
        self._waiting = True
        self._heard += now - self._sending_at
        self._hushed = now
        return now

    def stop(self) -> None:
        """No clock runs out any more."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _upstream_at(self) -> tuple[float, str]:
        if self._first:
            return self._begun + self._limits.first_token_s, "first_token"
        return self._heard + self._limits.idle_s, "idle"

    def _next(self, now: float) -> float:
        """When to look again: before any clock can run out, whatever is called until then."""
        idle_s, upstream_at = self._limits.idle_s, self._upstream_at()[0]
        # The first token may come at once, and then idle may run out before that clock would have.
        soon = upstream_at if self._waiting else now + max(upstream_at - self._sending_at, idle_s / 10)
        at = min(soon, now + idle_s, self._total_at)
        return min(at, self._hushed + self._every_s) if self._quiet is not None else at

    def _tick(self) -> None:
        now = self._loop.time()
        if now >= self._total_at:
            return self._expire("total", self._limits.total_s)
        if self._waiting:
            at, clock = self._upstream_at()
            if now >= at:
                limit_s = self._limits.first_token_s if clock == "first_token" else self._limits.idle_s
                return self._expire(clock, limit_s)
            if self._quiet is not None and now >= self._hushed + self._every_s:
                self._hushed = now
                self._quiet()
        else:
            self._hushed = now
        self._handle = self._loop.call_at(max(self._next(now), now + 0.001), self._tick)
        return None

    def _expire(self, clock: str, limit_s: float) -> None:
        self._handle = None
        self._expired(timed_out(clock, limit_s))


WORDS = {
    "first_token": "no first token within {:g} s",
    "idle": "no token for {:g} s",
    "total": "the call took longer than {:g} s",
}


def timed_out(clock: str, limit_s: float) -> ApiError:
    """The error of a clock that ran out."""
    return ApiError(Kind.TIMEOUT, WORDS[clock].format(limit_s), clock=clock, code=f"{clock}_timeout")

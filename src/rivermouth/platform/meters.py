"""Limits: what one key, or the whole server, has taken of them.  Pure: the time is an argument."""

from __future__ import annotations

from typing import Final

import msgspec

from rivermouth.config import RateLimits
from rivermouth.ir.allowance import Allowance, Quota
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.platform.windows import Window

BUSY_RETRY_S: Final = 1.0
"""When a place may be free again, where all are taken: nobody knows."""


class Pledge(msgspec.Struct):
    """What one call has taken of a meter: `tokens` in the second `second`."""

    meter: Meter
    second: int
    tokens: int


class Meter:
    """`running`: calls that were let in and have not ended.  who: as a refusal names it."""

    __slots__ = ("requests", "running", "tokens", "who")

    def __init__(self, who: str) -> None:
        self.who = who
        self.requests = Window()
        self.tokens = Window()
        self.running = 0

    def refusal(self, limits: RateLimits, tokens: int, now_s: float) -> ApiError | None:
        """Why a call of so many tokens may not begin now; None if it may."""
        if limits.concurrent is not None and self.running >= limits.concurrent:
            return self._full(f"{limits.concurrent} calls at once", BUSY_RETRY_S)
        most = limits.requests_per_minute
        if most is not None and not self.requests.left(most, now_s):
            return self._full(f"{most} calls a minute", self.requests.wait_s(1, most, now_s))
        most = limits.tokens_per_minute
        if most is not None and self.tokens.left(most, now_s) < tokens:
            wait_s = self.tokens.wait_s(tokens, most, now_s)
            if wait_s is None:
                text = f"this call may come to {tokens} tokens, more than {self.who} may have in a minute ({most})"
                return ApiError(Kind.TOO_LARGE, f"{text}; limit its answer", code="token_limit_too_small")
            return self._full(f"{most} tokens a minute", wait_s)
        return None

    def take(self, tokens: int, now_s: float) -> Pledge:
        """The call has begun."""
        self.running += 1
        self.requests.take(1, now_s)
        return Pledge(self, self.tokens.take(tokens, now_s), tokens)

    def settle(self, pledge: Pledge, tokens: int, now_s: float) -> None:
        """The call has ended, and came to so many tokens."""
        self.running -= 1
        self.tokens.correct(pledge.second, tokens - pledge.tokens, now_s)

    def allowance(self, limits: RateLimits, now_s: float) -> Allowance:
        """What is left."""
        return Allowance(
            requests=_quota(self.requests, limits.requests_per_minute, now_s),
            tokens=_quota(self.tokens, limits.tokens_per_minute, now_s),
        )

    def _full(self, limit: str, wait_s: float | None) -> ApiError:
        text = f"{self.who} may have {limit}"
        return ApiError(Kind.RATE_LIMITED, text, code="rate_limit_exceeded", retry_after_s=wait_s)


def _quota(window: Window, limit: int | None, now_s: float) -> Quota | None:
    return Quota(limit, window.left(limit, now_s), window.reset_s(now_s)) if limit is not None else None

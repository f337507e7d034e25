"""How much was taken in the last minute.  Pure: the time is an argument, in seconds of a clock that never goes back.

A sliding window, counted in whole seconds: what is taken within one second is forgotten together, 60 s after the end of
that second.  So no minute, wherever it begins, holds more than the limit; all of the limit is there again after 61 s at
the latest; and a window has at most 61 numbers, however many calls there are.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Final

SPAN_S: Final = 60
KEPT_S: Final = SPAN_S + 1
"""From the beginning of a second until what was taken in it is forgotten."""


class Window:
    """`used`: what is taken and not yet forgotten.  until_s: when the next of it is to be forgotten."""

    __slots__ = ("_seconds", "until_s", "used")

    def __init__(self) -> None:
        self._seconds: deque[list[int]] = deque()
        self.used = 0
        self.until_s = math.inf

    def forget(self, now_s: float) -> None:
        """What is older than the window is free again."""
        seconds = self._seconds
        while seconds and seconds[0][0] + KEPT_S <= now_s:
            self.used -= seconds.popleft()[1]
        self.until_s = seconds[0][0] + KEPT_S if seconds else math.inf

    def left(self, limit: int, now_s: float) -> int:
        """How much may be taken now."""
        if now_s >= self.until_s:
            self.forget(now_s)
        return max(limit - self.used, 0)

    def take(self, units: int, now_s: float) -> int:
        """Taken, whatever the limit is; the second that `correct` wants to know."""
        if now_s >= self.until_s:
            self.forget(now_s)
        second = int(now_s // 1)
        if not self._seconds or self._seconds[-1][0] != second:
            self._seconds.append([second, 0])
            self.until_s = self._seconds[0][0] + KEPT_S
        self._seconds[-1][1] += units
        self.used += units
        return second

    def correct(self, second: int, units: int, now_s: float) -> None:
        """What was taken in that second was so much more, or less, than was said; nothing, if it is forgotten."""
        if now_s >= self.until_s:
            self.forget(now_s)
        for entry in self._seconds:
            if entry[0] == second:
                entry[1] += units
                self.used += units
                return

    def wait_s(self, units: int, limit: int, now_s: float) -> float | None:
        """Seconds until so much may be taken, if nobody takes anything meanwhile; None: never."""
        if units > limit:
            return None
        if now_s >= self.until_s:
            self.forget(now_s)
        over = self.used + units - limit
        for second, taken in self._seconds:
            if over <= 0:
                break
            over -= taken
            if over <= 0:
                return second + KEPT_S - now_s
        return 0.0

    def reset_s(self, now_s: float) -> float:
        """Seconds until nothing is taken any more."""
        if now_s >= self.until_s:
            self.forget(now_s)
        return self._seconds[-1][0] + KEPT_S - now_s if self._seconds else 0.0

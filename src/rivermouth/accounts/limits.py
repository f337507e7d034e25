"""How often anybody may try.  Pure: the time is an argument.

Each key has a budget of tries that fills again evenly (GCRA): what is kept is the one moment at which it will be full.
A key that is full again tells nothing, so the table forgets it; that, and an end to the number of keys, bound it.
"""

from __future__ import annotations

from typing import Final

MOST_KEYS: Final = 20_000


class Tries:
    """`tries` at once, and as many again within `window_s`."""

    def __init__(self, tries: int, window_s: float, *, most_keys: int = MOST_KEYS) -> None:
        self._most_keys = most_keys
        self._full_at: dict[str, float] = {}
        self.allow(tries, window_s)

    def allow(self, tries: int, window_s: float) -> None:
        """From now on so many.  What was taken goes on filling in the time that it had."""
        self._each_s = window_s / tries
        self._window_s = window_s

    def __len__(self) -> int:
        return len(self._full_at)

    def take(self, key: str, now_s: float) -> float:
        """One try: 0 when it may be made, else the seconds until one may, and then nothing is taken."""
        full_at = max(self._full_at.get(key, now_s), now_s)
        wait_s = full_at + self._each_s - self._window_s - now_s
        if wait_s > 1e-9:
            return wait_s
        self._make_room(key, now_s)
        self._full_at[key] = full_at + self._each_s
        return 0.0

    def give_back(self, key: str) -> None:
        """The last try was a good one, and does not count."""
        full_at = self._full_at.get(key)
        if full_at is not None:
            self._full_at[key] = full_at - self._each_s

    def _make_room(self, key: str, now_s: float) -> None:
        """Those that are full are forgotten first, then the one that has been here longest."""
        if key in self._full_at or len(self._full_at) < self._most_keys:
            return
        self._full_at = {other: at for other, at in self._full_at.items() if at > now_s}
        while len(self._full_at) >= self._most_keys:
            del self._full_at[next(iter(self._full_at))]

"""Where ids come from, for whatever is told to take them as an argument."""

from __future__ import annotations

import os
import time
from typing import Final


class Ids:
    """Ids that sort by time: 48 bits of milliseconds, 80 bits of chance, as 32 hex digits.

    Chance is fetched for many ids at once: a system call for each is dearer than everything else about it.
    """

    CHANCE_CHARS: Final = 20

    def __init__(self) -> None:
        self._chance = ""

    def __call__(self) -> str:
        chance = self._chance or os.urandom(5120).hex()
        self._chance = chance[self.CHANCE_CHARS :]
        return f"{time.time_ns() // 1_000_000:012x}{chance[: self.CHANCE_CHARS]}"

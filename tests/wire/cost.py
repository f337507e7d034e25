"""Ten times the input may cost a few times ten times the CPU, not a hundred: a test for quadratic readers."""

from __future__ import annotations

import time
from collections.abc import Callable

from rivermouth.wire.frame import Reader

SMALL_BYTES = 100_000


def _best_ns(make: Callable[[], Reader], data: bytes, step: int) -> int:
    """The fastest of five runs, which is the one that nothing disturbed."""
    pieces = [data[i : i + step] for i in range(0, len(data), step)]
    best = None
    for _ in range(5):
        reader = make()
        begun = time.process_time_ns()
        for piece in pieces:
            reader.feed(piece)
        spent = time.process_time_ns() - begun
        best = spent if best is None else min(best, spent)
    return best or 1


def assert_linear(make: Callable[[], Reader], build: Callable[[int], bytes], step: int) -> None:
    """A quadratic reader costs a hundred times more for ten times the bytes; a linear one stays far below thirty."""
    small = max(_best_ns(make, build(SMALL_BYTES), step), 100_000)
    large = _best_ns(make, build(10 * SMALL_BYTES), step)
    assert large <= 30 * small, f"{small} ns for {SMALL_BYTES} bytes, {large} ns for ten times as many"

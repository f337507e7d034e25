"""Twenty times the input may cost some times twenty times the CPU, not four hundred: a test for quadratic readers."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

from rivermouth.wire.frame import Reader

SMALL_BYTES = 50_000
FACTOR = 20
LIMIT = 120


def _best_ns(make: Callable[[], Reader], data: bytes, step: int) -> int:
    """The fastest of five runs, which is the one that nothing disturbed; the heap's size is not what we measure."""
    pieces = [data[i : i + step] for i in range(0, len(data), step)]
    spent = []
    gc.disable()
    try:
        for _ in range(5):
            reader = make()
            begun = time.process_time_ns()
            for piece in pieces:
                reader.feed(piece)
            spent.append(time.process_time_ns() - begun)
    finally:
        gc.enable()
    return min(spent)


def assert_linear(make: Callable[[], Reader], build: Callable[[int], bytes], step: int) -> None:
    """The cost grows with the input and not with its square."""
    small = max(_best_ns(make, build(SMALL_BYTES), step), 100_000)
    large = _best_ns(make, build(FACTOR * SMALL_BYTES), step)
    assert large <= LIMIT * small, f"{small} ns for {SMALL_BYTES} bytes, {large} ns for {FACTOR} times as many"

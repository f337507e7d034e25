"""Twenty times the input may cost some times twenty times the CPU, not four hundred: a test for quadratic code."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

FACTOR = 20
LIMIT = 80
TRIES = 3
_LEAST_NS = 100_000


def _ns(work: Callable[[], object]) -> int:
    """The CPU of one run; the heap's size is not what we measure."""
    gc.disable()
    try:
        begun = time.process_time_ns()
        work()
        return time.process_time_ns() - begun
    finally:
        gc.enable()


def assert_linear(prepare: Callable[[int], Callable[[], object]], small: int) -> None:
    """The cost grows with the input and not with its square.  `prepare(n)` gives the work on an input of that size.

    The fastest run is the one that nothing disturbed, so one that is fast enough will do.
    """
    few, many = prepare(small), prepare(FACTOR * small)
    limit = LIMIT * max(_LEAST_NS, min(_ns(few) for _ in range(TRIES)))
    spent: list[int] = []
    while not spent or (min(spent) > limit and len(spent) < TRIES):
        spent.append(_ns(many))
    assert min(spent) <= limit, f"{limit // LIMIT} ns for {small}, {min(spent)} ns for {FACTOR} times as many"

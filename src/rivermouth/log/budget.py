"""The bytes that all logs of answers may hold together.  Pure accounting: who is asked to make room is an argument."""

from __future__ import annotations

from collections.abc import Callable

QUANTUM_BYTES = 16 * 1024
"""What a log takes at a time, so that a chunk costs no look at the sum."""


class Budget:
    """`limit_bytes` for all; `taken_bytes` is what has been granted.

    make_room: frees what it can of so many bytes (by `release`), and is asked when there is too little left.
    Whoever waits for room registers in `waiting`, and is called once when some has been freed.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.taken_bytes = 0
        self.make_room: Callable[[int], None] = _none
        self.waiting: set[Callable[[], None]] = set()

    @property
    def over(self) -> bool:
        """More is held than may be."""
        return self.taken_bytes > self.limit_bytes

    def grant(self, size: int) -> bool:
        """Takes so many bytes, or none."""
        lacking = self.taken_bytes + size - self.limit_bytes
        if lacking > 0:
            self.make_room(lacking)
        if self.taken_bytes + size > self.limit_bytes:
            return False
        self.taken_bytes += size
        return True

    def force(self, size: int) -> None:
        """Takes so many bytes, over the limit if need be: they are there already, and what is over is freed first."""
        if not self.grant(size):
            self.taken_bytes += size

    def release(self, size: int) -> None:
        """Gives so many bytes back."""
        self.taken_bytes -= size
        if size and self.waiting:
            waiting, self.waiting = self.waiting, set()
            for wake in waiting:
                wake()


def _none(size: int) -> None:
    """Nothing can be freed."""

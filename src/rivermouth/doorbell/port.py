"""What a doorbell must do.

A ring wakes those who listen on that channel.  It carries nothing and may be lost: whoever listens also looks by
itself now and then, so a lost ring costs time and nothing else.  Rings that come while a listener is busy are one ring.
The contract suite in tests/chat/test_doorbell.py runs over every adapter.
"""

from __future__ import annotations

from typing import Protocol


class Bell(Protocol):
    """One listener.  The order is: `clear`, look, `wait`; then no ring between looking and waiting is missed."""

    def clear(self) -> None:
        """Forget rings so far."""
        ...

    async def wait(self, limit_s: float) -> bool:
        """True at a ring since `clear`, at once if there was one; False when none came within `limit_s`."""
        ...

    def strike(self) -> None:
        """Wake this listener, and nobody else."""
        ...

    def close(self) -> None:
        """Stop to listen; a `wait` that runs ends as if rung.  Idempotent."""
        ...


class Doorbell(Protocol):
    """The port."""

    def ring(self, channel: str) -> None:
        """Wake everybody on that channel, soon.  Never waits, never fails."""
        ...

    def listen(self, channel: str) -> Bell:
        """A listener; whoever asked closes it."""
        ...

    async def close(self) -> None:
        """Release what it holds.  Idempotent."""
        ...

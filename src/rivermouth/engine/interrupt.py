"""The one cancel token of a call.  Whoever fires it says why; the task that runs the call is cancelled where it waits.

Client gone, a stop endpoint, a clock that ran out, the server's shutdown: all are causes here.  A clock ends one
attempt and is forgotten with it, so that another endpoint may be tried; a cancel stays, and hits whatever is waited
for next.
Cleaning up happens outside the `with`, so nothing interrupts it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from types import TracebackType

from rivermouth.ir.errors import ApiError


class By(StrEnum):
    """Who cancelled a call; the word in its record."""

    CLIENT = "client"
    SHUTDOWN = "shutdown"
    STOP = "stop"
    SUPERSEDE = "supersede"
    TAKEOVER = "takeover"
    REQUEST = "request"


class Stopped(Exception):
    """The call was cancelled by somebody.  Not an error of the call."""

    def __init__(self, by: By) -> None:
        super().__init__(f"cancelled by {by.value}")
        self.by = by


class Interrupt:
    """Cancels the task inside `with interrupt:`, which then raises `Stopped` or the clock's `ApiError`.

    A cause that came before raises at once.  A cancellation that is not ours (the task's owner wants it gone) passes
    through untouched.  Not to be nested.
    """

    __slots__ = ("_held", "_hit", "_task", "by", "error")

    def __init__(self) -> None:
        self._held = False
        self._task: asyncio.Task[object] | None = None
        self._hit = False
        self.by: By | None = None
        self.error: ApiError | None = None

    def cancel(self, by: By) -> None:
        """End the call because of `by`.  The first cause stays."""
        if self.by is None:
            self.by = by
            self._strike()

    def expire(self, error: ApiError) -> None:
        """End the attempt with an error of its own (a clock)."""
        if self.by is None and self.error is None:
            self.error = error
            self._strike()

    @contextmanager
    def held(self) -> Iterator[None]:
        """What this does is not cut short: a cause that comes meanwhile hits what is waited for after it, if anything.

        Within `with interrupt:`.
        """
        self._held = True
        try:
            yield
        finally:
            self._held = False
            if self.by is not None or self.error is not None:
                asyncio.get_running_loop().call_soon(self._strike)

    def __enter__(self) -> None:
        if self.by is not None:
            raise Stopped(self.by)
        self.error = None
        self._hit = False
        self._task = asyncio.current_task()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task, self._task = self._task, None
        if isinstance(error, asyncio.CancelledError) and self._hit and task is not None and task.uncancel() == 0:
            raise self._cause() from None

    def _cause(self) -> Exception:
        if self.by is not None:
            return Stopped(self.by)
        return self.error or asyncio.InvalidStateError("struck without a cause")

    def _strike(self) -> None:
        if self._task is not None and not self._hit and not self._held:
            self._hit = True
            self._task.cancel()

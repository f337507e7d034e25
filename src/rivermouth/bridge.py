"""The bridge from a thread that makes tokens to a coroutine that reads them.

    producer, any thread                                reader, one coroutine on one loop
    push(text) ... finish(reason) | fail(error)   -->   async with stream: async for text in stream

Theory of operation
* A push goes into an inbox under a lock and wakes the loop at most once until the loop has emptied it, so a burst of
  tokens costs one wake-up.  The loop moves the inbox onto an asyncio.Queue, which is what the reader waits on.
* The stream ends once.  Of `finish`, `fail`, `cancel`, the idle clock and a reader too slow, the first wins and the
  others do nothing.  The reader sees StopAsyncIteration only for `finish`; every other end is an `ApiError`, so a cut
  answer is never taken for a whole one.
* An abort (all ends but `finish` and `fail`) calls `on_abort` exactly once, in the thread that caused it, outside the
  lock.  The producer sees it at its next token: `push` returns False.  `cancel` drops what is pending.
* Bounded: at most `max_pending` texts wait, of `max_pending_chars` characters together; a longer text waits alone.  A
  full stream makes a plain thread wait in `push` (that is the backpressure), for at most `timeout_s`.  A thread that
  runs an event loop never waits.  If there is still no room, the stream ends for its reader with `Kind.CANCELLED`,
  code "slow_reader", after the texts that are pending.
* A loop that is closed is a reader that has gone: the next push, or one that waits, aborts.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Final, NamedTuple

import msgspec

from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.events import Reason

REASONS: Final[dict[str, Reason]] = {"stop": Reason.STOP, "length": Reason.LENGTH}

MAX_PENDING: Final = 4096
MAX_PENDING_CHARS: Final = 1024 * 1024

# A waiting producer looks this often whether the loop has been closed under it.
LOOK_S: Final = 0.5


def normal_reason(word: str | None) -> Reason:
    """The engine's word as `stop` or `length`; whatever is not `length` reads as `stop`."""
    return REASONS.get(word or "stop", Reason.STOP)


class Statistics(msgspec.Struct, frozen=True):
    """pending, pending_chars: texts not read yet, and their length together.  max_pending, max_pending_chars: the
    bounds; a text longer than all of the second waits alone.  high_water, high_water_chars: the most there ever were.
    pushed: texts handed over.  waits: pushes that found no room."""

    pending: int
    max_pending: int
    high_water: int
    pushed: int
    waits: int
    pending_chars: int
    max_pending_chars: int
    high_water_chars: int


class _End(NamedTuple):
    reason: Reason | None
    error: ApiError | None = None


class AsyncTokenStream:
    """Texts pushed from any thread, read as an async iterator; it ends once, and aborts its producer when left.

    timeout_s: the longest wait between two texts (and for the first).  on_abort: called once when the producer's work
    has become useless; it must not block.  max_pending, max_pending_chars: how many texts, and how much text, may wait
    to be read.

    Made in a running loop it belongs to that loop, else to the loop that first reads it.  One reader at a time.
    `async for` aborts the producer when it is left early; a bare `anext` that is cancelled loses nothing and aborts
    nothing, so use `async with` around it.
    """

    def __init__(
        self,
        timeout_s: float = 60.0,
        on_abort: Callable[[], None] | None = None,
        max_pending: int = MAX_PENDING,
        max_pending_chars: int = MAX_PENDING_CHARS,
    ) -> None:
        self.timeout_s = timeout_s
        self.max_pending = max_pending
        self.max_pending_chars = max_pending_chars
        self._on_abort = on_abort
        self._loop = _running_loop()
        self._queue: asyncio.Queue[str | _End] = asyncio.Queue()
        self._over = False
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        # Everything below is guarded by the lock; `aborted` alone is also read without it.
        self._inbox: deque[str | _End] = deque()
        self._end: _End | None = None
        self._aborted = False
        self._dropped = False
        self._waking = False
        self._pending = 0
        self._pending_chars = 0
        self._high_water = 0
        self._high_water_chars = 0
        self._pushed = 0
        self._waits = 0

    # The producer's side, from any thread.

    def push(self, text: str) -> bool:
        """Hands over one text.  False when the stream has ended: make no more.  Waits while the reader is behind."""
        if self._loop_closed():
            self.cancel()
        with self._lock:
            fits = self._fits(text) or self._wait_for_room(text)
            if self._end is not None:
                return False
            wake = fits and bool(text) and self._append(text)
        if wake:
            self._wake()
        if not fits:
            self._settle(_End(None, _slow_reader()), aborted=True)
        return fits and not self._aborted

    def finish(self, reason: str | None = "stop") -> None:
        """The answer is complete."""
        self._settle(_End(normal_reason(reason)))

    def fail(self, error: Exception) -> None:
        """The answer cannot be completed.  An error that is not an `ApiError` becomes one of kind `upstream`."""
        self._settle(_End(None, error if isinstance(error, ApiError) else foreign_error(error)))

    @property
    def aborted(self) -> bool:
        """True once nobody wants the rest."""
        return self._aborted

    # The reader's side, on the loop (`cancel` from any thread).

    def cancel(self) -> None:
        """Nobody wants the rest: drops what is pending and aborts the producer.  Idempotent; nothing after the end."""
        self._settle(_End(None, ApiError(Kind.CANCELLED, "the stream was cancelled")), aborted=True, drop=True)

    async def aclose(self) -> None:
        """`cancel`, in the form that `contextlib.aclosing` expects."""
        self.cancel()

    @property
    def reason(self) -> Reason | None:
        """`stop` or `length`, once the reader has come to the end; None before it and after a bad one."""
        return self._end.reason if self._over and self._end is not None else None

    def drain_nowait(self) -> list[str]:
        """All texts that are here already.  Neither waits nor takes the end, which the next read brings."""
        self._bind()
        self._deliver()
        texts: list[str] = []
        while not self._over and not self._dropped and not self._queue.empty():
            item = self._queue.get_nowait()
            if isinstance(item, _End):
                self._queue.put_nowait(item)  # nothing follows an end, so its place is still the last
                break
            texts.append(item)
        self._make_room(len(texts), sum(map(len, texts)))
        return texts

    async def __anext__(self) -> str:
        """The next text.  Raises StopAsyncIteration after `finish`, and `ApiError` (once) after any other end."""
        if self._over:
            raise StopAsyncIteration
        self._bind()
        item = self._queue.get_nowait() if not self._queue.empty() else await self._next_item()
        if isinstance(item, str) and not self._dropped:
            self._make_room(1, len(item))
            return item
        self._over = True
        if self._end is None or self._end.error is None:
            raise StopAsyncIteration
        raise self._end.error

    def __aiter__(self) -> AsyncIterator[str]:
        return self._iterate()

    async def __aenter__(self) -> AsyncTokenStream:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cancel()

    def statistics(self) -> Statistics:
        with self._lock:
            return Statistics(
                pending=self._pending,
                max_pending=self.max_pending,
                high_water=self._high_water,
                pushed=self._pushed,
                waits=self._waits,
                pending_chars=self._pending_chars,
                max_pending_chars=self.max_pending_chars,
                high_water_chars=self._high_water_chars,
            )

    # Inside.

    async def _iterate(self) -> AsyncIterator[str]:
        """A generator, so that leaving an `async for` early is seen (its `finally` runs on break and on cancel)."""
        try:
            while True:
                try:
                    text = await self.__anext__()
                except StopAsyncIteration:
                    return
                yield text
        finally:
            self.cancel()

    async def _next_item(self) -> str | _End:
        """Waits on the queue under the idle clock."""
        try:
            async with asyncio.timeout(self.timeout_s):
                return await self._queue.get()
        except TimeoutError:
            error = ApiError(Kind.TIMEOUT, f"no token for {self.timeout_s:g} s", clock="idle")
        if self._queue.empty():
            self._settle(_End(None, error), aborted=True)
        # Ours, or that of a producer who was faster: either way an item is on its way to the queue.
        return await self._queue.get()

    def _settle(self, end: _End, *, aborted: bool = False, drop: bool = False) -> None:
        """The one place where a stream ends; only the first end counts."""
        with self._lock:
            if self._end is not None:
                return
            self._end = end
            self._aborted = aborted
            if drop:
                self._dropped = True
                self._inbox.clear()
                self._pending = self._pending_chars = 0
            wake = self._append(end)
            self._room.notify_all()
        if wake:
            self._wake()
        if aborted and self._on_abort is not None:
            self._on_abort()

    def _append(self, item: str | _End) -> bool:
        """Lock held.  True when the loop has to be woken for it."""
        self._inbox.append(item)
        if isinstance(item, str):
            self._pushed += 1
            self._pending += 1
            self._pending_chars += len(item)
            if self._pending > self._high_water:
                self._high_water = self._pending
            if self._pending_chars > self._high_water_chars:
                self._high_water_chars = self._pending_chars
        wake = not self._waking and self._loop is not None
        self._waking = self._waking or wake
        return wake

    def _wake(self) -> None:
        """Has the inbox delivered: at once on the loop's own thread, else by the loop when it gets to it."""
        loop = self._loop
        assert loop is not None
        if _running_loop() is loop:
            self._deliver()
            return
        try:
            loop.call_soon_threadsafe(self._deliver)
        except RuntimeError:  # the loop is closed, so the reader has gone
            self.cancel()

    def _deliver(self) -> None:
        """On the loop: inbox to queue."""
        with self._lock:
            items = list(self._inbox)
            self._inbox.clear()
            self._waking = False
            dropped = self._dropped
        if dropped and items:  # the end alone: it takes the place of all that was pending
            while not self._queue.empty():
                self._queue.get_nowait()
        for item in items:
            self._queue.put_nowait(item)

    def _bind(self) -> None:
        """A stream made outside a loop belongs to the loop that reads it first."""
        if self._loop is None:
            with self._lock:
                self._loop = asyncio.get_running_loop()
            self._deliver()

    def _make_room(self, count: int, chars: int) -> None:
        with self._lock:
            self._pending = max(0, self._pending - count)
            self._pending_chars = max(0, self._pending_chars - chars)
            self._room.notify_all()  # not `count` of them: the first may wait for more room than there is

    def _loop_closed(self) -> bool:
        return self._loop is not None and self._loop.is_closed()

    def _fits(self, text: str) -> bool:
        """Lock held."""
        if not self._pending:
            return True
        return self._pending < self.max_pending and self._pending_chars + len(text) <= self.max_pending_chars

    def _wait_for_room(self, text: str) -> bool:
        """Lock held.  True when there is room or the stream has ended; False when the reader is too slow."""
        self._waits += 1
        if _running_loop() is not None:
            return self._end is not None
        deadline = time.monotonic() + self.timeout_s
        while self._end is None and not self._fits(text):
            left_s = deadline - time.monotonic()
            if left_s <= 0 or self._loop_closed():
                return False
            self._room.wait(min(left_s, LOOK_S))
        return True


def foreign_error(error: BaseException, provider: str | None = None) -> ApiError:
    """An exception of somebody else's code as one of ours, with its class and its message."""
    if isinstance(error, ApiError):
        return error.replace(foreign=True)
    try:
        said = str(error)
    except Exception:  # an exception of somebody else's that cannot even be printed
        said = ""
    message = f"{type(error).__name__}: {said}" if said else type(error).__name__
    return ApiError(Kind.UPSTREAM, message, provider=provider, foreign=True)


def _slow_reader() -> ApiError:
    return ApiError(Kind.CANCELLED, "the reader was too slow for the tokens that came", code="slow_reader")


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None

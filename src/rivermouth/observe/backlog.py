"""A bounded queue with a thread behind it, for what must never make a call wait: log lines and spans.

`put` costs an append.  When `limit` entries wait already, the new one is dropped and counted: a collector that is down,
or a stderr that nobody reads, takes neither time nor memory from the calls.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")


class BacklogStatistics(msgspec.Struct, frozen=True):
    """Entries that wait now (those in the thread's hands too), how many may, and how many were given up so far."""

    waiting: int
    limit: int
    dropped: int


class Backlog(Generic[T]):
    """`work` gets what has come, at most `batch` entries at once, in a thread that `start` begins and `close` ends.

    It runs when `batch` entries wait, or `linger_s` after the first one came, and raises nothing.
    """

    def __init__(self, name: str, work: Callable[[list[T]], None], *, limit: int, batch: int, linger_s: float) -> None:
        self._name = name
        self._work = work
        self._limit = limit
        self._batch = min(batch, limit)
        self._linger_s = linger_s
        self._entries: deque[T] = deque()
        self._taken = 0
        self._dropped = 0
        self._some = threading.Event()
        self._enough = threading.Event()
        self._stopping = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to work.  A daemon: what hangs in there does not keep the process from ending."""
        self._thread = threading.Thread(target=self._run, name=f"rivermouth-{self._name}", daemon=True)
        self._thread.start()

    def put(self, entry: T) -> None:
        """Never waits.  From one thread only, as the count of what is dropped has no lock."""
        waiting = len(self._entries) + self._taken
        if waiting >= self._limit or self._stopping:
            self._dropped += 1
            return
        self._entries.append(entry)
        if not self._some.is_set():
            self._some.set()
        if waiting + 1 >= self._batch and not self._enough.is_set():
            self._enough.set()

    def close(self, patience_s: float) -> bool:
        """Work off what waits, and end; False when that took longer than `patience_s`.  Blocks."""
        self._stopping = True
        self._enough.set()
        self._some.set()
        if self._thread is None:
            return not self._entries
        self._thread.join(patience_s)
        return not self._thread.is_alive()

    def statistics(self) -> BacklogStatistics:
        return BacklogStatistics(len(self._entries) + self._taken, self._limit, self._dropped)

    def _run(self) -> None:
        while not (self._stopping and not self._entries):
            self._some.wait()
            self._enough.wait(self._linger_s)
            self._enough.clear()
            self._some.clear()  # before they are taken: what comes from here on sets it again
            while batch := self._take():
                self._work(batch)
                self._taken = 0

    def _take(self) -> list[T]:
        batch = [self._entries.popleft() for _ in range(min(len(self._entries), self._batch))]
        self._taken = len(batch)
        return batch

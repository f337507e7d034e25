"""The log in this process: a list for each chat.

Two limits in bytes.  A log above its own forgets its oldest entries; all of them together above theirs forget the one
that is idle longest, whole, which its writer then finds lost.  A log that nobody has written to for `idle_s` goes too.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from rivermouth.log.port import Entry, FrameId, Landed, LogStatistics, Page

ENTRY_BYTES: Final = 200
"""What an entry costs beside its body."""

MIB: Final = 1024 * 1024
COMPACT_AT: Final = 1024


class _Log:
    """Entries from index `first` on; what is before was trimmed and is dropped now and then."""

    __slots__ = ("entries", "first", "ids", "last", "size_bytes", "touched_s")

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.ids: list[FrameId] = []
        self.first = 0
        self.last: FrameId | None = None
        self.size_bytes = 0
        self.touched_s = 0.0

    def add(self, entry: Entry) -> None:
        self.entries.append(entry)
        self.ids.append(entry.id)
        self.last = entry.id
        self.size_bytes += len(entry.body) + ENTRY_BYTES

    def forget_below(self, before: FrameId) -> int:
        """Bytes that were freed."""
        return self._forget(bisect_left(self.ids, before, self.first))

    def forget_down_to(self, limit_bytes: int) -> int:
        """Bytes that were freed; the newest entry always stays."""
        index, left = self.first, self.size_bytes
        while left > limit_bytes and index < len(self.entries) - 1:
            left -= len(self.entries[index].body) + ENTRY_BYTES
            index += 1
        return self._forget(index)

    def _forget(self, to: int) -> int:
        freed = sum(len(entry.body) + ENTRY_BYTES for entry in self.entries[self.first : to])
        self.first = max(self.first, to)
        self.size_bytes -= freed
        if self.first >= COMPACT_AT or self.first == len(self.entries):
            del self.entries[: self.first], self.ids[: self.first]
            self.first = 0
        return freed

    def page(self, after: FrameId, limit: int) -> Page:
        start = bisect_right(self.ids, after, self.first)
        exact = start > self.first and self.ids[start - 1] == after
        return Page(self.entries[start : start + limit], exact, self.last)


class MemoryLog:
    """The port `StreamLog`.  now_s: a clock that does not jump."""

    def __init__(
        self,
        *,
        now_s: Callable[[], float],
        limit_bytes: int = 256 * MIB,
        log_limit_bytes: int = 24 * MIB,
        idle_s: float = 1_200.0,
    ) -> None:
        self._now_s = now_s
        self._limit_bytes = limit_bytes
        self._log_limit_bytes = log_limit_bytes
        self._idle_s = idle_s
        self._logs: OrderedDict[str, _Log] = OrderedDict()  # the one that is idle longest first
        self._size_bytes = 0
        self._evicted = 0

    def append_nowait(self, chat: str, at: FrameId, body: bytes, *, opening: bool = False) -> Landed:
        """`append`, which has nothing to wait for."""
        log = self._logs.get(chat)
        if log is None:
            if not opening:
                return Landed.LOST
            log = self._logs[chat] = _Log()
        elif log.last is not None and at <= log.last:
            return Landed.FENCED
        log.add(Entry(at, body))
        log.touched_s = self._now_s()
        self._logs.move_to_end(chat)
        self._size_bytes += len(body) + ENTRY_BYTES
        self._size_bytes -= log.forget_down_to(self._log_limit_bytes)
        self._evict()
        return Landed.OK

    async def append(self, chat: str, at: FrameId, body: bytes, *, opening: bool = False) -> Landed:
        return self.append_nowait(chat, at, body, opening=opening)

    async def read(self, chat: str, after: FrameId, limit: int) -> Page:
        log = self._logs.get(chat)
        return log.page(after, limit) if log is not None else Page((), False, None)

    async def trim(self, chat: str, before: FrameId) -> None:
        log = self._logs.get(chat)
        if log is not None:
            self._size_bytes -= log.forget_below(before)

    async def drop(self, chat: str) -> None:
        log = self._logs.pop(chat, None)
        if log is not None:
            self._size_bytes -= log.size_bytes

    async def close(self) -> None:
        self._logs.clear()
        self._size_bytes = 0

    def statistics(self) -> LogStatistics:
        entries = sum(len(log.entries) - log.first for log in self._logs.values())
        return LogStatistics(len(self._logs), entries, self._size_bytes, self._limit_bytes, self._evicted)

    def _evict(self) -> None:
        """The oldest logs go: all that are idle, and as many as the limit demands, but never the newest."""
        old_s = self._now_s() - self._idle_s
        while len(self._logs) > 1:
            oldest = next(iter(self._logs.values()))
            if self._size_bytes <= self._limit_bytes and oldest.touched_s > old_s:
                return
            self._logs.popitem(last=False)
            self._size_bytes -= oldest.size_bytes
            self._evicted += 1

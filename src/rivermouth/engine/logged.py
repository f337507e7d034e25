"""Calls that outlive their connections: each runs in a task of its own and writes its answer into a log.

    open      a log for the call, or None when there is no room: then the call is a plain one
    run       the call's task begins
    attended  somebody reads: nothing runs out
    deserted  nobody does: after the grace the call is cancelled as if its client had left
    ended     the log stays for `ttl_s`, or until its room is needed, the oldest first
    gone      for a while it is known that there was one

A call whose head nobody has been given is cancelled as soon as its last reader leaves: whoever does not know the
address cannot come again, and would only pay for what nobody reads.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Coroutine
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

import msgspec
import structlog

from rivermouth.dialects.dialect import Dialect
from rivermouth.engine.call import Call
from rivermouth.engine.interrupt import By
from rivermouth.log.answer import AnswerLog
from rivermouth.log.budget import Budget

_log: Final = structlog.get_logger()

MIB: Final = 1024 * 1024
REMEMBERED: Final = 10_000
"""Calls whose logs are gone and of which that is still known."""

Owner = tuple[str | None, str | None]
"""Whose call it is: the name and the id of the key; both None where no key was asked for."""


class LogSettings(msgspec.Struct, frozen=True, kw_only=True):
    """grace_s: how long a call goes on that nobody reads; None: to its end.  ttl_s: how long an ended log is kept.

    call_bytes, total_bytes: what a log, and what all of them hold.
    """

    enabled: bool = True
    grace_s: float | None = 60.0
    ttl_s: float = 300.0
    call_bytes: int = 16 * MIB
    total_bytes: int = 256 * MIB


class LogsStatistics(NamedTuple):
    """running, ended: logs.  refused: calls that were plain because there was no room."""

    running: int
    ended: int
    readers: int
    held_bytes: int
    limit_bytes: int
    evicted: int
    refused: int


class Unknown(Exception):
    """There is no such call, or it is somebody else's."""


class Gone(Exception):
    """There was one, and its log is gone.  dialect: what its client speaks."""

    def __init__(self, dialect: Dialect) -> None:
        super().__init__()
        self.dialect = dialect


class LoggedCall:
    """One call and its log.  grace_s: its own, which may be less than everybody's.  call: while it runs."""

    def __init__(self, call: Call, log: AnswerLog, owner: Owner, grace_s: float | None) -> None:
        self.id: Final = call.id
        self.dialect: Final = call.dialect
        self.call: Call | None = call
        self.log: Final = log
        self.owner: Final = owner
        self._grace_s = grace_s
        self._timer: asyncio.TimerHandle | None = None
        log.attended, log.deserted = self._attended, self._deserted

    def ended(self) -> None:
        """Nothing of it runs any more; what was asked is not kept with what was answered."""
        self._attended()
        self.call = None

    def cancel(self, by: By) -> None:
        """End it, if it still runs."""
        if self.call is not None:
            self.call.interrupt.cancel(by)

    def keep(self) -> None:
        """Somebody will ask for it by another name than the address in its head."""
        self.log.known = True

    def _attended(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _deserted(self) -> None:
        if self.log.ended:
            return
        if not self.log.known:
            self._cancel()
        elif self._grace_s is not None:
            self._timer = asyncio.get_running_loop().call_later(self._grace_s, self._cancel)

    def _cancel(self) -> None:
        self.cancel(By.CLIENT)


class LoggedCalls:
    """All of them.  `async with` ends those that still run, and returns when they have ended."""

    def __init__(self, settings: LogSettings) -> None:
        self._settings = settings
        self._budget = Budget(settings.total_bytes)
        self._budget.make_room = self._make_room
        self._running: dict[str, LoggedCall] = {}
        self._ended: OrderedDict[str, tuple[LoggedCall, asyncio.TimerHandle]] = OrderedDict()
        self._gone: OrderedDict[str, tuple[Owner, Dialect]] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()
        self._evicted = self._refused = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for logged in self._running.values():
            logged.cancel(By.SHUTDOWN)
        if self._tasks:
            await asyncio.wait(self._tasks)
        for call_id in tuple(self._ended):
            self._drop(call_id)

    def adopt(self, settings: LogSettings) -> None:
        """Other settings: for calls that begin and logs that end from now on; the sum of all holds at once."""
        self._settings = settings
        self._budget.limit_bytes = settings.total_bytes
        if self._budget.over:
            self._make_room(self._budget.taken_bytes - self._budget.limit_bytes)

    def open(self, call: Call, owner: Owner, grace_s: float | None = None) -> LoggedCall | None:
        """A log for a call that is about to begin; None when there is to be none, or no room for it.

        grace_s: what the client asks for; it holds where it is less than the configured one.
        """
        settings = self._settings
        if not settings.enabled:
            return None
        log = AnswerLog(self._budget, settings.call_bytes)
        if not log.admit():
            self._refused += 1
            _log.warning("resume.refused", call=call.id, held_bytes=self._budget.taken_bytes)
            return None
        given = [s for s in (settings.grace_s, grace_s) if s is not None]
        return LoggedCall(call, log, owner, min(given, default=None))

    def run(self, logged: LoggedCall, work: Coroutine[Any, Any, None], within: AbstractContextManager[Any]) -> None:
        """Begins the call's task.  within: entered now, and left when the task is over, however that comes."""
        call_id = logged.id
        self._running[call_id] = logged
        within.__enter__()
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)

        def over(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            within.__exit__(None, None, None)
            self._end(logged)
            if not task.cancelled() and (error := task.exception()) is not None:
                _log.error("call.crashed", call=call_id, exc_info=error)

        task.add_done_callback(over)

    def find(self, call_id: str, owner: Owner) -> LoggedCall:
        """Raises `Unknown`, also for somebody else's, and `Gone`."""
        ended = self._ended.get(call_id)
        found = self._running.get(call_id) or (ended[0] if ended is not None else None)
        if found is not None and found.owner == owner:
            return found
        gone = self._gone.get(call_id)
        if found is None and gone is not None and gone[0] == owner:
            raise Gone(gone[1])
        raise Unknown

    def statistics(self) -> LogsStatistics:
        every = (*self._running.values(), *(logged for logged, _ in self._ended.values()))
        return LogsStatistics(
            len(self._running),
            len(self._ended),
            sum(logged.log.readers for logged in every),
            self._budget.taken_bytes,
            self._budget.limit_bytes,
            self._evicted,
            self._refused,
        )

    def _end(self, logged: LoggedCall) -> None:
        """Its task is over."""
        call_id = logged.id
        logged.log.break_off()
        logged.ended()
        del self._running[call_id]
        self._ended[call_id] = (logged, self._expiry(call_id, logged.log.read))
        if self._budget.over:
            self._make_room(self._budget.taken_bytes - self._budget.limit_bytes)

    def _expiry(self, call_id: str, read: int) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(self._settings.ttl_s, self._expire, call_id, read)

    def _expire(self, call_id: str, read: int) -> None:
        """The log has been kept long enough; who still reads it, and gets on, may go on."""
        logged, _ = self._ended[call_id]
        if logged.log.readers and logged.log.read > read:
            self._ended[call_id] = (logged, self._expiry(call_id, logged.log.read))
        else:
            self._drop(call_id)

    def _make_room(self, size: int) -> None:
        """Logs of ended calls that nobody reads go, the oldest first."""
        for call_id, (logged, _) in tuple(self._ended.items()):
            if size <= 0:
                return
            if not logged.log.readers:
                size -= logged.log.held_bytes
                self._evicted += 1
                self._drop(call_id)

    def _drop(self, call_id: str) -> None:
        logged, timer = self._ended.pop(call_id)
        timer.cancel()
        logged.log.forget()
        self._gone[call_id] = (logged.owner, logged.dialect)
        if len(self._gone) > REMEMBERED:
            self._gone.popitem(last=False)

"""A server in a process of its own, and what can be seen of it from outside: how many calls run, what was recorded."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable
from typing import Any, Final, TypeVar

from rivermouth.store.datadir import DataDir
from rivermouth.store.port import CallFilter, CallRecord, Status
from rivermouth.store.sqlite import SqliteCallStore
from tests.running import Running

T = TypeVar("T")

DEADLINE_S: Final = 20.0
ASK_AGAIN_S: Final = 0.005


def until(ask: Callable[[], T | None], what: str) -> T:
    """The first answer that is true.  Asks a remote state that tells nobody when it changes; fails at the deadline."""
    ends_at = time.monotonic() + DEADLINE_S
    while not (answer := ask()):
        assert time.monotonic() < ends_at, f"not within {DEADLINE_S:g} s: {what}"
        time.sleep(ASK_AGAIN_S)
    return answer


class Served:
    """One running server.  since_ns: when the test that runs began; `conftest` sets it."""

    since_ns = 0

    def __init__(self, running: Running) -> None:
        self.url = running.url
        self.port = running.port
        self._running = running
        self._store = SqliteCallStore.reader(DataDir(running.data).database)

    def get(self, path: str) -> Any:
        """The JSON document there."""
        with urllib.request.urlopen(self.url + path, timeout=DEADLINE_S) as answer:
            return json.load(answer)

    def inflight(self) -> int:
        return int(self.get("/health")["inflight"])

    def busy(self) -> None:
        """Returns when a call runs."""
        until(lambda: self.inflight() > 0, "a call runs")

    def idle(self) -> None:
        """Returns when no call runs any more."""
        until(lambda: self.inflight() == 0, "no call runs")

    def record(self, call_id: str) -> CallRecord:
        """The record of a call, once it is final."""

        def final() -> CallRecord | None:
            found = self._store.get(call_id)
            return found if found is not None and found.status is not Status.OPEN else None

        return until(final, f"the record of {call_id} is final")

    def last_record(self) -> CallRecord:
        """The record of the newest call of this test, whose row may still be on its way to the store."""

        def newest() -> str | None:
            found = self._store.list(1, CallFilter(since_ns=Served.since_ns))
            return found[0].id if found else None

        return self.record(until(newest, "this test's call has a row"))

    def usage(self, model: str) -> dict[Status, int]:
        """How many calls of this "provider/model" ended how, as the sums of usage say it."""
        return {row.status: row.calls for row in self._store.usage() if row.model == model}

    def dispose(self) -> None:
        self._store.dispose()

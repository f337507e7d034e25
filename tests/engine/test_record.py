"""The recorder: an open row before the answer, exactly one end, nothing lost, the event loop never held."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import msgspec
import pytest
import uvloop

from rivermouth.engine import record
from rivermouth.engine.record import Recorder, clean
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.secrets import Secret
from rivermouth.store.datadir import DataDir
from rivermouth.store.port import LONGEST_MESSAGE, CallRecord, CallText, Checkpoint, Outcome, Status, StoreError
from rivermouth.store.sqlite import SqliteCallStore
from tests.databases import laid
from tests.store.records import attempt, ended, opened

pytestmark = pytest.mark.anyio


class FakeStore(SqliteCallStore):
    """The real store behind a gate: `hold` stops the writer's thread in `write`, `refuse` is raised instead of it."""

    def __init__(self, path: Path) -> None:
        super().__init__(SqliteCallStore.open(path)._engine)
        self.may_write = threading.Event()
        self.may_write.set()
        self.entered = threading.Semaphore(0)
        self.refuse: Callable[[], StoreError | None] = lambda: None
        self.batches: list[tuple[int, int, int]] = []
        self.threads: set[int] = set()

    def write(
        self,
        opens: Sequence[CallRecord],
        marks: Sequence[Checkpoint],
        closes: Sequence[CallRecord],
        texts: Sequence[CallText] = (),
    ) -> int:
        self.batches.append((len(opens), len(marks), len(closes)))
        self.threads.add(threading.get_ident())
        self.entered.release()
        assert self.may_write.wait(5)
        error = self.refuse()
        if error is not None:
            raise error
        return super().write(opens, marks, closes, texts)

    async def writing(self) -> None:
        """Returns when the writer's thread has entered `write` once more."""
        await asyncio.to_thread(self.entered.acquire)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[FakeStore]:
    made = FakeStore(laid(tmp_path / "rivermouth.db"))
    yield made
    made.may_write.set()
    made.dispose()


def times(count: int, error: StoreError) -> Callable[[], StoreError | None]:
    """That error so many times, then none."""
    left = iter([error] * count)
    return lambda: next(left, None)


async def settled() -> None:
    """Lets every callback that is ready run."""
    for _ in range(5):
        await asyncio.sleep(0)


async def idle(recorder: Recorder) -> None:
    """Returns when the writer's thread waits for work: what comes while it writes, it takes at once."""
    while not recorder._idle:
        await asyncio.sleep(0)


async def test_open_returns_when_the_row_is_committed(store: FakeStore, tmp_path: Path):
    async with Recorder(store) as recorder:
        await recorder.open(opened(1))
        with sqlite3.connect(tmp_path / "rivermouth.db") as other:
            assert other.execute("SELECT status FROM calls").fetchall() == [("open",)]
        other.close()


@pytest.mark.fault("F34")
async def test_open_waits_for_the_commit_and_the_loop_does_not(store: FakeStore):
    async with Recorder(store) as recorder:
        store.may_write.clear()
        task = asyncio.create_task(recorder.open(opened(1)))
        await store.writing()
        await settled()
        assert not task.done()
        store.may_write.set()
        await task
    assert threading.get_ident() not in store.threads
    assert len(store.threads) == 1


async def test_every_call_that_starts_during_a_flush_shares_the_next(store: FakeStore):
    async with Recorder(store) as recorder:
        store.may_write.clear()
        first = asyncio.create_task(recorder.open(opened(1)))
        await store.writing()
        others = [asyncio.create_task(recorder.open(opened(n))) for n in range(2, 52)]
        await settled()
        assert recorder.statistics().opens == 50
        store.may_write.set()
        await asyncio.gather(first, *others)
    assert store.batches == [(1, 0, 0), (50, 0, 0)]


async def test_rows_that_nobody_needs_yet_wait_for_each_other(store: FakeStore, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(record, "OPENS_APART_S", 3600)
    async with Recorder(store) as recorder:
        recorder._told_at = asyncio.get_running_loop().time()
        first, second = recorder.begin(opened(1)), recorder.begin(opened(2))
        recorder.close(ended(opened(2)))
        await idle(recorder)
        assert store.batches == []
        await first.committed()
        assert store.batches == [(2, 0, 1)]
        await second.committed()
        await first.committed()
    assert store.batches == [(2, 0, 1)]


async def test_a_row_on_a_quiet_server_waits_for_nobody(store: FakeStore, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(record, "OPENS_APART_S", 3600)
    async with Recorder(store) as recorder:
        recorder._told_at = asyncio.get_running_loop().time() - 3600
        recorder.begin(opened(1))
        await store.writing()
    assert store.batches == [(1, 0, 0)]


def test_uvloop_makes_no_timer_of_less_than_half_a_millisecond(tmp_path: Path):
    store = FakeStore(laid(tmp_path / "rivermouth.db"))

    async def run() -> None:
        async with Recorder(store) as recorder:
            recorder._told_at = asyncio.get_running_loop().time() - record.OPENS_APART_S + 0.0004
            opening = [recorder.begin(opened(n)) for n in (1, 2)]
            recorder.checkpoint(opened(1).id, 1, 4)
            recorder.close(ended(opened(2)))
            for one in opening:
                await one.committed()
        assert [c.status for c in store.list(10)] == [Status.COMPLETED, Status.OPEN]

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())
    store.dispose()


async def test_a_row_that_nobody_needs_is_written_in_the_end(store: FakeStore):
    async with Recorder(store) as recorder:
        await recorder.open(opened(1))
        recorder.begin(opened(2))
        for _ in range(2):
            await store.writing()
    assert [c.id for c in store.list(10)] == [opened(2).id, opened(1).id]


@pytest.mark.promise(73, 74, 75)
@pytest.mark.fault("F16", "F30")
async def test_a_cancelled_call_is_recorded_as_cancelled_with_what_it_produced(store: FakeStore):
    async with Recorder(store) as recorder:
        await recorder.open(opened(1))
        recorder.checkpoint(opened(1).id, 3, 9)
        partial = (attempt(1, outcome=Outcome.CANCELLED, output_tokens=4, text_chars=12),)
        recorder.close(
            ended(
                opened(1),
                Status.CANCELLED,
                kind=Kind.CANCELLED,
                cancelled_by="client",
                finish_reason=None,
                output_tokens=4,
                text_chars=12,
                attempts=partial,
            )
        )
    found = store.get(opened(1).id)
    assert found is not None
    assert (found.status, found.cancelled_by, found.output_tokens, found.text_chars) == ("cancelled", "client", 4, 12)
    assert found.attempts == partial
    assert [(u.status, u.calls, u.output_tokens) for u in store.usage()] == [(Status.CANCELLED, 1, 4)]


@pytest.mark.fault("F30")
async def test_a_call_has_one_end(store: FakeStore):
    async with Recorder(store) as recorder:
        await recorder.open(opened(1))
        recorder.close(ended(opened(1), Status.CANCELLED))
        recorder.close(ended(opened(1), Status.COMPLETED))
        recorder.checkpoint(opened(1).id, 99, 99)
    found = store.get(opened(1).id)
    assert found is not None
    assert (found.status, found.text_chars) == (Status.CANCELLED, 21)


@pytest.mark.fault("F30")
async def test_a_call_that_was_cancelled_while_it_opened_is_recorded_all_the_same(store: FakeStore):
    async with Recorder(store) as recorder:
        store.may_write.clear()
        task = asyncio.create_task(recorder.open(opened(1)))
        await store.writing()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        recorder.close(ended(opened(1), Status.CANCELLED))
        store.may_write.set()
    assert [c.status for c in store.list(10)] == [Status.CANCELLED]


@pytest.mark.fault("F35")
async def test_close_does_not_wait_and_checkpoints_replace_each_other(store: FakeStore):
    async with Recorder(store) as recorder:
        await recorder.open(opened(1))
        await recorder.open(opened(2))
        store.may_write.clear()
        flushed = asyncio.create_task(recorder.flush())
        await settled()
        for n in range(100):
            recorder.checkpoint(opened(1).id, n, 3 * n, attempt=attempt(1) if n == 0 else None)
            recorder.checkpoint(opened(2).id, n, 3 * n)
        recorder.close(ended(opened(2)))
        waiting = recorder.statistics()
        assert (waiting.marks, waiting.closes) == (1, 1)
        store.may_write.set()
        await flushed
        await recorder.flush()
        found = store.get(opened(1).id)
        assert found is not None
        assert (found.output_tokens, found.text_chars, len(found.attempts)) == (99, 297, 1)


@pytest.mark.fault("F35")
async def test_an_end_does_not_wait_as_long_as_a_checkpoint(store: FakeStore, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(record, "MARKS_LINGER_S", 3600)
    async with Recorder(store) as recorder:
        await recorder.open(opened(1))
        await recorder.open(opened(2))
        await idle(recorder)
        recorder.checkpoint(opened(1).id, 1, 4)
        recorder.checkpoint(opened(2).id, 1, 4)
        recorder.close(ended(opened(2)))
        recorder.checkpoint(opened(1).id, 2, 8)  # puts nothing off
        for _ in range(3):
            await store.writing()
    assert store.batches == [(1, 0, 0), (1, 0, 0), (0, 1, 1)]


async def test_a_checkpoint_is_written_though_nothing_else_is(store: FakeStore):
    async with Recorder(store) as recorder:
        await recorder.open(opened(1))
        await idle(recorder)
        recorder.checkpoint(opened(1).id, 1, 4)
        for _ in range(2):
            await store.writing()
    assert store.batches == [(1, 0, 0), (0, 1, 0)]


async def test_a_full_queue_holds_new_calls_and_not_ends(store: FakeStore):
    async with Recorder(store, limit=4) as recorder:
        store.may_write.clear()
        tasks = [asyncio.create_task(recorder.open(opened(n))) for n in range(1, 11)]
        await store.writing()
        await settled()
        waiting = recorder.statistics()
        assert waiting.writing + waiting.opens <= 4
        recorder.close(ended(opened(11)))
        assert recorder.statistics().closes == 1
        store.may_write.set()
        await asyncio.gather(*tasks)
    assert len(store.list(20)) == 11


async def test_at_its_end_nothing_is_lost(store: FakeStore):
    async with Recorder(store) as recorder:
        await asyncio.gather(*(recorder.open(opened(n)) for n in range(1, 201)))
        for n in range(1, 201):
            recorder.close(ended(opened(n)))
    assert [(u.status, u.calls) for u in store.usage()] == [(Status.COMPLETED, 200)]
    after = recorder.statistics()
    assert (after.closes, after.writing, after.rows) == (0, 0, 400)


async def test_after_its_end_no_call_may_open(store: FakeStore):
    async with Recorder(store) as recorder:
        pass
    with pytest.raises(ApiError) as caught:
        await recorder.open(opened(1))
    assert caught.value.kind is Kind.OVERLOADED
    await recorder.aclose()


async def test_a_store_that_is_locked_refuses_calls_and_keeps_their_ends(store: FakeStore):
    async with Recorder(store, retry_s=0.01) as recorder:
        await recorder.open(opened(1))
        store.may_write.clear()
        flushed = asyncio.create_task(recorder.flush())
        await settled()
        late = asyncio.create_task(recorder.open(opened(2)))
        await settled()
        recorder.checkpoint(opened(1).id, 5, 5)
        recorder.close(ended(opened(1)))
        store.refuse = times(3, StoreError("locked", passing=True))
        store.may_write.set()
        with pytest.raises(ApiError) as caught:
            await late
        assert caught.value.kind is Kind.OVERLOADED
        assert caught.value.retry_after_s == 1
        await flushed
        await recorder.flush()
        assert store.get(opened(1).id) == ended(opened(1))
        assert store.get(opened(2).id) is None
        assert recorder.statistics().retries == 3


async def test_a_store_that_stays_locked_is_reported_at_the_end(store: FakeStore):
    recorder = Recorder(store, retry_s=0.01, patience_s=0.05)
    await recorder.start()
    store.refuse = lambda: StoreError("disk full", passing=True)
    recorder.close(ended(opened(1)))
    with pytest.raises(StoreError, match="1 records could not be written"):
        await recorder.aclose()


async def test_one_bad_row_does_not_take_others_with_it(store: FakeStore):
    async with Recorder(store) as recorder:
        store.may_write.clear()
        flushed = asyncio.create_task(recorder.flush())
        await store.writing()
        good = asyncio.create_task(recorder.open(opened(1)))
        bad = asyncio.create_task(recorder.open(opened(2, model_asked="half an emoji \ud83d")))
        await settled()
        recorder.close(ended(opened(3), Status.FAILED, kind=Kind.UPSTREAM, output_tokens=2**70))
        recorder.close(ended(opened(4)))
        store.may_write.set()
        await good
        with pytest.raises(ApiError) as caught:
            await bad
        assert caught.value.kind is Kind.INTERNAL
        await flushed
    assert store.get(opened(2).id) is None
    assert store.get(opened(4).id) == ended(opened(4))
    bare = store.get(opened(3).id)
    assert bare is not None
    assert (bare.status, bare.kind, bare.output_tokens, bare.at_least) == (Status.FAILED, Kind.UPSTREAM, None, True)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_nobody_waits_for_a_thread_that_has_died(store: FakeStore):
    def bug() -> StoreError | None:
        raise ZeroDivisionError

    recorder = Recorder(store)
    await recorder.start()
    store.refuse = bug
    with pytest.raises(ApiError) as caught:
        await recorder.open(opened(1))
    assert caught.value.kind is Kind.INTERNAL
    with pytest.raises(ApiError):
        await recorder.open(opened(2))
    assert recorder._thread is not None
    recorder._thread.join(5)  # its exception is told after that, and is this test's own


@pytest.mark.fault("F36")
async def test_messages_are_short_and_hold_no_secret(store: FakeStore):
    secret = Secret("hunter2-hunter2")
    told = f"the key {secret.reveal()} was refused; " + "x" * 1000
    async with Recorder(store, secrets=(secret,)) as recorder:
        recorder.close(ended(opened(1), Status.FAILED, message=told, attempts=(attempt(1, message=told),)))
    found = store.get(opened(1).id)
    assert found is not None
    for message in (found.message, found.attempts[0].message):
        assert message is not None
        assert secret.reveal() not in message
        assert message.startswith("the key *** was refused")
        assert len(message) == LONGEST_MESSAGE


def test_a_record_without_messages_is_left_as_it_is():
    record = ended(opened(1), attempts=(attempt(1),))
    assert clean(record) is record


def test_a_record_has_no_place_for_prompt_or_answer():
    names = {f for s in (CallRecord, Checkpoint) for f in s.__struct_fields__}
    assert names & {"prompt", "messages", "text", "content", "answer", "request", "reply", "body"} == set()


KILLED = """
import asyncio, sys
from pathlib import Path
from rivermouth.engine.record import Recorder
from rivermouth.store.datadir import DataDir
from rivermouth.store.sqlite import SqliteCallStore
from tests.store.records import attempt, ended, opened

async def main():
    data = DataDir(Path(sys.argv[1]))
    data.lock()
    recorder = Recorder(SqliteCallStore.open(data.database))
    await recorder.start()
    await asyncio.gather(*(recorder.open(opened(n)) for n in range(1, 101)))
    for n in range(1, 51):
        recorder.checkpoint(opened(n).id, n, 3 * n, attempt=attempt(1, output_tokens=n, ended_ns=None))
    recorder.close(ended(opened(100)))
    await recorder.flush()
    print("ready", flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


@pytest.mark.promise(73, 74, 75)
@pytest.mark.fault("F16", "F30")
def test_kill_9_leaves_calls_that_the_next_start_ends_exactly_once(tmp_path: Path):
    child = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    assert child.returncode == -signal.SIGKILL
    data = DataDir(tmp_path)
    with data.lock():
        store = SqliteCallStore.open(data.database)
        assert store.interrupt_open() == 99
        assert store.interrupt_open() == 0
        calls = {c.started_ns // 1_000_000_000: c for c in store.list(200)}
        store.dispose()
    assert len(calls) == 100
    assert calls.pop(100) == ended(opened(100))
    assert {(c.status, c.at_least) for c in calls.values()} == {(Status.INTERRUPTED, True)}
    assert [calls[n].output_tokens for n in range(1, 100)] == [*range(1, 51), *[None] * 49]
    assert calls[50].attempts == (attempt(1, output_tokens=50, ended_ns=None, outcome=Outcome.INTERRUPTED),)
    assert (calls[50].provider, calls[51].provider) == ("lab", None)


def test_every_field_of_a_record_is_stored():
    """A field added to a record and not to its table would be dropped without a word."""
    from rivermouth.store.tables import attempts, calls

    apart = {"attempts"}
    assert {f.name for f in msgspec.structs.fields(CallRecord)} - apart == set(calls.c.keys()) - {"seq"}
    assert set(type(attempt()).__struct_fields__) == set(attempts.c.keys()) - {"call_id"}

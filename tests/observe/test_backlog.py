"""A backlog loses nothing while there is room, takes no more than there is, and makes nobody wait."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

import pytest

from rivermouth.observe.backlog import Backlog, BacklogStatistics

PATIENCE_S = 10.0


def backlog(work: object, *, limit: int = 1000, batch: int = 10, linger_s: float = 0.001) -> Backlog[int]:
    return Backlog("test", work, limit=limit, batch=batch, linger_s=linger_s)  # type: ignore[arg-type]


@pytest.fixture
def hasty() -> Iterator[None]:
    """Threads take turns as often as the interpreter can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_everything_comes_in_order_in_batches_of_at_most_so_many(hasty: None):
    batches: list[list[int]] = []
    queue = backlog(batches.append, limit=100_000)
    queue.start()
    for number in range(20_000):
        queue.put(number)
    assert queue.close(PATIENCE_S)
    assert [number for batch in batches for number in batch] == list(range(20_000))
    assert max(map(len, batches)) <= 10
    assert queue.statistics() == BacklogStatistics(0, 100_000, 0)


def test_what_came_is_worked_off_without_more_coming(hasty: None):
    came = threading.Semaphore(0)
    queue = backlog(lambda batch: came.release(len(batch)), batch=1000)
    queue.start()
    for _ in range(500):
        queue.put(1)
        assert came.acquire(timeout=PATIENCE_S)
    assert queue.close(PATIENCE_S)


def test_a_full_batch_does_not_wait_for_the_time_to_pass():
    came = threading.Event()
    queue = backlog(lambda batch: came.set(), batch=3, linger_s=3600)
    queue.start()
    for number in range(3):
        queue.put(number)
    assert came.wait(PATIENCE_S)
    assert queue.close(PATIENCE_S)


def test_where_the_work_hangs_entries_are_dropped_and_counted_and_nobody_waits():
    held, inside = threading.Event(), threading.Event()
    done: list[int] = []

    def work(batch: list[int]) -> None:
        inside.set()
        held.wait(PATIENCE_S)
        done.extend(batch)

    queue = backlog(work, limit=5, batch=2)
    queue.start()
    queue.put(0)
    queue.put(1)
    assert inside.wait(PATIENCE_S)
    for number in range(2, 100):
        queue.put(number)
    assert queue.statistics() == BacklogStatistics(5, 5, 95)
    assert not queue.close(0.0), "it has not been worked off"
    queue.put(100)
    assert queue.statistics().dropped == 96
    held.set()
    assert queue.close(PATIENCE_S)
    assert done == [0, 1, 2, 3, 4]


def test_without_a_thread_nothing_waits_for_ever():
    queue = backlog(list.sort)
    assert queue.close(PATIENCE_S)
    unstarted = backlog(list.sort)
    unstarted.put(1)
    assert not unstarted.close(PATIENCE_S)


class Late(Backlog[int]):
    """One in which an entry comes at the worst moment: when the thread has just found that none is left."""

    late = False

    def _take(self) -> list[int]:
        batch = super()._take()
        if not batch and not self.late:
            self.late = True
            self.put(2)
        return batch


def test_what_comes_while_the_thread_lies_down_is_not_forgotten():
    done: list[int] = []
    came = threading.Event()

    def work(batch: list[int]) -> None:
        done.extend(batch)
        if 2 in batch:
            came.set()

    queue = Late("test", work, limit=10, batch=10, linger_s=0.001)
    queue.start()
    queue.put(1)
    assert came.wait(PATIENCE_S)
    assert queue.close(PATIENCE_S)
    assert done == [1, 2]

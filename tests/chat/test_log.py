"""What every log of turns does.  The suite knows the port alone; `ADAPTERS` says over what it runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from rivermouth.log.memory import MemoryLog
from rivermouth.log.port import ZERO, FrameId, Landed, StreamLog

pytestmark = pytest.mark.anyio

ADAPTERS: dict[str, Callable[[], StreamLog]] = {"memory": lambda: MemoryLog(now_s=lambda: 0.0)}


@pytest.fixture(params=ADAPTERS.values(), ids=ADAPTERS.keys())
async def log(request: pytest.FixtureRequest) -> AsyncIterator[StreamLog]:
    made: StreamLog = request.param()
    yield made
    await made.close()


async def opened(log: StreamLog, *more: FrameId) -> None:
    assert await log.append("c", FrameId(1, 0), b"open", opening=True) is Landed.OK
    for at in more:
        assert await log.append("c", at, str(at).encode()) is Landed.OK


async def ids(log: StreamLog, after: FrameId = ZERO, limit: int = 100) -> list[FrameId]:
    return [entry.id for entry in (await log.read("c", after, limit)).entries]


async def test_entries_are_read_after_a_cursor_in_order(log: StreamLog):
    await opened(log, FrameId(1, 1), FrameId(1, 2), FrameId(2, 0))
    assert await ids(log) == [(1, 0), (1, 1), (1, 2), (2, 0)]
    assert await ids(log, FrameId(1, 1)) == [(1, 2), (2, 0)]
    assert await ids(log, FrameId(1, 0), 2) == [(1, 1), (1, 2)]
    page = await log.read("c", FrameId(1, 2), 10)
    assert (page.entries[0].body, page.last) == (b"2-0", FrameId(2, 0))


async def test_ids_are_compared_as_numbers(log: StreamLog):
    await opened(log, FrameId(1, 9), FrameId(1, 10), FrameId(10, 0))
    assert await log.append("c", FrameId(9, 99), b"") is Landed.FENCED
    assert await ids(log, FrameId(1, 9)) == [(1, 10), (10, 0)]


@pytest.mark.promise(86, 87)
async def test_what_is_not_above_the_last_entry_is_refused(log: StreamLog):
    await opened(log, FrameId(2, 0))
    for late in (FrameId(2, 0), FrameId(1, 1), FrameId(1, 10**15), ZERO):
        assert await log.append("c", late, b"x") is Landed.FENCED
        assert await log.append("c", late, b"x", opening=True) is Landed.FENCED
    assert await ids(log) == [(1, 0), (2, 0)]


async def test_only_an_opening_entry_begins_a_log(log: StreamLog):
    assert await log.append("c", FrameId(1, 1), b"x") is Landed.LOST
    assert await log.read("c", ZERO, 10) == ((), False, None) or not (await log.read("c", ZERO, 10)).entries
    await opened(log)
    await log.drop("c")
    assert await log.append("c", FrameId(1, 1), b"x") is Landed.LOST
    assert await log.append("c", FrameId(1, 2), b"x", opening=True) is Landed.OK
    assert await ids(log) == [(1, 2)]


async def test_the_fence_outlives_what_was_trimmed(log: StreamLog):
    await opened(log, FrameId(1, 1), FrameId(3, 5))
    await log.trim("c", FrameId(9, 0))
    page = await log.read("c", ZERO, 10)
    assert (list(page.entries), page.last) == ([], FrameId(3, 5))
    assert await log.append("c", FrameId(3, 5), b"x") is Landed.FENCED
    assert await log.append("c", FrameId(3, 6), b"x") is Landed.OK


async def test_trimming_leaves_what_is_at_or_above(log: StreamLog):
    await opened(log, *(FrameId(1, n) for n in range(1, 3_000)))
    await log.trim("c", FrameId(1, 2_990))
    assert await ids(log) == [(1, n) for n in range(2_990, 3_000)]
    assert await ids(log, FrameId(1, 2_995)) == [(1, n) for n in range(2_996, 3_000)]
    await log.trim("other", FrameId(1, 0))


async def test_a_page_says_whether_the_cursors_own_entry_is_there(log: StreamLog):
    await opened(log, FrameId(1, 1), FrameId(1, 2))
    assert (await log.read("c", FrameId(1, 1), 10)).exact
    assert (await log.read("c", FrameId(1, 2), 10)).exact
    assert not (await log.read("c", FrameId(1, 7), 10)).exact
    await log.trim("c", FrameId(1, 2))
    assert not (await log.read("c", FrameId(1, 1), 10)).exact
    assert not (await log.read("none", FrameId(1, 1), 10)).exact


async def test_chats_have_logs_of_their_own(log: StreamLog):
    await opened(log)
    assert await log.append("d", FrameId(1, 0), b"x", opening=True) is Landed.OK
    await log.drop("d")
    assert await ids(log) == [(1, 0)]


# -- the memory's own


async def test_a_log_above_its_limit_forgets_its_oldest_entries():
    log = MemoryLog(now_s=lambda: 0.0, log_limit_bytes=10_000)
    await opened(log)
    for n in range(1, 200):
        await log.append("c", FrameId(1, n), b"x" * 1_000)
    assert log.statistics().size_bytes <= 10_000
    assert (await ids(log))[-1] == (1, 199)
    assert log.append_nowait("c", FrameId(1, 200), b"x" * 50_000) is Landed.OK
    assert await ids(log) == [(1, 200)]


async def test_too_many_logs_forget_the_one_that_is_idle_longest():
    now = [0.0]
    log = MemoryLog(now_s=lambda: now[0], limit_bytes=50_000)
    for chat in range(20):
        now[0] += 1
        log.append_nowait(str(chat), FrameId(1, 0), b"x" * 10_000, opening=True)
    statistics = log.statistics()
    assert statistics.size_bytes <= 50_000
    assert (statistics.logs, statistics.evicted) == (4, 16)
    assert log.append_nowait("0", FrameId(1, 1), b"") is Landed.LOST
    assert log.append_nowait("19", FrameId(1, 1), b"") is Landed.OK


async def test_an_idle_log_goes_with_time():
    now = [0.0]
    log = MemoryLog(now_s=lambda: now[0], idle_s=60)
    log.append_nowait("old", FrameId(1, 0), b"x", opening=True)
    now[0] = 61
    log.append_nowait("new", FrameId(1, 0), b"x", opening=True)
    assert log.append_nowait("old", FrameId(1, 1), b"") is Landed.LOST
    await log.drop("new")
    assert log.statistics()[:3] == (0, 0, 0)


@pytest.mark.parametrize(
    "text", ["", "-", "1", "1-", "-1", "a-1", "1-b", "1--1", "1-1-1", " 1-1", "1" * 30 + "-1", "²-1"]
)
def test_what_is_no_id_is_none(text: str):
    assert FrameId.parse(text) is None


def test_an_id_is_read_as_it_is_written():
    assert FrameId.parse(str(FrameId(12, 345))) == FrameId(12, 345)
    assert FrameId(1, 2).next() == FrameId(1, 3)
    assert FrameId(2, 0) > FrameId(1, 10) > FrameId(1, 9)

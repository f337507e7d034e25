"""What every store of kept answers does.  The suite knows the port alone; `ADAPTERS` says over what it runs."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final

import msgspec
import pytest

from rivermouth.store.database import open_database, open_reader
from rivermouth.store.kept.port import KeptStore, Owner
from rivermouth.store.kept.sqlite import SqliteKeptStore
from rivermouth.store.port import CallFilter, Checkpoint, Outcome, Status, StoreError
from rivermouth.store.sqlite import SqliteCallStore
from rivermouth.store.sqlite_archive import SqliteCallArchive
from tests.databases import laid
from tests.kept.rows import ANNA, BOB, LATER_NS, NOBODY, NOW_NS, kept
from tests.store.records import attempt, ended, opened

pytestmark = pytest.mark.anyio

ADAPTERS: Final[dict[str, Callable[[Path], KeptStore]]] = {
    "sqlite": lambda path: SqliteKeptStore(open_database(laid(path)))
}
ROOM: Final = 10**6


@pytest.fixture(scope="module")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty database of this version: a copy of it is made faster than another one."""
    path = tmp_path_factory.mktemp("migrated") / "rivermouth.db"
    open_database(path).dispose()
    return path


@pytest.fixture
def path(tmp_path: Path, migrated: Path) -> Path:
    copy = tmp_path / "rivermouth.db"
    shutil.copyfile(migrated, copy)
    return copy


@pytest.fixture(params=ADAPTERS.values(), ids=ADAPTERS.keys())
async def store(request: pytest.FixtureRequest, path: Path) -> AsyncIterator[KeptStore]:
    made: KeptStore = request.param(path)
    yield made
    await made.close()


async def test_what_was_put_is_there_as_it_was(store: KeptStore) -> None:
    rows = [kept(1), kept(2, owner=NOBODY, background=False), kept(3, ended_ns=None, last=0)]
    for row in rows:
        assert await store.put(row)
    for row in rows:
        assert await store.get(row.id, row.owner, NOW_NS) == row
    assert await store.get("resp_9", ANNA, NOW_NS) is None


async def test_an_answer_of_somebody_else_is_not_there(store: KeptStore) -> None:
    await store.put(kept(1))
    for other in (BOB, NOBODY, Owner("anna", None), Owner(None, "key_a"), Owner("anna", "key_b")):
        assert await store.get("resp_1", other, NOW_NS) is None
        assert await store.chain("resp_1", other, NOW_NS, 5, ROOM) == []
        assert await store.holding("resp_1", other, NOW_NS, 5) == []
        assert not await store.delete("resp_1", other, NOW_NS)
    assert await store.get("resp_1", ANNA, NOW_NS) == kept(1)


async def test_one_that_has_run_out_is_not_there(store: KeptStore) -> None:
    await store.put(kept(1))
    assert await store.get("resp_1", ANNA, LATER_NS - 1) is not None
    assert await store.get("resp_1", ANNA, LATER_NS) is None
    assert not await store.delete("resp_1", ANNA, LATER_NS)


async def test_an_id_is_put_once(store: KeptStore) -> None:
    await store.put(kept(1))
    assert not await store.put(kept(1, answer=b"{}"))
    assert await store.get("resp_1", ANNA, NOW_NS) == kept(1)


async def test_what_had_begun_is_finished_once(store: KeptStore) -> None:
    begun = kept(1, ended_ns=None, last=1, answer=b"{}")
    await store.put(begun)
    assert await store.unended() == [begun]
    assert await store.finish(kept(1))
    assert await store.unended() == []
    assert not await store.finish(kept(1, answer=b"[]"))
    assert await store.get("resp_1", ANNA, NOW_NS) == kept(1)


async def test_what_was_deleted_does_not_come_back(store: KeptStore) -> None:
    await store.put(kept(1, ended_ns=None))
    assert await store.delete("resp_1", ANNA, NOW_NS)
    assert not await store.delete("resp_1", ANNA, NOW_NS)
    assert not await store.finish(kept(1))
    assert await store.get("resp_1", ANNA, NOW_NS) is None


async def test_a_chain_ends_at_the_first_at_a_gap_and_at_its_bounds(store: KeptStore) -> None:
    rows = [kept(n) for n in range(1, 6)]
    for row in rows:
        await store.put(row)
    assert await store.chain("resp_5", ANNA, NOW_NS, 9, ROOM) == rows[::-1]
    assert await store.chain("resp_5", ANNA, NOW_NS, 2, ROOM) == rows[:2:-1]
    size = len(rows[4].input) + len(rows[4].answer)
    assert await store.chain("resp_5", ANNA, NOW_NS, 9, size) == rows[:2:-1]
    await store.delete("resp_3", ANNA, NOW_NS)
    assert await store.chain("resp_5", ANNA, NOW_NS, 9, ROOM) == rows[:2:-1]
    assert await store.chain("resp_3", ANNA, NOW_NS, 9, ROOM) == []


async def test_a_text_is_looked_for_in_the_newest_alone(store: KeptStore) -> None:
    for n in range(1, 5):
        await store.put(kept(n, answer=b'{"output":[{"id":"msg_%d"}]}' % (n % 2)))
    found = await store.holding("msg_1", ANNA, NOW_NS, 9)
    assert [row.id for row in found] == ["resp_3", "resp_1"]
    assert [row.id for row in await store.holding("msg_1", ANNA, NOW_NS, 3)] == ["resp_3"]
    assert [row.id for row in await store.holding("déjà 2", ANNA, NOW_NS, 9)] == ["resp_2"]
    assert await store.holding("msg_%", ANNA, NOW_NS, 9) == []


async def test_a_value_that_cannot_be_stored_says_so(store: KeptStore) -> None:
    with pytest.raises(StoreError):
        await store.put(kept(1, last=2**70))
    assert await store.put(kept(1))


async def test_what_is_erased_with_its_call_does_not_come_back(store: KeptStore, path: Path) -> None:
    calls, archive = SqliteCallStore.open(path), SqliteCallArchive.open(path)
    one, two = (kept(n, call_id=opened(n).id, previous=None) for n in (1, 2))
    calls.write((), (), [ended(opened(1, key_name="anna")), ended(opened(2, key_name="bob"))])
    await store.put(one)
    await store.put(two)
    gone = await asyncio.to_thread(archive.erase, CallFilter(key_name="anna"))
    assert (gone.calls, gone.answers) == (1, 1)
    assert await store.get(one.id, ANNA, NOW_NS) is None
    assert await store.get(two.id, ANNA, NOW_NS) == two
    assert not await store.put(one)
    assert await store.get(one.id, ANNA, NOW_NS) is None
    calls.dispose()
    archive.dispose()


@pytest.mark.fault("F16", "F30")
@pytest.mark.parametrize("background", [True, False])
@pytest.mark.parametrize(("status", "by"), [(Status.COMPLETED, None), (Status.CANCELLED, "request")])
async def test_a_call_that_is_not_closed_any_more_ended_with_its_answer(
    store: KeptStore, path: Path, background: bool, status: Status, by: str | None
) -> None:
    calls = SqliteCallStore.open(path)
    call, other = opened(1), opened(2)
    calls.insert_open([call, other])
    row = kept(1, call_id=call.id, previous=None, background=background)
    final = ended(call, status, cancelled_by=by)
    if background:
        await store.put(msgspec.structs.replace(row, ended_ns=None))
        assert await store.finish(row, final)
    else:
        assert await store.put(row, final)
    late = attempt(2, outcome=Outcome.INTERRUPTED, output_tokens=1, text_chars=1)
    calls.checkpoint([Checkpoint(call.id, 1, 1, True, late)])
    found = calls.get(call.id)
    assert found is not None
    assert found.status is Status.OPEN
    assert calls.interrupt_open() == 1
    found = calls.get(call.id)
    assert found == msgspec.structs.replace(
        final, attempts=tuple(msgspec.structs.replace(a, message=None) for a in final.attempts)
    )
    calls.dispose()


@pytest.mark.fault("F30")
async def test_the_record_itself_has_the_last_word(store: KeptStore, path: Path) -> None:
    calls = SqliteCallStore.open(path)
    call = opened(1)
    calls.insert_open([call])
    await store.put(kept(1, call_id=call.id, previous=None), ended(call, output_tokens=1, attempts=()))
    final = ended(call, Status.CANCELLED, cancelled_by="client")
    assert calls.close([final]) == 1
    assert await store.finish(kept(1, call_id=call.id), ended(call)) is False
    assert calls.interrupt_open() == 0
    assert calls.get(call.id) == final
    calls.dispose()


async def test_nothing_of_a_deleted_answer_is_left_on_the_disk(store: KeptStore, path: Path) -> None:
    secret = "mellifluous-quokka-" * 200
    await store.put(kept(1, answer=secret.encode()))
    await store.put(kept(2))
    assert await store.delete("resp_1", ANNA, NOW_NS)
    left = b"".join(file.read_bytes() for file in path.parent.iterdir())
    assert b"quokka" not in left
    assert b"resp_2" in left


async def test_a_store_that_cannot_be_written_says_so(path: Path) -> None:
    open_database(path).dispose()
    store = SqliteKeptStore(open_reader(path))
    with pytest.raises(StoreError):
        await store.put(kept(1))
    await store.close()

"""What every store of platform keys does.  The suite knows the port alone; `ADAPTERS` says over what it runs."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from rivermouth.config import Budget, RateLimits
from rivermouth.platform.budgets import subjects_of
from rivermouth.platform.terms import Subject
from rivermouth.store.archive import Keeping
from rivermouth.store.database import open_database
from rivermouth.store.platform.port import ChangeRow, KeyRow, LateRow, PlatformStore, Spent, SpentRow, Taken
from rivermouth.store.platform.sqlite import SqlitePlatformStore
from rivermouth.store.port import CallFilter, Status, StoreError
from rivermouth.store.sqlite import SqliteCallStore
from rivermouth.store.sqlite_archive import SqliteCallArchive
from tests.databases import laid
from tests.store.records import ended, opened

FILE = "rivermouth.db"
ADAPTERS: dict[str, Callable[[Path], PlatformStore]] = {
    "sqlite": lambda folder: SqlitePlatformStore(open_database(laid(folder / FILE))),
}
S = 1_000_000_000

CHANGE = ChangeRow(at_ns=5, who="cli:me", action="key.created", target="key_1", name="ci", after='{"role":"user"}')
FULL = KeyRow(
    id="key_1",
    name="ci",
    prefix="rmk_abcdefgh",
    digest="d1",
    old_digest="d0",
    old_until_ns=7,
    role="auditor",
    scopes=("generate", "models"),
    models=("gpt-*",),
    policy="eu",
    user="Zoë",
    resumable=True,
    limits=RateLimits(requests_per_minute=5),
    budget=Budget(amount=1.5, currency="EUR"),
    created_ns=1,
    created_by="cli:me",
    expires_ns=2**62,
    revoked_ns=3,
)
BARE = KeyRow(id="key_2", name="bare", prefix="rmk_b", digest="d2", created_ns=1, created_by="server")


pytestmark = pytest.mark.usefixtures("database")


@pytest.fixture(params=ADAPTERS.values(), ids=ADAPTERS.keys())
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[PlatformStore]:
    made = request.param(tmp_path)
    yield made
    made.dispose()


def test_a_key_keeps_every_field(store: PlatformStore) -> None:
    store.insert_key(FULL, CHANGE)
    store.insert_key(BARE, CHANGE)
    assert store.keys() == [FULL, BARE]


@pytest.mark.parametrize("same", ["id", "name", "digest"])
def test_nothing_of_a_key_is_there_twice(store: PlatformStore, same: str) -> None:
    store.insert_key(FULL, CHANGE)
    revision = store.revision()
    with pytest.raises(Taken):
        store.insert_key(msgspec.structs.replace(BARE, **{same: getattr(FULL, same)}), CHANGE)
    assert store.keys() == [FULL]
    assert (len(store.changes(10)), store.revision()) == (1, revision)


def test_a_change_is_made_to_the_version_that_was_read_or_not_at_all(store: PlatformStore) -> None:
    store.insert_key(FULL, CHANGE)
    after = msgspec.structs.replace(FULL, version=2, role="admin", scopes=None, budget=None)
    store.replace_key(after, CHANGE)
    assert store.keys() == [after]
    with pytest.raises(Taken):
        store.replace_key(msgspec.structs.replace(after, role="user"), CHANGE)
    with pytest.raises(Taken):
        store.replace_key(msgspec.structs.replace(BARE, version=2), CHANGE)
    assert store.keys() == [after]
    assert len(store.changes(10)) == 2


def test_when_a_key_was_used_is_no_change(store: PlatformStore) -> None:
    store.insert_key(BARE, CHANGE)
    revision = store.revision()
    store.touch({"key_2": 50, "key_none": 60})
    store.touch({"key_2": 40})
    assert store.keys() == [msgspec.structs.replace(BARE, last_used_ns=50)]
    assert (len(store.changes(10)), store.revision()) == (1, revision)
    store.replace_key(msgspec.structs.replace(BARE, version=2, user="me"), CHANGE)
    assert store.keys()[0].last_used_ns == 50


def test_every_change_of_keys_is_a_new_revision(store: PlatformStore) -> None:
    seen = [store.revision()]
    store.insert_key(FULL, CHANGE)
    seen.append(store.revision())
    store.replace_key(msgspec.structs.replace(FULL, version=2), CHANGE)
    seen.append(store.revision())
    assert seen == sorted(set(seen))


def test_the_log_of_changes_is_read_newest_first_page_by_page(store: PlatformStore) -> None:
    for number in range(5):
        store.add_change(msgspec.structs.replace(CHANGE, at_ns=number, target=f"key_{number % 2}"))
    page = store.changes(2)
    assert [c.at_ns for c in page] == [4, 3]
    assert [c.at_ns for c in store.changes(9, before=page[-1].seq)] == [2, 1, 0]
    assert [c.at_ns for c in store.changes(9, target="key_1")] == [3, 1]
    assert store.changes(1)[0] == msgspec.structs.replace(CHANGE, at_ns=4, target="key_0", seq=page[0].seq)


def test_what_cannot_be_stored_is_an_error_in_the_ports_words(store: PlatformStore) -> None:
    with pytest.raises(StoreError):
        store.insert_key(msgspec.structs.replace(BARE, user="\ud83d"), CHANGE)
    assert store.keys() == []


def test_what_was_spent_is_summed_from_the_records(store: PlatformStore, tmp_path: Path) -> None:
    calls = SqliteCallStore.open(tmp_path / FILE)
    made = [
        ended(opened(10, key_name="a"), price_nano=5, policy_id="eu", ended_ns=S),
        ended(opened(11, key_name="a"), Status.CANCELLED, price_nano=6, policy_id="eu", ended_ns=S),
        ended(opened(12, key_name="a"), price_nano=7, price_currency="USD", policy_id="eu", ended_ns=S),
        ended(opened(13, key_name=None), price_nano=8, policy_id=None, ended_ns=S),
        ended(opened(14, key_name="a"), price_nano=None, price_currency=None, ended_ns=S),
        ended(opened(15, key_name="a"), price_nano=9, policy_id="eu", ended_ns=10 * S),
        ended(opened(9, key_name="a"), price_nano=100, ended_ns=S),
        ended(opened(20, key_name="a"), price_nano=100, ended_ns=S),
    ]
    calls.close(made)
    calls.insert_open([opened(16, key_name="a"), opened(17, key_name="a")])
    assert calls.interrupt_open() == 2
    calls.dispose()
    found = store.spent(10 * S, 20 * S, 20 * S)
    assert sorted(found.sums, key=lambda r: r.nano) == [
        SpentRow(key_name="a", policy_id="eu", currency="USD", nano=7),
        SpentRow(key_name=None, policy_id=None, currency="EUR", nano=8),
        SpentRow(key_name="a", policy_id="eu", currency="EUR", nano=11),
    ]
    assert list(found.late) == [
        LateRow(key_name="a", policy_id="eu", currency="EUR", nano=9, call_id=opened(15).id),
    ]
    assert store.spent(30 * S, 40 * S, 0) == Spent([], [])


@pytest.mark.parametrize("how", ["deleted", "erased"])
def test_no_budget_grows_by_forgetting(store: PlatformStore, tmp_path: Path, how: str) -> None:
    now_ns = time.time_ns()
    fields = {"price_nano": 5, "policy_id": "eu", "ended_ns": 1}
    calls = SqliteCallStore.open(tmp_path / FILE)
    calls.close([ended(opened(n, key_name="a", started_ns=now_ns - n), **fields) for n in (1, 2)])
    calls.dispose()
    before = store.spent(now_ns - 900 * S, now_ns, now_ns + S)
    archive = SqliteCallArchive(open_database(tmp_path / FILE))
    if how == "deleted":
        archive.purge(Keeping(calls_since_ns=now_ns))
    else:
        assert archive.erase(CallFilter(key_name="a")).calls == 2
    archive.dispose()
    after = store.spent(now_ns - 900 * S * 2, now_ns, now_ns + S)
    for subject in (Subject("key", "a"), Subject("policy", "eu")):
        paid = [sum(row.nano for row in each.sums if subject in subjects_of(row)) for each in (before, after)]
        assert paid == [10, 10], subject
    store.forget(now_ns)
    assert all(row.key_name != "a" for row in store.spent(0, now_ns, now_ns).sums)


def test_two_processes_write_and_each_sees_the_others_changes(tmp_path: Path) -> None:
    ours, theirs = ADAPTERS["sqlite"](tmp_path), ADAPTERS["sqlite"](tmp_path)
    before = ours.revision()
    theirs.insert_key(FULL, CHANGE)
    assert ours.revision() > before
    assert ours.keys() == [FULL]
    ours.dispose()
    theirs.dispose()


@pytest.mark.parametrize("statement", ["DELETE FROM platform_changes", "UPDATE platform_changes SET who = 'nobody'"])
def test_the_database_itself_keeps_the_log_of_changes_from_being_changed(tmp_path: Path, statement: str) -> None:
    store = ADAPTERS["sqlite"](tmp_path)
    store.insert_key(FULL, CHANGE)
    with sqlite3.connect(tmp_path / FILE) as raw, pytest.raises(sqlite3.IntegrityError, match="only be added to"):
        raw.execute(statement)
    raw.close()
    assert [c.who for c in store.changes(10)] == ["cli:me"]
    store.dispose()

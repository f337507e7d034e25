"""What every archive of calls does, over every adapter; and what is SQLite's own: plans, and what is left on disk."""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import event

from rivermouth.ir.errors import Kind
from rivermouth.store.archive import (
    DAYS_CAP,
    ERASED,
    WALK_ROWS,
    CallArchive,
    Day,
    Erased,
    Group,
    Keeping,
    Place,
    Purged,
    Sums,
)
from rivermouth.store.database import open_database
from rivermouth.store.kept.sqlite import SqliteKeptStore
from rivermouth.store.port import CallFilter, CallRecord, CallText, Said, Status, StoreError
from rivermouth.store.pseudonyms import Pseudonyms
from rivermouth.store.sqlite import SqliteCallStore
from rivermouth.store.sqlite_archive import SqliteCallArchive
from tests.databases import laid
from tests.kept.rows import kept
from tests.store.records import attempt, ended, opened

ADAPTERS: dict[str, Callable[[Path], tuple[SqliteCallStore, CallArchive]]] = {
    "sqlite": lambda path: (SqliteCallStore.open(laid(path)), SqliteCallArchive.open(path)),
}
SECOND: Final = 1_000_000_000


class Both:
    """A store that records, and its archive."""

    def __init__(self, store: SqliteCallStore, archive: CallArchive, path: Path) -> None:
        self.store = store
        self.archive = archive
        self.path = path

    def has(self, *calls: CallRecord, texts: tuple[CallText, ...] = ()) -> None:
        """These have happened."""
        self.store.write((), (), [c for c in calls if c.status is not Status.OPEN], texts)
        self.store.insert_open([c for c in calls if c.status is Status.OPEN])

    def ids(self, where: CallFilter = CallFilter(), limit: int = 3) -> list[str]:  # noqa: B008 - a frozen value
        """Every id that whoever follows the pages meets."""
        found: list[str] = []
        after: Place | None = None
        while True:
            page = self.archive.page(limit, where, after)
            assert len(page.calls) <= limit
            found += [call.id for call in page.calls]
            if page.next is None:
                return found
            after = page.next

    def close(self) -> None:
        self.store.dispose()
        self.archive.dispose()

    def __enter__(self) -> Both:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


Make = Callable[[], Both]


@pytest.fixture(scope="module")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty database of this version: a copy of it is made faster than another one."""
    path = tmp_path_factory.mktemp("migrated") / "rivermouth.db"
    SqliteCallStore.open(laid(path)).dispose()
    return path


@pytest.fixture(params=ADAPTERS.values(), ids=ADAPTERS.keys())
def make(request: pytest.FixtureRequest, tmp_path: Path, migrated: Path) -> Make:
    """Makes another one, empty."""
    numbers = count()

    def made() -> Both:
        path = tmp_path / f"{next(numbers)}.db"
        shutil.copyfile(migrated, path)
        return Both(*request.param(path), path)

    return made


@pytest.fixture
def both(make: Make) -> Iterator[Both]:
    with make() as made:
        yield made


def text(number: int, prompt: str = "what is a river", answer: str = "water that goes") -> CallText:
    call = opened(number)
    return CallText(call.id, call.started_ns, (Said("user", prompt),), answer)


def done(number: int, status: Status = Status.COMPLETED, **fields: Any) -> CallRecord:
    """A call that has ended; fields of the open row and of the end."""
    own = {name: fields.pop(name) for name in ("key_name", "end_user", "model_asked", "started_ns") if name in fields}
    return ended(opened(number, **own), status, **fields)


# -- pages


def test_pages_are_newest_first_and_each_call_is_on_one(both: Both):
    both.has(*(done(n) for n in range(1, 11)))
    assert both.ids() == [opened(n).id for n in range(10, 0, -1)]


def test_calls_of_one_moment_are_not_lost_between_two_pages(both: Both):
    both.has(*(done(n, started_ns=7) for n in range(1, 11)))
    assert both.ids() == [opened(n).id for n in range(10, 0, -1)]


@given(st.lists(st.integers(1, 30), min_size=1, max_size=30, unique=True), st.lists(st.integers(31, 60), max_size=10))
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_pages_are_stable_under_inserts(make: Make, first: list[int], later: list[int]):
    """Whoever pages meets what was there at the first page, each once, whatever is added meanwhile."""
    with make() as both:
        both.has(*(done(n) for n in first))
        added = iter(dict.fromkeys(later))
        met: list[str] = []
        page = both.archive.page(2)
        while True:
            met += [call.id for call in page.calls]
            if page.next is None:
                break
            both.has(*(done(n) for n in [next(added, None)] if n is not None))
            page = both.archive.page(2, after=page.next)
        assert met == [opened(n).id for n in sorted(first, reverse=True)]


def test_a_page_has_its_calls_whole(both: Both):
    both.has(done(1), opened(2))
    assert list(both.archive.page(5).calls) == [opened(2), done(1)]
    assert both.archive.get(opened(1).id) == done(1)
    assert both.archive.get("none") is None


FILTERED: Final[dict[str, tuple[CallFilter, set[int]]]] = {
    "status": (CallFilter(status=Status.CANCELLED), {2}),
    "completed": (CallFilter(status=Status.COMPLETED), {1, 4, 5, 6}),
    "open": (CallFilter(status=Status.OPEN), {7}),
    "kind": (CallFilter(kind=Kind.TIMEOUT), {3}),
    "model asked": (CallFilter(model="gpt-y"), {4}),
    "model used": (CallFilter(model="other"), {5}),
    "provider": (CallFilter(provider="else"), {5}),
    "endpoint": (CallFilter(endpoint_id="else-eu"), {5}),
    "policy": (CallFilter(policy="eu"), {1, 6}),
    "half of a policy's name": (CallFilter(policy="e"), set()),
    "a policy's name is no pattern": (CallFilter(policy="_u"), set()),
    "key": (CallFilter(key_name="bob"), {6}),
    "key and status": (CallFilter(key_name="bob", status=Status.FAILED), set()),
    "end user": (CallFilter(end_user="0a1b"), {4}),
    "since": (CallFilter(since_ns=6 * SECOND), {6, 7}),
    "until": (CallFilter(until_ns=2 * SECOND), {1}),
    "between": (CallFilter(since_ns=2 * SECOND, until_ns=4 * SECOND), {2, 3}),
}


@pytest.mark.parametrize(("where", "wanted"), FILTERED.values(), ids=FILTERED.keys())
def test_a_filter_takes_what_it_says(both: Both, where: CallFilter, wanted: set[int]):
    both.has(
        done(1, policy_id="eu"),
        done(2, Status.CANCELLED, cancelled_by="client"),
        done(3, Status.FAILED, kind=Kind.TIMEOUT),
        done(4, model_asked="gpt-y", end_user="0a1b"),
        done(5, provider="else", endpoint_id="else-eu", model_used="other"),
        done(6, key_name="bob", policy_id="narrow+eu"),
        opened(7),
    )
    assert set(both.ids(where)) == {opened(n).id for n in wanted}


# -- texts


def test_a_text_is_kept_once_and_only_beside_its_call(both: Both):
    both.has(done(1), texts=(text(1), text(9)))
    both.store.write((), (), (), [text(1, answer="another")])
    assert both.archive.text(opened(1).id) == text(1)
    assert both.archive.text(opened(9).id) is None


# -- sums

CALLS = st.builds(
    done,
    st.integers(1, 40),
    st.sampled_from([s for s in Status if s is not Status.OPEN]),
    key_name=st.sampled_from([None, "bob", "eve"]),
    provider=st.sampled_from(["lab", "else", None]),
    model_used=st.sampled_from(["m", "n", None]),
    policy_id=st.sampled_from([None, "eu", "a+b"]),
    input_tokens=st.one_of(st.none(), st.integers(0, 1000)),
    output_tokens=st.one_of(st.none(), st.integers(0, 1000)),
    price_nano=st.one_of(st.none(), st.integers(0, 10**12)),
    price_currency=st.sampled_from(["EUR", "USD", None]),
    price_estimated=st.booleans(),
    estimated=st.booleans(),
    at_least=st.booleans(),
    attempts=st.just(()),
)
DAYS: Final = tuple(Day(f"day {n}", n * 10 * SECOND, (n + 1) * 10 * SECOND) for n in range(5))

GROUPED: Final[dict[Group, Callable[[CallRecord], str | None]]] = {
    Group.DAY: lambda c: f"day {c.started_ns // (10 * SECOND)}",
    Group.MODEL: lambda c: f"{c.provider}/{c.model_used}" if c.provider and c.model_used else c.model_asked,
    Group.KEY: lambda c: c.key_name,
    Group.PROVIDER: lambda c: c.provider,
    Group.ENDPOINT: lambda c: c.endpoint_id,
    Group.POLICY: lambda c: c.policy_id,
    Group.STATUS: lambda c: c.status.value,
}


@pytest.mark.promise(74, 75)
@given(st.lists(CALLS, max_size=25, unique_by=lambda c: c.id), st.sets(st.sampled_from(Group)))
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_sums_are_the_sums_of_the_records(make: Make, calls: list[CallRecord], by: set[Group]):
    with make() as both:
        both.has(*calls)
        groups = sorted(by)
        wanted: dict[tuple[Any, ...], list[CallRecord]] = {}
        for call in calls:
            key = (tuple(GROUPED[g](call) for g in groups), call.status, call.price_currency)
            wanted.setdefault(key, []).append(call)
        found = both.archive.sums(groups, DAYS)
        assert {(s.group, s.status, s.currency): s for s in found} == {
            key: Sums(
                group=key[0],
                status=key[1],
                currency=key[2],
                calls=len(mine),
                input_tokens=sum(c.input_tokens or 0 for c in mine),
                output_tokens=sum(c.output_tokens or 0 for c in mine),
                cached_tokens=sum(c.cached_tokens or 0 for c in mine),
                reasoning_tokens=sum(c.reasoning_tokens or 0 for c in mine),
                price_nano=sum(c.price_nano or 0 for c in mine),
                priced=sum(c.price_nano is not None for c in mine),
                price_estimated=sum(c.price_estimated for c in mine),
                estimated=sum(c.estimated for c in mine),
                at_least=sum(c.at_least for c in mine),
            )
            for key, mine in wanted.items()
        }


def test_sums_by_day_are_of_the_days_that_were_meant(both: Both):
    both.has(*(done(n) for n in (5, 15, 25)))
    assert [(s.group, s.calls) for s in both.archive.sums([Group.DAY], DAYS[:2])] == [(("day 0",), 1), (("day 1",), 1)]
    assert both.archive.sums([Group.DAY], ()) == ()
    with pytest.raises(StoreError, match="days"):
        both.archive.sums([Group.DAY], DAYS[:1] * (DAYS_CAP + 1))
    many = tuple(Day(str(n), n, n + 1) for n in range(DAYS_CAP))
    assert both.archive.sums([Group.DAY], many) == []


def test_no_more_sums_come_than_were_asked_for(both: Both):
    both.has(*(done(n, key_name=f"k{n}") for n in range(5)))
    assert len(both.archive.sums([Group.KEY], (), CallFilter(), 3)) == 3


# -- what is erased


def test_what_is_erased_leads_nowhere_and_leaves_every_sum(both: Both):
    mine = done(1, Status.FAILED, message="bob@example.org is no user", key_name="bob", end_user="0a1b")
    both.has(mine, done(2, key_name="eve"), texts=(text(1), text(2)))
    before = both.archive.sums([Group.STATUS, Group.MODEL], ())
    assert both.archive.erase(CallFilter(end_user="0a1b")) == Erased(calls=1, texts=1, running=0)
    assert both.archive.sums([Group.STATUS, Group.MODEL], ()) == before
    left = both.archive.get(mine.id)
    assert left == msgspec.structs.replace(
        mine,
        message=None,
        key_name=ERASED,
        end_user=None,
        client_request_id=None,
        erased=True,
        attempts=tuple(msgspec.structs.replace(a, message=None) for a in mine.attempts),
    )
    assert both.archive.text(mine.id) is None
    assert both.archive.get(opened(2).id) == done(2, key_name="eve")
    assert both.archive.text(opened(2).id) == text(2)
    assert both.archive.erase(CallFilter(end_user="0a1b")) == Erased(0, 0, 0)


def test_a_call_that_runs_is_erased_when_it_has_ended(both: Both):
    both.has(opened(1, key_name="bob"), opened(2, key_name=None))
    assert both.archive.erase(CallFilter(key_name="bob")) == Erased(calls=0, texts=0, running=1)
    both.has(done(1, key_name="bob"))
    assert both.archive.erase(CallFilter(key_name="bob")) == Erased(calls=1, texts=0, running=0)


def test_a_call_without_a_key_gets_none_when_it_is_erased(both: Both):
    both.has(done(1, key_name=None, end_user="0a1b"))
    both.archive.erase(CallFilter(end_user="0a1b"))
    left = both.archive.get(opened(1).id)
    assert left is not None
    assert (left.key_name, left.erased) == (None, True)


# -- what is purged


def test_old_records_go_with_all_that_is_theirs_and_running_calls_stay(both: Both):
    both.has(done(1), done(2), opened(3), done(9), texts=(text(1), text(9)))
    assert both.archive.purge(Keeping(calls_since_ns=8 * SECOND)) == Purged(calls=2, texts=0)
    assert both.ids() == [opened(9).id, opened(3).id]
    assert both.archive.text(opened(1).id) is None
    assert both.archive.text(opened(9).id) == text(9)
    assert both.archive.purge(Keeping(calls_since_ns=8 * SECOND)) == Purged(0, 0)


KEPT: Final[dict[str, tuple[Keeping, set[int]]]] = {
    "all": (Keeping(), {1, 2, 3}),
    "none": (Keeping(texts=False), set()),
    "young ones": (Keeping(texts_since_ns=2 * SECOND), {2, 3}),
    "not of a policy": (Keeping(mute_policies=("eu",)), {2, 3}),
    "not of half a policy's name": (Keeping(mute_policies=("e", "u")), {1, 2, 3}),
    "not of where it was asked last": (Keeping(mute_endpoints=("else-eu",)), {1, 3}),
    "nor of where it was asked first": (Keeping(mute_endpoints=("first",)), {1, 2}),
}


@pytest.mark.parametrize(("keeping", "wanted"), KEPT.values(), ids=KEPT.keys())
def test_texts_go_that_may_not_be_there(both: Both, keeping: Keeping, wanted: set[int]):
    both.has(
        done(1, policy_id="narrow+eu"),
        done(2, endpoint_id="else-eu"),
        done(3, attempts=(attempt(1, endpoint_id="first"), attempt(2))),
        texts=(text(1), text(2), text(3)),
    )
    assert both.archive.purge(keeping).texts == 3 - len(wanted)
    assert {n for n in (1, 2, 3) if both.archive.text(opened(n).id) is not None} == wanted
    assert len(both.ids()) == 3


ANSWERS: Final[dict[str, tuple[Keeping, set[int]]]] = {
    "all": (Keeping(), {1, 2, 3, 4}),
    "none, but of a call that runs": (Keeping(answers=False), {4}),
    "young ones": (Keeping(answers_since_ns=2), {2, 3, 4}),
    "whose time has not come": (Keeping(now_ns=20), {2, 3, 4}),
    "not of a policy": (Keeping(mute_policies=("eu",)), {2, 3, 4}),
    "not of where it was asked": (Keeping(mute_endpoints=("else-eu", "first")), {1, 4}),
    "of a policy, for a while": (Keeping(answers_of_policies={"eu": 1, "else": 9}), {1, 2, 3, 4}),
    "of a policy, no longer": (Keeping(answers_of_policies={"eu": 2}), {2, 3, 4}),
    "of an endpoint, no longer": (Keeping(answers_of_endpoints={"first": 9}), {1, 2, 4}),
    "of calls that are there": (Keeping(calls_since_ns=2 * SECOND), {2, 3, 4}),
}


@pytest.mark.parametrize(("keeping", "wanted"), ANSWERS.values(), ids=ANSWERS.keys())
@pytest.mark.anyio
async def test_answers_go_that_may_not_be_there(both: Both, keeping: Keeping, wanted: set[int]) -> None:
    both.has(
        done(1, policy_id="narrow+eu"),
        done(2, endpoint_id="else-eu"),
        done(3, attempts=(attempt(1, endpoint_id="first"), attempt(2))),
        opened(4),
    )
    answers = SqliteKeptStore(open_database(both.path), inline=True)
    for number in range(1, 5):
        ended_ns = None if number == 4 else 5
        row = kept(number, call_id=opened(number).id, expires_ns=19 + number, ended_ns=ended_ns)
        await answers.put(row)
    both.archive.purge(keeping)
    there = {n for n in range(1, 5) if await answers.get(f"resp_{n}", kept(n).owner, 0) is not None}
    await answers.close()
    assert there == wanted


def test_more_is_deleted_than_one_transaction_takes(both: Both):
    both.has(*(done(n, attempts=(attempt(1),)) for n in range(1, 1202)), texts=tuple(text(n) for n in range(1, 1202)))
    assert both.archive.purge(Keeping(texts=False)) == Purged(calls=0, texts=1201)
    assert both.archive.erase(CallFilter()) == Erased(calls=1201, texts=0, running=0)
    assert both.archive.purge(Keeping(calls_since_ns=10**18)) == Purged(calls=1201, texts=0)
    assert both.ids() == []


@pytest.mark.parametrize("how", ["purged", "erased"])
def test_nothing_of_a_deleted_text_is_left_on_the_disk(both: Both, how: str):
    secret = "mellifluous-quokka-" * 200
    both.has(done(1, end_user="0a1b"), done(2), texts=(text(1, secret, secret), text(2)))
    assert b"mellifluous-quokka" in _on_disk(both.path)
    if how == "purged":
        both.archive.purge(Keeping(texts=False))
    else:
        both.archive.erase(CallFilter(end_user="0a1b"))
    assert b"mellifluous-quokka" not in _on_disk(both.path)


def _on_disk(path: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(path.parent.glob(path.name + "*")))


# -- the rest


def test_a_fact_is_what_was_said_first(both: Both):
    assert both.archive.fact("a", "1") == "1"
    assert both.archive.fact("a", "2") == "1"
    assert both.archive.fact("b", "2") == "2"


def test_a_pseudonym_is_the_same_for_the_same_user_and_key():
    one = Pseudonyms("a key")
    assert one.of("bob@example.org") == one.of("bob@example.org")
    assert len({one.of("bob"), one.of("eve"), Pseudonyms("another").of("bob")}) == 3
    assert "bob" not in one.of("bob")
    assert len(one.of("half an emoji \ud83c")) == 32


def test_a_reader_reads_and_writes_nothing(both: Both):
    both.has(done(1), texts=(text(1),))
    reader = SqliteCallArchive.reader(both.path)
    assert [call.id for call in reader.page(5).calls] == [opened(1).id]
    for write in (lambda: reader.purge(Keeping(texts=False)), lambda: reader.erase(CallFilter())):
        with pytest.raises(StoreError):
            write()
    reader.dispose()


# -- SQLite's own

PLANNED: Final[dict[str, tuple[CallFilter, str]]] = {
    "all": (CallFilter(), "calls_started"),
    "completed": (CallFilter(status=Status.COMPLETED), "calls_started"),
    "cancelled": (CallFilter(status=Status.CANCELLED), "calls_not_completed"),
    "kind": (CallFilter(kind=Kind.TIMEOUT), "calls_not_completed"),
    "key": (CallFilter(key_name="bob"), "calls_of_key"),
    "key, model": (CallFilter(key_name="bob", model="m"), "calls_of_key"),
    "model": (CallFilter(model="m"), "calls_started"),
    "provider": (CallFilter(provider="p"), "calls_started"),
    "time": (CallFilter(since_ns=5, until_ns=9), "calls_started"),
}


@pytest.mark.parametrize("after", [None, Place(5, 5)], ids=["first", "further"])
@pytest.mark.parametrize(("where", "index"), PLANNED.values(), ids=PLANNED.keys())
def test_a_page_walks_along_an_index_and_sorts_nothing(both: Both, where: CallFilter, index: str, after: Place | None):
    found, end, *_ = _plans(both, lambda archive: archive.page(50, where, after))
    for plan in (found, end):
        (line,) = (line for line in plan if " calls " in line)
        assert f"INDEX {index}" in line
        assert not any("TEMP B-TREE" in line for line in plan), plan


def test_the_calls_of_a_user_are_found_by_an_index(both: Both):
    both.has(done(1, end_user="0a1b"))
    plans = _plans(both, lambda archive: archive.erase(CallFilter(end_user="0a1b")))
    assert any("calls_of_end_user" in line for line in plans[0])
    assert not [line for plan in plans for line in plan if line.startswith(("SCAN calls", "SCAN attempts"))], plans


def _plans(both: Both, ask: Callable[[SqliteCallArchive], object]) -> list[list[str]]:
    """How SQLite does what is asked, statement by statement."""
    archive = SqliteCallArchive.open(both.path)
    asked: list[tuple[str, Any]] = []
    event.listen(
        archive._engine,
        "before_cursor_execute",
        lambda connection, cursor, statement, parameters, context, many: asked.append((statement, parameters)),
    )
    ask(archive)
    archive.dispose()
    raw = sqlite3.connect(both.path)
    planned = [(s, p) for s, p in asked if s.startswith(("SELECT", "UPDATE", "DELETE"))]
    plans = [[row[3] for row in raw.execute(f"EXPLAIN QUERY PLAN {s}", p)] for s, p in planned]
    raw.close()
    return plans


def test_a_page_looks_at_a_bounded_part_of_many_calls(both: Both):
    """A filter that nothing passes gives empty pages with a place to go on from, until the calls are at their end."""
    bare = done(1, attempts=(), decisions=(), ignored=(), message=None)
    total = 2 * WALK_ROWS + 10
    raw = sqlite3.connect(both.path)
    both.has(bare)
    names = [row[1] for row in raw.execute("PRAGMA table_info(calls)") if row[1] not in ("seq", "id", "started_ns")]
    raw.execute(
        "WITH RECURSIVE n(n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM n WHERE n < ?)"
        f" INSERT INTO calls (id, started_ns, {', '.join(names)})"
        f" SELECT printf('req_%032x', n), n * 1000, {', '.join(names)} FROM n, calls",
        (total,),
    )
    raw.commit()
    raw.close()
    where = CallFilter(provider="nobody")
    first = both.archive.page(50, where)
    assert first.calls == ()
    assert first.next is not None
    second = both.archive.page(50, where, first.next)
    assert second.calls == ()
    assert second.next is not None
    third = both.archive.page(50, where, second.next)
    assert (third.calls, third.next) == ((), None)
    spent = min(_timed(lambda: both.archive.page(50, where)) for _ in range(3))
    assert spent < 1.0, "a page of many calls is no scan of them all"
    assert sum(s.calls for s in both.archive.sums([], ())) == total


def _timed(work: Callable[[], object]) -> float:
    before = time.perf_counter()
    work()
    return time.perf_counter() - before

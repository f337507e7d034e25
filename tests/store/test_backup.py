"""A copy of the database is whole or is not there; and putting one back never leaves nothing."""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rivermouth.store.backup import KEPT, backup, judge, restore, schema_at
from rivermouth.store.database import open_database
from rivermouth.store.migrations import known
from rivermouth.store.port import StoreError
from rivermouth.store.sqlite import SqliteCallStore
from rivermouth.store.tables import HEAD
from tests.store.records import ended, opened


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database with three calls, as a server leaves it."""
    (tmp_path / "data").mkdir()
    path = tmp_path / "data" / "rivermouth.db"
    write(path, 1, 2, 3)
    return path


def write(path: Path, *numbers: int) -> None:
    store = SqliteCallStore.open(path)
    calls = [opened(number) for number in numbers]
    store.insert_open(calls)
    store.close([ended(call) for call in calls])
    store.dispose()


def numbers(path: Path) -> list[int]:
    store = SqliteCallStore.reader(path)
    try:
        return sorted(call.started_ns // 1_000_000_000 for call in store.list(100_000))
    finally:
        store.dispose()


def names(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir()}


def test_a_backup_is_one_whole_file_that_only_its_owner_reads(path: Path, tmp_path: Path) -> None:
    target = tmp_path / "copies" / "one.db"
    target.parent.mkdir()
    made = backup(path, target)
    assert (made.file, made.schema, made.size_bytes) == (str(target), HEAD, target.stat().st_size)
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert names(target.parent) == {"one.db"}
    assert numbers(target) == [1, 2, 3]


def test_a_backup_beside_a_writer_is_of_one_moment(path: Path, tmp_path: Path) -> None:
    """Each transaction writes two rows: a copy has both or neither, and the writer is never kept waiting."""
    store = SqliteCallStore.open(path)
    over, failed = threading.Event(), list[BaseException]()
    written = 10

    def writing() -> None:
        nonlocal written
        try:
            while not over.is_set():
                store.insert_open([opened(written), opened(written + 1)])
                written += 2
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=writing)
    thread.start()
    try:
        found = []
        for number in range(3):
            target = tmp_path / f"{number}.db"
            backup(path, target)
            found.append(numbers(target))
    finally:
        over.set()
        thread.join()
        store.dispose()
    assert not failed
    for one in found:
        assert (len(one) - 3) % 2 == 0
        assert one[3:] == list(range(10, 10 + len(one) - 3))
    assert found[0] != found[-1]


def test_a_backup_takes_what_is_still_in_the_log(path: Path, tmp_path: Path) -> None:
    store = SqliteCallStore.open(path)
    store.insert_open([opened(4)])
    assert path.with_name("rivermouth.db-wal").stat().st_size > 0
    backup(path, tmp_path / "copy.db")
    store.dispose()
    assert numbers(tmp_path / "copy.db") == [1, 2, 3, 4]


def test_nothing_is_written_over(path: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy.db"
    target.write_bytes(b"mine")
    with pytest.raises(StoreError, match="exists already"):
        backup(path, target)
    assert target.read_bytes() == b"mine"
    with pytest.raises(StoreError, match="No such file"):
        backup(path, tmp_path / "nowhere" / "copy.db")
    with pytest.raises(StoreError, match="there is no database"):
        backup(tmp_path / "nothing.db", tmp_path / "copy2.db")
    assert names(tmp_path) == {"data", "copy.db"}


def test_nor_what_comes_while_the_copy_is_made(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "copy.db"

    def judged(part: Path) -> Any:
        target.write_bytes(b"somebody else's")
        return judge(part)

    monkeypatch.setattr("rivermouth.store.backup.judge", judged)
    with pytest.raises(StoreError, match="File exists"):
        backup(path, target)
    assert target.read_bytes() == b"somebody else's"
    assert names(tmp_path) == {"data", "copy.db"}


def test_a_file_system_without_links_will_do(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*names: Any) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", no_links)
    backup(path, tmp_path / "copy.db")
    assert numbers(tmp_path / "copy.db") == [1, 2, 3]
    write(path, 4)
    _, kept = restore(tmp_path / "copy.db", path)
    assert kept is not None
    assert (numbers(path), numbers(kept)) == ([1, 2, 3], [1, 2, 3, 4])


def test_a_damaged_database_is_not_published(path: Path, tmp_path: Path) -> None:
    damage(path)
    with pytest.raises(StoreError):
        backup(path, tmp_path / "copy.db")
    assert names(tmp_path) == {"data"}


def damage(path: Path) -> None:
    """Nonsense in the middle of the file, where its pages are."""
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(size // 3)
        file.write(b"\x5a" * (size // 3))


@pytest.fixture
def copy(path: Path, tmp_path: Path) -> Path:
    """A backup of that database, which has gone on since."""
    backup(path, tmp_path / "copy.db")
    write(path, 4)
    return tmp_path / "copy.db"


def test_what_is_put_back_is_the_database_and_what_was_is_kept(path: Path, copy: Path) -> None:
    judged, kept = restore(copy, path)
    assert kept == path.with_name("rivermouth.db" + KEPT)
    assert judged.file == str(path)
    assert (numbers(path), numbers(kept)) == ([1, 2, 3], [1, 2, 3, 4])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    write(path, 5)
    _, again = restore(copy, path)
    assert again == path.with_name("rivermouth.db" + KEPT + "-2")
    assert (numbers(path), numbers(kept), numbers(again)) == ([1, 2, 3], [1, 2, 3, 4], [1, 2, 3, 5])
    assert names(path.parent) == {"rivermouth.db", kept.name, again.name}


def test_where_there_was_none_none_is_kept(tmp_path: Path, copy: Path) -> None:
    place = tmp_path / "new"
    place.mkdir()
    assert restore(copy, place / "rivermouth.db")[1] is None
    assert numbers(place / "rivermouth.db") == [1, 2, 3]
    assert names(place) == {"rivermouth.db"}


def test_the_log_of_what_was_is_not_taken_for_that_of_what_is(path: Path, copy: Path) -> None:
    """As a killed server leaves it: with rows in the log that the file has not."""
    raw = sqlite3.connect(path)
    raw.execute("PRAGMA wal_autocheckpoint=0")
    raw.execute("UPDATE calls SET model_asked = 'from the log'")
    raw.commit()
    sides = {side: path.with_name(path.name + side).read_bytes() for side in ("-wal", "-shm")}
    whole = path.read_bytes()
    raw.close()
    path.write_bytes(whole)
    for side, data in sides.items():
        path.with_name(path.name + side).write_bytes(data)
    _, kept = restore(copy, path)
    assert kept is not None
    assert numbers(path) == [1, 2, 3]
    with sqlite3.connect(kept) as raw:
        assert raw.execute("SELECT DISTINCT model_asked FROM calls").fetchall() == [("from the log",)]
    raw.close()
    assert names(path.parent) == {"rivermouth.db", kept.name}


def test_a_damaged_database_gives_way_and_is_kept_as_it_is(path: Path, copy: Path) -> None:
    path.write_bytes(b"this is no database")
    path.with_name(path.name + "-wal").write_bytes(b"nor is this its log")
    _, kept = restore(copy, path)
    assert kept is not None
    assert kept.read_bytes() == b"this is no database"
    assert kept.with_name(kept.name + "-wal").read_bytes() == b"nor is this its log"
    assert numbers(path) == [1, 2, 3]


def newer(file: Path) -> None:
    with sqlite3.connect(file) as raw:
        raw.execute("UPDATE alembic_version SET version_num = 'from_the_future'")
    raw.close()


def another(file: Path) -> None:
    file.unlink()
    with sqlite3.connect(file) as raw:
        raw.execute("CREATE TABLE songs (title TEXT)")
    raw.close()


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (newer, "its schema is from_the_future, which only another version of this program knows"),
        (another, "is not a database of this program"),
        (damage, "damaged|malformed"),
        (lambda file: file.write_bytes(file.read_bytes()[:-5000]), "damaged|malformed"),
        (lambda file: file.write_bytes(b"nonsense" * 1000), "not a database"),
        (lambda file: file.write_bytes(b""), "is not a database of this program"),
        (lambda file: file.unlink(), "unable to open"),
    ],
    ids=["newer", "another's", "damaged", "cut", "nonsense", "empty", "gone"],
)
def test_what_cannot_be_used_is_refused_before_anything_is_touched(
    path: Path, copy: Path, spoil: Callable[[Path], object], words: str
) -> None:
    before = {name: (path.parent / name).read_bytes() for name in names(path.parent)}
    spoil(copy)
    with pytest.raises(StoreError, match=words):
        restore(copy, path)
    assert {name: (path.parent / name).read_bytes() for name in names(path.parent)} == before


def test_a_database_is_not_put_back_over_itself(path: Path) -> None:
    with pytest.raises(StoreError, match="is the database itself"):
        restore(path, path)


def test_a_database_in_use_is_not_moved(path: Path, copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rivermouth.store.backup.BUSY_MS", 1)
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM calls").fetchone()
    with pytest.raises(StoreError, match=r"locked|in use"):
        restore(copy, path)
    reader.close()
    assert names(path.parent) == {"rivermouth.db"}
    assert numbers(path) == [1, 2, 3, 4]


class Killed(BaseException):
    """Here the process would have ended."""


@pytest.mark.parametrize("step", range(1, 8))
def test_a_kill_at_any_step_leaves_the_old_or_the_new(
    path: Path, copy: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    steps = 0

    def before(act: Callable[..., Any]) -> Callable[..., Any]:
        def acting(*given: Any, **more: Any) -> Any:
            nonlocal steps
            steps += 1
            if steps == step:
                raise Killed
            return act(*given, **more)

        return acting

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", before(os.link))
        for name in ("unlink", "replace"):
            patch.setattr(Path, name, before(getattr(Path, name)))
        with contextlib.suppress(Killed):
            restore(copy, path)
    assert steps >= step, "there are fewer steps than are tried"
    found = numbers(path)
    assert found in ([1, 2, 3], [1, 2, 3, 4])
    if found == [1, 2, 3]:
        assert numbers(path.with_name("rivermouth.db" + KEPT)) == [1, 2, 3, 4]


def test_every_schema_of_ours_is_known(path: Path, tmp_path: Path) -> None:
    assert HEAD in known()
    assert schema_at(path) == HEAD
    assert schema_at(tmp_path / "nothing.db") is None
    old = tmp_path / "old.db"
    open_database(old).dispose()
    with sqlite3.connect(old) as raw:
        raw.execute("UPDATE alembic_version SET version_num = 'calls_0001'")
    raw.close()
    assert judge(old).schema == "calls_0001"

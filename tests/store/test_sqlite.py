"""What is SQLite's own: migrations, modes, a reader beside a writer, the order of values in the statements."""

from __future__ import annotations

import pkgutil
import sqlite3
import stat
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

import rivermouth.store
from rivermouth.store import statements as sql
from rivermouth.store.database import open_database, open_reader
from rivermouth.store.migrations import head
from rivermouth.store.port import Checkpoint, StoreError
from rivermouth.store.sqlite import SqliteCallStore
from rivermouth.store.tables import HEAD, metadata
from tests.store.records import attempt, ended, opened


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rivermouth.db"


def is_described(name: str | None, kind: str, parents: object) -> bool:
    """All but the table for searches, with what SQLite keeps for it: Core cannot describe that."""
    return kind != "table" or not (name or "").startswith("found_text")


def test_head_is_the_newest_migration():
    assert head() == HEAD


def test_the_migrations_make_the_tables_that_the_code_knows(path: Path):
    for module in pkgutil.walk_packages(rivermouth.store.__path__, "rivermouth.store."):
        if module.name.endswith(".tables"):
            import_module(module.name)
    engine = open_database(path)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"include_name": is_described})
        assert compare_metadata(context, metadata) == []
    engine.dispose()


def test_opening_again_changes_nothing_and_does_not_load_alembic(path: Path):
    open_database(path).dispose()
    code = (
        "import sys; from pathlib import Path; from rivermouth.store.sqlite import SqliteCallStore;"
        f"SqliteCallStore.open(Path({str(path)!r})).dispose(); print('alembic' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_database_of_a_newer_program_is_refused(path: Path):
    open_database(path).dispose()
    with sqlite3.connect(path) as raw:
        raw.execute("UPDATE alembic_version SET version_num = 'from_the_future'")
    raw.close()
    with pytest.raises(StoreError, match="from_the_future"):
        open_database(path)
    with pytest.raises(StoreError, match="from_the_future"):
        open_reader(path)


def test_a_half_done_migration_leaves_nothing(path: Path):
    with sqlite3.connect(path) as raw:
        raw.execute("CREATE TABLE attempts (x)")
    raw.close()
    with pytest.raises(StoreError):
        open_database(path)
    with sqlite3.connect(path) as raw:
        assert [n for (n,) in raw.execute("SELECT name FROM sqlite_master")] == ["attempts"]
    raw.close()


def test_what_is_no_database_is_an_error_in_the_ports_words(path: Path):
    path.write_bytes(b"this is not a database" * 100)
    with pytest.raises(StoreError):
        open_database(path)


def test_the_file_is_the_owners_alone_and_in_wal_mode(path: Path):
    engine = open_database(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 1
    engine.dispose()


def test_a_reader_sees_a_running_server_and_writes_nothing(path: Path):
    server = SqliteCallStore.open(path)
    server.insert_open([opened(1)])
    reader = SqliteCallStore.reader(path)
    assert [c.id for c in reader.list(10)] == [opened(1).id]
    server.close([ended(opened(1))])
    assert reader.get(opened(1).id) == ended(opened(1))
    with pytest.raises(StoreError):
        reader.insert_open([opened(2)])
    server.dispose()
    reader.dispose()


def test_a_reader_works_after_the_server_and_not_before_it(path: Path):
    with pytest.raises(StoreError, match="no database"):
        SqliteCallStore.reader(path)
    server = SqliteCallStore.open(path)
    server.insert_open([opened(1)])
    server.dispose()
    reader = SqliteCallStore.reader(path)
    assert len(reader.list(10)) == 1
    reader.dispose()


def test_a_locked_database_is_a_passing_error(path: Path):
    store = SqliteCallStore.open(path)
    store.insert_open([opened(1)])
    assert store._writer is not None
    store._writer.cursor().execute("PRAGMA busy_timeout=0")
    store._writer.commit()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError) as caught:
        store.insert_open([opened(2)])
    assert caught.value.passing
    other.execute("ROLLBACK")
    other.close()
    store.insert_open([opened(2)])
    assert len(store.list(10)) == 2
    store.dispose()


def test_a_database_that_cannot_be_opened_is_a_passing_error(path: Path):
    store = SqliteCallStore.open(path)
    store.dispose()
    kept = path.rename(path.with_suffix(".kept"))
    path.mkdir()
    with pytest.raises(StoreError) as caught:
        store.insert_open([opened(1)])
    assert caught.value.passing
    path.rmdir()
    kept.rename(path)
    store.insert_open([opened(1)])
    assert len(store.list(10)) == 1
    store.dispose()


def test_an_interrupted_call_has_the_price_of_its_own_attempts(path: Path):
    store = SqliteCallStore.open(path)
    store.insert_open([opened(1), opened(2), opened(3)])
    prices = ((1, None, None), (2, 250, "EUR"), (3, 900, "USD"))
    for number, nano, currency in prices:
        running = attempt(price_nano=nano, price_currency=currency)
        store.checkpoint([Checkpoint(opened(number).id, 7, 21, attempt=running)])
    assert store.interrupt_open() == 3
    records = [store.get(opened(number).id) for number, _, _ in prices]
    assert [(r.price_nano, r.price_currency) for r in records if r] == [(n, c) for _, n, c in prices]
    store.dispose()


ROWS = {
    "INSERT_OPEN": (sql.INSERT_OPEN, sql.opened_row(opened(1))),
    "INSERT_ENDED": (sql.INSERT_ENDED, (*sql.opened_row(opened(1))[:-1], *sql.ended_row(ended(opened(1))))),
    "END": (sql.END, (*sql.ended_row(ended(opened(1))), "id")),
    "CHECKPOINT": (sql.CHECKPOINT, sql.mark_row(Checkpoint("id", 1, 2))),
    "PUT_ATTEMPT": (sql.PUT_ATTEMPT, sql.attempt_row("id", attempt(), "failed")),
}


@pytest.mark.parametrize(("statement", "row"), ROWS.values(), ids=ROWS.keys())
def test_each_row_has_a_value_for_each_place(statement, row):
    assert len(statement.names) == len(row) == statement.sql.count("?")


def test_the_rows_are_in_the_order_of_their_statements():
    assert sql.INSERT_OPEN.names == sql.OPENED
    assert sql.INSERT_ENDED.names == (*sql.OPENED[:-1], *sql.ENDED)
    assert sql.END.names == (*(f"new_{n}" for n in sql.ENDED), "call_id")
    assert sql.CHECKPOINT.names == ("tokens", "estimate", "chars", "call_id")
    assert sql.PUT_ATTEMPT.names == (*sql.ATTEMPT, "of_call")


def test_a_start_imports_the_driver_of_no_other_database() -> None:
    """One argument of an index for PostgreSQL had every start import that dialect, for a tenth of its time."""
    program = (
        "import sys, rivermouth.compose, rivermouth.store.accounts.sqlite, rivermouth.store.chats.sqlite,"
        " rivermouth.store.platform.sqlite, rivermouth.store.kept.sqlite, rivermouth.store.sqlite_archive;"
        "print(*{n.split('.')[2] for n in sys.modules if n.startswith('sqlalchemy.dialects.')} - {'_typing'})"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert ran.stdout.split() == ["sqlite"]

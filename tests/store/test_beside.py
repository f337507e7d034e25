"""Another program reads the database for a moment, and the server loses nothing by it.

A process that closes any descriptor of a file loses all its POSIX locks of it, SQLite's included.  Who then reads the
database and leaves believes to be the last, and takes the log away under the server, with all that is in it.
"""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

from rivermouth.store.database import open_database
from rivermouth.store.sqlite import SqliteCallStore
from tests.store.records import ended, opened

READ = """
import sqlite3, sys
print(sqlite3.connect(sys.argv[1]).execute("SELECT count(*) FROM calls").fetchone()[0])
"""


def read_elsewhere(path: Path) -> str:
    """A short-lived reader, as the commands beside a server are."""
    done = subprocess.run([sys.executable, "-c", READ, str(path)], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_a_second_store_in_one_process_keeps_the_locks_of_the_first(tmp_path: Path) -> None:
    path = tmp_path / "rivermouth.db"
    calls = open_database(path)
    with calls.connect() as writing:
        chats = open_database(path)
        wal = path.with_name(path.name + "-wal")
        before = wal.stat().st_ino
        assert read_elsewhere(path) == "0"
        assert wal.exists()
        assert wal.stat().st_ino == before
        with chats.connect() as other:
            other.exec_driver_sql("CREATE TABLE after_the_reader (x)")
            other.commit()
        assert writing.exec_driver_sql("SELECT count(*) FROM after_the_reader").scalar() == 0
        chats.dispose()
    calls.dispose()
    with sqlite3.connect(path) as raw:
        assert raw.execute("SELECT count(*) FROM after_the_reader").fetchone() == (0,)
    raw.close()


READER = """
import sys
from pathlib import Path
from rivermouth.store.sqlite import SqliteCallStore
store = SqliteCallStore.reader(Path(sys.argv[1]))
print(*sorted(record.status for record in store.list(10)))
store.dispose()
"""


def seen_by_another_process(path: Path) -> list[str]:
    done = subprocess.run([sys.executable, "-c", READER, str(path)], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_a_reader_that_leaves_does_not_take_the_log_of_writes_along(tmp_path: Path) -> None:
    path = tmp_path / "rivermouth.db"
    store = SqliteCallStore.open(path)
    store.insert_open([opened(1)])
    several = [open_database(path) for _ in range(2)]  # as a server has one for its chats, and one for its keys
    store.insert_open([opened(2)])
    assert seen_by_another_process(path) == ["open", "open"]
    assert (tmp_path / "rivermouth.db-wal").exists(), "the server still writes to it"
    store.close([ended(opened(1)), ended(opened(2))])
    assert seen_by_another_process(path) == ["completed", "completed"]
    for engine in several:
        engine.dispose()
    store.dispose()

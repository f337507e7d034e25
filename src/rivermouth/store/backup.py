"""The database as one file: copied beside a running server, judged, and put in another's place.

    backup    a copy of one moment, by SQLite's own online backup -> judged -> published under its name, or not at all
    restore   the file is judged -> copied beside the database -> judged again -> the database gets a second name ->
              the copy takes its place, in one step

Nothing is touched before a file has proved to be whole and of a schema that this program knows.  A kill at any moment
leaves either the old database or the new one under its name, never none.
"""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

import msgspec

from rivermouth.store.database import BUSY_MS
from rivermouth.store.port import StoreError

KEPT: Final = ".before-restore"
SIDES: Final = ("-wal", "-shm")
_DAMAGED: Final = frozenset({"SQLITE_CORRUPT", "SQLITE_NOTADB"})


class Judged(msgspec.Struct, frozen=True):
    """A database that can be used.  schema: the newest migration that it has seen."""

    file: str
    schema: str
    size_bytes: int


def backup(database: Path, target: Path) -> Judged:
    """Copies the database, which may be in use, to a new file of mode 0600.  Raises `StoreError`."""
    if not database.exists():
        raise StoreError(f"{database}: there is no database yet")
    if target.exists():
        raise StoreError(f"{target}: exists already, and is not written over")
    with _part(target) as part:
        _copy(database, part)
        judged = judge(part)
        try:
            _publish_new(part, target)
        except OSError as error:
            raise StoreError(f"{target}: {error.strerror}") from None
    return msgspec.structs.replace(judged, file=str(target))


def restore(source: Path, database: Path) -> tuple[Judged, Path | None]:
    """Puts a backup in the database's place; the second is where the database was kept, if there was one.

    Only for who holds the data directory's lock.  Raises `StoreError`, and then the database is as it was.
    """
    if source.exists() and database.exists() and source.samefile(database):
        raise StoreError(f"{source}: is the database itself")
    judge(source)
    with _part(database) as part:
        _copy(source, part)
        judged = judge(part)
        try:
            kept = _keep(database) if database.exists() else None
            for side in SIDES:  # of a database that could not be folded, or of one that is gone
                _beside(database, side).unlink(missing_ok=True)
            part.replace(database)
            _sync(database.parent)
        except OSError as error:
            raise StoreError(f"{database}: {error.strerror}") from None
    return msgspec.structs.replace(judged, file=str(database)), kept


def judge(file: Path) -> Judged:
    """What the file holds, when all of it can be read and this program knows its schema.  Raises `StoreError`."""
    from rivermouth.store.migrations import known

    with _opened(file, "ro") as connection:
        try:
            wrong = [row[0] for row in connection.execute("PRAGMA integrity_check(10)")]
            if wrong != ["ok"]:
                raise StoreError(f"{file}: is damaged: {wrong[0]}")
            schema = schema_of(connection)
        except sqlite3.Error as error:
            raise _renamed(file, error) from None
    if schema is None:
        raise StoreError(f"{file}: is not a database of this program")
    if schema not in known():
        raise StoreError(f"{file}: its schema is {schema}, which only another version of this program knows")
    return Judged(str(file), schema, file.stat().st_size)


def schema_of(connection: sqlite3.Connection) -> str | None:
    """The migration that the database says it is at; None for one that is not ours."""
    tables = connection.execute("SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'alembic_version'")
    if not tables.fetchone()[0]:
        return None
    found = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    return str(found[0]) if found is not None else None


def schema_at(database: Path) -> str | None:
    """The same of a file; None where there is none.  Raises `StoreError`."""
    if not database.exists():
        return None
    with _opened(database, "rw") as connection:
        try:
            return schema_of(connection)
        except sqlite3.Error as error:
            raise _renamed(database, error) from None


def _copy(source: Path, part: Path) -> None:
    """All pages of one moment.  In WAL mode this keeps no writer waiting, and writers do not make it begin again."""
    with _opened(source, "rw") as connection, closing(sqlite3.connect(part, isolation_level=None)) as copy:
        try:
            connection.backup(copy)
            copy.execute("PRAGMA journal_mode=DELETE")  # one file, without a log beside it
        except sqlite3.Error as error:
            raise _renamed(source, error) from None
    _sync(part)


@contextmanager
def _part(target: Path) -> Iterator[Path]:
    """A file beside the target that only its owner can read, and that is gone afterwards unless it was moved."""
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        os.close(os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError as error:
        raise StoreError(f"{part}: {error.strerror}") from None
    try:
        yield part
    finally:
        part.unlink(missing_ok=True)


def _publish_new(part: Path, target: Path) -> None:
    """Under its name in one step; never in the place of a file that has come meanwhile."""
    if not _linked(part, target):
        part.rename(target)
    _sync(target.parent)


def _linked(file: Path, name: Path) -> bool:
    """The file has a second name; False on a file system without links.  Raises `OSError`."""
    try:
        os.link(file, name)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EMLINK):
            raise
        return False
    return True


def _keep(database: Path) -> Path:
    """A second name for the database, with everything in it that was still in its log."""
    number, kept = 1, database.with_name(database.name + KEPT)
    while kept.exists():
        number += 1
        kept = database.with_name(f"{database.name}{KEPT}-{number}")
    for side in SIDES:  # copied, because SQLite may empty the log of a damaged file when it is opened
        with suppress(FileNotFoundError):
            shutil.copy2(_beside(database, side), _beside(kept, side))
    damaged = False
    try:
        damaged = not _fold(database)
    finally:
        for side in () if damaged else SIDES:
            _beside(kept, side).unlink(missing_ok=True)
    if not _linked(database, kept):
        shutil.copy2(database, kept)
        _sync(kept)
    return kept


def _fold(database: Path) -> bool:
    """The log into the file; False for a file that is too damaged for that.  Raises `StoreError` when it is in use."""
    with _opened(database, "rw") as connection:
        try:
            mode = connection.execute("PRAGMA journal_mode=DELETE").fetchone()[0]
        except sqlite3.Error as error:
            if error.sqlite_errorname in _DAMAGED:
                return False
            raise _renamed(database, error) from None
    if mode != "delete":
        raise StoreError(f"{database}: is in use")
    return True


@contextmanager
def _opened(file: Path, mode: str) -> Iterator[sqlite3.Connection]:
    try:
        connection = sqlite3.connect(
            f"file:{quote(str(file.absolute()))}?mode={mode}", uri=True, timeout=BUSY_MS / 1000, isolation_level=None
        )
    except sqlite3.Error as error:
        raise _renamed(file, error) from None
    with closing(connection):
        yield connection


def _renamed(file: Path, error: sqlite3.Error) -> StoreError:
    return StoreError(
        f"{file}: {error}", passing=getattr(error, "sqlite_errorname", "") in ("SQLITE_BUSY", "SQLITE_FULL")
    )


def _beside(file: Path, side: str) -> Path:
    return file.with_name(file.name + side)


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)

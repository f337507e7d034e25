"""The SQLite file: how it is opened, and how its schema is brought to the newest version.

WAL with synchronous=NORMAL: a committed row survives kill -9 (not a power cut), readers never wait for the writer,
and a reader may be another process.  Alembic is loaded only when there is something to migrate.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Engine, create_engine, event, inspect, text
from sqlalchemy.exc import DBAPIError

from rivermouth.store.port import StoreError
from rivermouth.store.tables import HEAD

BUSY_MS: Final = 5_000
_PRAGMAS: Final = (
    f"PRAGMA busy_timeout={BUSY_MS}",
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=NORMAL",
    "PRAGMA cache_size=-8192",
)
_READER_PRAGMAS: Final = (f"PRAGMA busy_timeout={BUSY_MS}", "PRAGMA query_only=ON")
_PASSING: Final = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_FULL", "SQLITE_IOERR", "SQLITE_NOMEM", "SQLITE_CANTOPEN")


def open_database(path: Path) -> Engine:
    """The database at `path`, made if missing (0600) and migrated to `HEAD`.  Raises `StoreError`."""
    _make(path)
    engine = _engine(path, _PRAGMAS)
    try:
        migrate(engine)
    except BaseException:
        engine.dispose()
        raise
    return engine


def _make(path: Path) -> None:
    """An empty file, private from the first moment, if there is none.

    One that is there is not touched: who closes any descriptor of a file loses all the locks that its process has on
    it, and SQLite's are such.  Another program that reads the database for a moment would then think that nobody else
    has it, and remove the log that this process is writing.
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        return
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}") from None


def open_reader(path: Path) -> Engine:
    """The database of a server that may be running; nothing can be written by it.  Raises `StoreError`."""
    return _open_as_it_is(path, _READER_PRAGMAS)


def open_beside(path: Path) -> Engine:
    """The database of a server that runs, to be written too; it is not migrated.  Raises `StoreError`."""
    return _open_as_it_is(path, _PRAGMAS)


def _open_as_it_is(path: Path, pragmas: tuple[str, ...]) -> Engine:
    if not path.exists():
        raise StoreError(f"{path}: there is no database yet")
    engine = _engine(path, pragmas)
    try:
        with engine.connect() as connection:
            found = version(connection)
    except DBAPIError as error:
        engine.dispose()
        raise renamed(error) from None
    if found != HEAD:
        engine.dispose()
        raise StoreError(
            f"{path}: its schema is {found}, this program reads {HEAD}; start the server once to bring it up"
        )
    return engine


def _engine(path: Path, pragmas: tuple[str, ...]) -> Engine:
    engine = create_engine(f"sqlite:///{path}", hide_parameters=True)

    def prepare(connection: Any, record: object) -> None:
        for pragma in pragmas:
            connection.execute(pragma)

    event.listen(engine, "connect", prepare)
    return engine


def version(connection: Connection) -> str | None:
    """The migration this database says it is at; None for an empty one."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def migrate(engine: Engine) -> None:
    """Brings the schema to `HEAD`.  Raises `StoreError` for one that this program does not know."""
    with renaming():
        with engine.connect() as connection:
            if version(connection) == HEAD:
                return
        from rivermouth.store.migrations import upgrade  # Alembic takes a fifth of a second to import

        with engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA secure_delete=ON")  # a step may take words out
            connection.exec_driver_sql("BEGIN IMMEDIATE")  # the driver begins none for DDL: half a schema could stay
            upgrade(connection)
            connection.commit()
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")


def of_driver(error: BaseException | None) -> StoreError:
    """The driver's exception in the port's words."""
    name = getattr(error, "sqlite_errorname", "")
    return StoreError(str(error), passing=name.startswith(_PASSING))


def renamed(error: DBAPIError) -> StoreError:
    """SQLAlchemy's in the port's words, without the statement or its values."""
    return of_driver(error.orig)


@contextmanager
def renaming(name: Callable[[DBAPIError], Exception] = renamed) -> Iterator[None]:
    """The seam: what the driver raises in here leaves in the port's words."""
    try:
        yield
    except DBAPIError as error:
        raise name(error) from None


@contextmanager
def storable() -> Iterator[None]:
    """A value that no database takes (half an emoji, a number above 64 bits) is a `StoreError` like any other."""
    try:
        yield
    except (ValueError, OverflowError) as error:
        raise StoreError(f"a value cannot be stored: {type(error).__name__}") from None

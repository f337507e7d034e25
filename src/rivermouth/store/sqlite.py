"""Call records in SQLite.

One connection writes, for ever the same and used by one thread at a time; reads take others from the pool, from any
thread.  In WAL mode neither waits for the other.  The writer's is the driver's own: what SQLAlchemy does for each
statement costs as much as SQLite does for a row of it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from sqlalchemy import Engine, PoolProxiedConnection, RowMapping, Select, case, func, select, update
from sqlalchemy.engine.interfaces import DBAPICursor

from rivermouth.store import statements as sql
from rivermouth.store.database import of_driver, open_database, open_reader, renaming
from rivermouth.store.port import (
    CallFilter,
    CallRecord,
    CallText,
    Checkpoint,
    Outcome,
    Status,
    StoreError,
    UsageRow,
)
from rivermouth.store.rows import conditions, joined, plain
from rivermouth.store.tables import attempts, calls

INTERRUPTED_MESSAGE: Final = "the server stopped before the call ended"
EVERY: Final = CallFilter()
TAKEN_OVER: Final = ("endpoint_id", "provider", "model", "input_tokens", "price_currency")
"""What the last attempt of an interrupted call says for the call."""


class SqliteCallStore:
    """The port `CallStore` over an engine from `database`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._writer: PoolProxiedConnection | None = None

    @classmethod
    def open(cls, path: Path) -> SqliteCallStore:
        """For the server that holds the data directory.  Raises `StoreError`."""
        return cls(open_database(path))

    @classmethod
    def reader(cls, path: Path) -> SqliteCallStore:
        """For reading beside a running server; a write raises `StoreError`."""
        return cls(open_reader(path))

    def insert_open(self, rows: Sequence[CallRecord]) -> None:
        self.write(rows, (), ())

    def checkpoint(self, rows: Sequence[Checkpoint]) -> None:
        self.write((), rows, ())

    def close(self, rows: Sequence[CallRecord]) -> int:
        return self.write((), (), rows)

    def write(
        self,
        opens: Sequence[CallRecord],
        marks: Sequence[Checkpoint],
        closes: Sequence[CallRecord],
        texts: Sequence[CallText] = (),
    ) -> int:
        connection = self._writing()
        try:
            cursor = connection.cursor()
            if opens:
                cursor.executemany(sql.INSERT_OPEN.sql, [sql.opened_row(r) for r in opens])
            if marks:
                _mark(cursor, marks)
            ended = _end(cursor, closes) if closes else 0
            if texts:
                cursor.executemany(sql.PUT_TEXT.sql, [sql.text_row(t) for t in texts])
            connection.commit()
        except sqlite3.Error as error:
            self._abandon()
            raise of_driver(error) from None
        except (ValueError, OverflowError) as error:  # half an emoji, a number above 64 bits: this row never will fit
            self._abandon()
            raise StoreError(f"a value cannot be stored: {type(error).__name__}") from None
        except StoreError:
            self._abandon()
            raise
        return ended

    def interrupt_open(self) -> int:
        last = {name: _of_last_attempt(name) for name in TAKEN_OVER}
        change = {
            "status": Status.INTERRUPTED.value,
            "at_least": 1,
            "message": INTERRUPTED_MESSAGE,
            "endpoint_id": func.coalesce(calls.c.endpoint_id, last["endpoint_id"]),
            "provider": func.coalesce(calls.c.provider, last["provider"]),
            "model_used": func.coalesce(calls.c.model_used, last["model"]),
            "input_tokens": func.coalesce(calls.c.input_tokens, last["input_tokens"]),
            "price_nano": _price_of_attempts(),
            "price_currency": last["price_currency"],
            "price_estimated": 1,
        }
        noted = (calls.c.status == sql.OPEN, calls.c.ended_ns.is_not(None))
        how = case((calls.c.cancelled_by.is_not(None), Status.CANCELLED.value), else_=Status.COMPLETED.value)
        with renaming(), self._engine.begin() as connection:
            connection.execute(update(calls).where(*noted).values(status=how))
            return connection.execute(update(calls).values(change).where(calls.c.status == sql.OPEN)).rowcount

    def get(self, call_id: str) -> CallRecord | None:
        found = self._read(select(calls).where(calls.c.id == call_id))
        return found[0] if found else None

    def list(self, limit: int, where: CallFilter = EVERY) -> Sequence[CallRecord]:
        query = select(calls).where(*conditions(where))
        return self._read(query.order_by(calls.c.started_ns.desc(), calls.c.seq.desc()).limit(limit))

    def usage(self, since_ns: int | None = None, until_ns: int | None = None) -> Sequence[UsageRow]:
        rows = self._rows(_usage(CallFilter(since_ns=since_ns, until_ns=until_ns)))
        return [msgspec.convert(plain(row), UsageRow) for row in rows]

    def dispose(self) -> None:
        self._abandon()
        self._engine.dispose()

    def _writing(self) -> PoolProxiedConnection:
        if self._writer is None:
            try:
                self._writer = self._engine.raw_connection()
            except sqlite3.Error as error:
                raise of_driver(error) from None
        return self._writer

    def _abandon(self) -> None:
        """Give up the transaction and the connection; the next write takes a fresh one."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    def _rows(self, query: Select[Any]) -> Sequence[RowMapping]:
        with renaming(), self._engine.connect() as connection:
            return connection.execute(query).mappings().all()

    def _read(self, query: Select[Any]) -> Sequence[CallRecord]:
        """The calls that `query` selects, each with its attempts, both from one view of the database."""
        with renaming(), self._engine.connect() as connection:
            connection.exec_driver_sql("BEGIN")
            heads = connection.execute(query).mappings().all()
            wanted = select(attempts).where(attempts.c.call_id.in_([h["id"] for h in heads]))
            lines = connection.execute(wanted.order_by(attempts.c.number)).mappings().all()
        return joined(heads, lines)


def _mark(cursor: DBAPICursor, marks: Sequence[Checkpoint]) -> None:
    cursor.executemany(sql.CHECKPOINT.sql, [sql.mark_row(m) for m in marks])
    running = Outcome.INTERRUPTED.value
    lines = [sql.attempt_row(m.call_id, m.attempt, running) for m in marks if m.attempt is not None]
    if lines:
        cursor.executemany(sql.MARK_ATTEMPT.sql, lines)


def _end(cursor: DBAPICursor, closes: Sequence[CallRecord]) -> int:
    """Attempts first: their guard is that the call has not ended."""
    if any(r.status is Status.OPEN for r in closes):
        raise StoreError("a call cannot be closed as open")
    lines = [sql.attempt_row(r.id, a, a.outcome.value) for r in closes for a in r.attempts]
    if lines:
        cursor.executemany(sql.PUT_ATTEMPT.sql, lines)
    cursor.executemany(sql.END.sql, [(*sql.ended_row(r), r.id) for r in closes])
    ended = cursor.rowcount
    if ended < len(closes):  # some were never opened, or have ended before: those keep their first end
        cursor.executemany(sql.INSERT_ENDED.sql, [(*sql.opened_row(r)[:-1], *sql.ended_row(r)) for r in closes])
        ended += cursor.rowcount
    return ended


def _of_last_attempt(name: str) -> Any:
    mine = select(attempts.c[name]).where(attempts.c.call_id == calls.c.id).correlate(calls)  # however deep it stands
    return mine.order_by(attempts.c.number.desc()).limit(1).scalar_subquery()


def _price_of_attempts() -> Any:
    """In the currency of the last of them; NULL where no price is known."""
    each = attempts.alias()
    mine = select(func.sum(each.c.price_nano)).where(each.c.call_id == calls.c.id)
    return mine.where(each.c.price_currency == _of_last_attempt("price_currency")).scalar_subquery()


def _usage(where: CallFilter) -> Select[Any]:
    used = calls.c.provider + "/" + calls.c.model_used  # NULL where nobody was asked
    model = func.coalesce(used, calls.c.model_asked).label("model")
    sums = [
        func.coalesce(func.sum(calls.c[name]), 0).label(name)
        for name in ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens", "estimated", "at_least")
    ]
    price = func.coalesce(func.sum(calls.c.price_nano), 0).label("price_nano")
    currency = calls.c.price_currency.label("currency")
    query = select(model, calls.c.status, currency, func.count().label("calls"), price, *sums)
    grouped = query.where(*conditions(where)).group_by(model, calls.c.status, currency)
    return grouped.order_by(model, calls.c.status, case((currency.is_(None), ""), else_=currency))

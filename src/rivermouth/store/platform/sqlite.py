"""Platform keys in SQLite.

Changes are rare: each takes a connection of the pool, begins with BEGIN IMMEDIATE, and gives it back.  So the command
line may write beside a running server, and neither sees half of what the other does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, Engine, RowMapping, Select, and_, delete, func, insert, select, update
from sqlalchemy.exc import DBAPIError

from rivermouth.config import Budget, RateLimits, Scope
from rivermouth.store.database import renamed, renaming
from rivermouth.store.platform.port import ChangeRow, KeyRow, LateRow, Spent, SpentRow, Taken
from rivermouth.store.platform.tables import platform_carried, platform_changes, platform_keys, platform_revision
from rivermouth.store.port import Status, StoreError
from rivermouth.store.tables import calls
from rivermouth.wire import json

_AS_JSON: Final[Mapping[str, Any]] = {
    "scopes": json.typed(tuple[Scope, ...]),
    "models": json.typed(tuple[str, ...]),
    "limits": json.typed(RateLimits),
    "budget": json.typed(Budget),
}
"""Fields of a row that are JSON text in their columns."""
_FLAGS: Final = ("resumable",)
"""Fields of a row that are 0 or 1 in their columns."""
_KEPT: Final = ("id", "created_ns", "created_by", "last_used_ns")
"""What a change does not write."""


class SqlitePlatformStore:
    """The port `PlatformStore` over an engine of `database.open_database`, which it disposes of at its end."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def revision(self) -> int:
        with self._reading() as connection:
            return int(connection.execute(select(platform_revision.c.revision)).scalar_one())

    def keys(self) -> Sequence[KeyRow]:
        return [_key(row) for row in self._rows(select(platform_keys).order_by(platform_keys.c.seq))]

    def insert_key(self, row: KeyRow, change: ChangeRow) -> None:
        def work(connection: Connection) -> None:
            connection.execute(insert(platform_keys).values(_stored(row)))
            _log(connection, change)

        self._write(work)

    def replace_key(self, row: KeyRow, change: ChangeRow) -> None:
        values = {name: value for name, value in _stored(row).items() if name not in _KEPT}
        here = and_(platform_keys.c.id == row.id, platform_keys.c.version == row.version - 1)

        def work(connection: Connection) -> None:
            if connection.execute(update(platform_keys).where(here).values(values)).rowcount != 1:
                raise Taken(row.id)
            _log(connection, change)

        self._write(work)

    def touch(self, used: Mapping[str, int]) -> None:
        def work(connection: Connection) -> None:
            for key_id, at_ns in used.items():
                newer = func.max(func.coalesce(platform_keys.c.last_used_ns, 0), at_ns)
                here = platform_keys.c.id == key_id
                connection.execute(update(platform_keys).where(here).values(last_used_ns=newer))

        self._write(work)

    def add_change(self, change: ChangeRow) -> None:
        self._write(lambda connection: _entry(connection, change))

    def changes(self, limit: int, before: int | None = None, target: str | None = None) -> Sequence[ChangeRow]:
        query = select(platform_changes).order_by(platform_changes.c.seq.desc()).limit(limit)
        if before is not None:
            query = query.where(platform_changes.c.seq < before)
        if target is not None:
            query = query.where(platform_changes.c.target == target)
        return [msgspec.convert(_plain(row), ChangeRow) for row in self._rows(query)]

    def spent(self, since_ns: int, until_ns: int, ended_ns: int) -> Spent:
        ended = calls.c.started_ns + func.coalesce(calls.c.ended_ns, 0)
        here = and_(
            calls.c.started_ns >= since_ns,
            calls.c.started_ns < until_ns,
            calls.c.status != Status.OPEN.value,
            calls.c.price_currency.is_not(None),
            calls.c.price_nano != 0,
        )
        by = (calls.c.key_name, calls.c.policy_id, calls.c.price_currency.label("currency"))
        sums = select(*by, func.sum(calls.c.price_nano).label("nano")).where(here, ended < ended_ns).group_by(*by)
        late = select(*by, calls.c.price_nano.label("nano"), calls.c.id.label("call_id")).where(here, ended >= ended_ns)
        with self._reading() as connection:
            connection.exec_driver_sql("BEGIN")
            earlier = [msgspec.convert(_plain(row), SpentRow) for row in connection.execute(sums).mappings()]
            carried = [_carried(row) for row in connection.execute(_carried_sums(since_ns, until_ns)).mappings()]
            later = [msgspec.convert(_plain(row), LateRow) for row in connection.execute(late).mappings()]
        return Spent([*earlier, *carried], later)

    def forget(self, before_ns: int) -> None:
        old = platform_carried.c.slot_ns < before_ns
        self._write(lambda connection: connection.execute(delete(platform_carried).where(old)))

    def dispose(self) -> None:
        self._engine.dispose()

    def _write(self, work: Callable[[Connection], object]) -> None:
        try:
            with self._engine.connect() as connection:
                connection.exec_driver_sql("BEGIN IMMEDIATE")
                try:
                    work(connection)
                    connection.commit()
                except BaseException:
                    connection.rollback()
                    raise
        except DBAPIError as error:
            if getattr(error.orig, "sqlite_errorname", "") == "SQLITE_CONSTRAINT_UNIQUE":
                raise Taken(str(error.orig)) from None
            raise renamed(error) from None
        except (ValueError, OverflowError) as error:  # half an emoji, a number above 64 bits
            raise StoreError(f"a value cannot be stored: {type(error).__name__}") from None

    def _rows(self, query: Select[Any]) -> Sequence[RowMapping]:
        with self._reading() as connection:
            return connection.execute(query).mappings().all()

    def _reading(self) -> _Reading:
        return _Reading(self._engine)


class _Reading:
    """A connection for one reading; the driver's errors become the port's."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def __enter__(self) -> Connection:
        with renaming():
            self._connection = self._engine.connect()
        return self._connection

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._connection.close()
        if isinstance(error, DBAPIError):
            raise renamed(error) from None


def _carried_sums(since_ns: int, until_ns: int) -> Select[Any]:
    held = platform_carried.c
    by = (held.key_name, held.policy_id, held.currency)
    here = and_(held.slot_ns >= since_ns, held.slot_ns < until_ns)
    return select(*by, func.sum(held.nano).label("nano")).where(here).group_by(*by)


def _carried(row: RowMapping) -> SpentRow:
    values = _plain(row)
    return SpentRow(
        key_name=values["key_name"] or None,
        policy_id=values["policy_id"] or None,
        currency=values["currency"],
        nano=values["nano"],
    )


def _log(connection: Connection, change: ChangeRow) -> None:
    _entry(connection, change)
    connection.execute(update(platform_revision).values(revision=platform_revision.c.revision + 1))


def _entry(connection: Connection, change: ChangeRow) -> None:
    values = {name: getattr(change, name) for name in ChangeRow.__struct_fields__ if name != "seq"}
    connection.execute(insert(platform_changes).values(values))


def _stored(row: KeyRow) -> dict[str, Any]:
    values: dict[str, Any] = {name: getattr(row, name) for name in KeyRow.__struct_fields__}
    for name in _AS_JSON:
        if values[name] is not None:
            values[name] = json.encode(values[name]).decode()
    return {**values, **{name: int(values[name]) for name in _FLAGS}}


def _key(row: RowMapping) -> KeyRow:
    values = _plain(row)
    del values["seq"]
    for name, decoder in _AS_JSON.items():
        if values[name] is not None:
            values[name] = json.decode_as(decoder, values[name].encode())
    return KeyRow(**{**values, **{name: bool(values[name]) for name in _FLAGS}})


def _plain(row: RowMapping) -> dict[str, Any]:
    return {str(name): value for name, value in row.items()}

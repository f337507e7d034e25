"""Kept answers in SQLite.  What is deleted over this connection is overwritten in the file, not only unlinked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import msgspec
from sqlalchemy import (
    Connection,
    Engine,
    Executable,
    RowMapping,
    and_,
    delete,
    event,
    func,
    insert,
    literal,
    or_,
    select,
    update,
)

from rivermouth.store import statements as sql
from rivermouth.store.database import BUSY_MS, renaming, storable
from rivermouth.store.kept.port import KeptAnswer, Owner
from rivermouth.store.kept.tables import kept_answers as kept_table
from rivermouth.store.port import CallRecord
from rivermouth.store.tables import calls
from rivermouth.store.transactions import Transactions

T = TypeVar("T")

READERS: Final = 2
WIPE_MS: Final = 200
_COLUMNS: Final = tuple(c.name for c in kept_table.columns if c.name != "seq")
_EMPTY_LOG: Final = (
    f"PRAGMA busy_timeout={WIPE_MS}",  # it keeps writers waiting while it waits for readers
    "PRAGMA wal_checkpoint(TRUNCATE)",
    f"PRAGMA busy_timeout={BUSY_MS}",
)


class SqliteKeptStore:
    """The port `KeptStore` over an engine of `database.open_database`, which it disposes of at its end."""

    def __init__(self, engine: Engine, *, inline: bool = False) -> None:
        event.listen(engine, "connect", _overwrite)
        engine.dispose()  # what is connected already would not be told
        self._transactions = Transactions(engine, "rivermouth-kept", readers=READERS, inline=inline)

    async def put(self, kept: KeptAnswer, call: CallRecord | None = None) -> bool:
        values = _stored(kept)
        line = select(*(literal(values[n], type_=kept_table.c[n].type) for n in _COLUMNS)).where(~_erased(kept.call_id))
        statement = insert(kept_table).prefix_with("OR IGNORE").from_select(list(_COLUMNS), line)
        return await self._write(lambda connection: _run(connection, statement, call))

    async def finish(self, kept: KeptAnswer, call: CallRecord | None = None) -> bool:
        values = _stored(kept)
        change = {name: values[name] for name in ("answer", "ended_ns", "last")}
        here = and_(kept_table.c.id == kept.id, kept_table.c.ended_ns.is_(None), ~_erased(kept.call_id))
        statement = update(kept_table).where(here).values(change)
        return await self._write(lambda connection: _run(connection, statement, call))

    async def get(self, answer_id: str, owner: Owner, now_ns: int) -> KeptAnswer | None:
        found = await self.chain(answer_id, owner, now_ns, 1, 0)
        return found[0] if found else None

    async def chain(
        self, answer_id: str, owner: Owner, now_ns: int, limit: int, limit_bytes: int
    ) -> Sequence[KeptAnswer]:
        def work(connection: Connection) -> list[KeptAnswer]:
            found: list[KeptAnswer] = []
            wanted: str | None = answer_id
            size = 0
            while wanted is not None and len(found) < limit and size <= limit_bytes:
                query = select(kept_table).where(_is(wanted, owner, now_ns))
                row = connection.execute(query).mappings().first()
                if row is None:
                    break
                found.append(_read(row))
                wanted = found[-1].previous
                size += len(found[-1].input) + len(found[-1].answer)
            return found

        return await self._reading(work)

    async def holding(self, text: str, owner: Owner, now_ns: int, limit: int) -> Sequence[KeptAnswer]:
        newest = select(kept_table).where(_of(owner, now_ns)).order_by(kept_table.c.seq.desc()).limit(limit).subquery()
        has = or_(func.instr(newest.c.answer, text) > 0, func.instr(newest.c.input, text) > 0)
        query = select(newest).where(has).order_by(newest.c.seq.desc())
        return await self._reading(lambda connection: [_read(row) for row in connection.execute(query).mappings()])

    async def delete(self, answer_id: str, owner: Owner, now_ns: int) -> bool:
        statement = delete(kept_table).where(_is(answer_id, owner, now_ns))
        gone = await self._write(lambda connection: connection.execute(statement).rowcount == 1)
        if gone:
            with renaming():
                await self._transactions.outside(*_EMPTY_LOG)
        return gone

    async def unended(self) -> Sequence[KeptAnswer]:
        query = select(kept_table).where(kept_table.c.ended_ns.is_(None)).order_by(kept_table.c.seq)
        return await self._reading(lambda connection: [_read(row) for row in connection.execute(query).mappings()])

    async def close(self) -> None:
        await self._transactions.close()

    async def _write(self, work: Callable[[Connection], T]) -> T:
        with renaming(), storable():
            return await self._transactions.run(work)

    async def _reading(self, work: Callable[[Connection], T]) -> T:
        with renaming():
            return await self._transactions.read(work)


def _run(connection: Connection, statement: Executable, call: CallRecord | None) -> bool:
    written = connection.execute(statement).rowcount == 1
    if written and call is not None:
        connection.exec_driver_sql(sql.NOTE_END.sql, sql.noted_row(call))
        for attempt in call.attempts:  # what they say comes with the record itself, when secrets are out of it
            silent = msgspec.structs.replace(attempt, message=None)
            connection.exec_driver_sql(sql.PUT_ATTEMPT.sql, sql.attempt_row(call.id, silent, attempt.outcome.value))
    return written


def _is(answer_id: str, owner: Owner, now_ns: int) -> Any:
    """That one, of that owner, and not run out."""
    return and_(kept_table.c.id == answer_id, _of(owner, now_ns))


def _of(owner: Owner, now_ns: int) -> Any:
    return and_(
        kept_table.c.key_name.is_not_distinct_from(owner.key_name),
        kept_table.c.key_id.is_not_distinct_from(owner.key_id),
        kept_table.c.expires_ns > now_ns,
    )


def _erased(call_id: str) -> Any:
    """What led to a person has been taken out of the call's record."""
    return select(calls.c.id).where(calls.c.id == call_id, calls.c.erased == 1).exists()


def _stored(kept: KeptAnswer) -> dict[str, Any]:
    return {
        "id": kept.id,
        "call_id": kept.call_id,
        "dialect": kept.dialect,
        "key_name": kept.owner.key_name,
        "key_id": kept.owner.key_id,
        "previous": kept.previous,
        "background": int(kept.background),
        "created_ns": kept.created_ns,
        "expires_ns": kept.expires_ns,
        "ended_ns": kept.ended_ns,
        "last": kept.last,
        "input": kept.input.decode(),
        "answer": kept.answer.decode(),
    }


def _read(row: RowMapping) -> KeptAnswer:
    return KeptAnswer(
        id=row["id"],
        call_id=row["call_id"],
        dialect=row["dialect"],
        owner=Owner(row["key_name"], row["key_id"]),
        created_ns=row["created_ns"],
        expires_ns=row["expires_ns"],
        input=row["input"].encode(),
        answer=row["answer"].encode(),
        previous=row["previous"],
        background=bool(row["background"]),
        ended_ns=row["ended_ns"],
        last=row["last"],
    )


def _overwrite(connection: Any, record: object) -> None:
    connection.execute("PRAGMA secure_delete=ON")

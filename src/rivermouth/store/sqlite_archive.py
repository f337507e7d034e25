"""The archive of calls in SQLite.

Writes go through `_batches`: each takes `BATCH_ROWS` rows in a transaction of its own, and between two of them whoever
records calls has its turn.  `secure_delete` overwrites what is deleted; the log still holds it until it is folded into
the database, so that is asked for at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    CompoundSelect,
    Connection,
    Engine,
    Select,
    String,
    and_,
    column,
    delete,
    false,
    func,
    literal,
    or_,
    select,
    true,
    tuple_,
    update,
    values,
)
from sqlalchemy.dialects.sqlite import insert

from rivermouth.store.archive import (
    DAYS_CAP,
    ERASED,
    SUMS_CAP,
    WALK_ROWS,
    Day,
    Erased,
    Group,
    Keeping,
    Page,
    Place,
    Purged,
    Sums,
)
from rivermouth.store.database import open_database, open_reader, renaming
from rivermouth.store.kept.tables import kept_answers
from rivermouth.store.port import CallFilter, CallRecord, CallText, Status, StoreError
from rivermouth.store.rows import ASKED, asked, conditions, has_policy, indexed, joined, plain, text_of
from rivermouth.store.tables import attempts, calls, calls_text, facts

BATCH_ROWS: Final = 500
EVERY: Final = CallFilter()

_ENDED: Final = calls.c.status != Status.OPEN.value
_COUNTED: Final = ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens")
_FLAGS: Final = ("price_estimated", "estimated", "at_least")

COLUMNS: Final[dict[Group, ColumnElement[str | None]]] = {
    Group.MODEL: func.coalesce(calls.c.provider + "/" + calls.c.model_used, calls.c.model_asked),
    Group.KEY: calls.c.key_name,
    Group.PROVIDER: calls.c.provider,
    Group.ENDPOINT: calls.c.endpoint_id,
    Group.POLICY: calls.c.policy_id,
    Group.STATUS: calls.c.status,
}
"""What each group is made by; a day is a join."""


class SqliteCallArchive:
    """The port `CallArchive` over an engine from `database`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @classmethod
    def open(cls, path: Path) -> SqliteCallArchive:
        """For the server that holds the data directory, or for who holds its lock.  Raises `StoreError`."""
        return cls(open_database(path))

    @classmethod
    def reader(cls, path: Path) -> SqliteCallArchive:
        """For reading beside a running server; a write raises `StoreError`."""
        return cls(open_reader(path))

    def page(self, limit: int, where: CallFilter = EVERY, after: Place | None = None) -> Page:
        walk = _walk(where, after)
        found = select(walk.c.seq).where(*asked(where, walk.c)).limit(limit + 1)
        with renaming(), self._engine.connect() as connection:
            connection.exec_driver_sql("BEGIN")
            rows = connection.execute(found).scalars().all()
            short = len(rows) <= limit
            end = connection.execute(_end_of(where, after)).first() if short else None
            wanted = select(calls).where(calls.c.seq.in_(rows[:limit]))
            ordered = wanted.order_by(calls.c.started_ns.desc(), calls.c.seq.desc())
            heads = connection.execute(ordered).mappings().all()
            mine = select(attempts).where(attempts.c.call_id.in_([h["id"] for h in heads]))
            lines = connection.execute(mine.order_by(attempts.c.number)).mappings().all()
        if not short:
            last = heads[-1]
            return Page(tuple(joined(heads, lines)), Place(last["started_ns"], last["seq"]))
        return Page(tuple(joined(heads, lines)), Place(*end) if end is not None else None)

    def get(self, call_id: str) -> CallRecord | None:
        with renaming(), self._engine.connect() as connection:
            connection.exec_driver_sql("BEGIN")
            heads = connection.execute(select(calls).where(calls.c.id == call_id)).mappings().all()
            mine = select(attempts).where(attempts.c.call_id == call_id).order_by(attempts.c.number)
            lines = connection.execute(mine).mappings().all()
        return joined(heads, lines)[0] if heads else None

    def text(self, call_id: str) -> CallText | None:
        with renaming(), self._engine.connect() as connection:
            row = connection.execute(select(calls_text).where(calls_text.c.call_id == call_id)).mappings().first()
        return text_of(row) if row is not None else None

    def sums(
        self, by: Sequence[Group], days: Sequence[Day], where: CallFilter = EVERY, limit: int = SUMS_CAP
    ) -> Sequence[Sums]:
        if Group.DAY in by and not days:
            return ()
        if len(days) > DAYS_CAP:
            raise StoreError(f"sums are made of {DAYS_CAP} days at most")
        with renaming(), self._engine.connect() as connection:
            rows = connection.execute(_sums(tuple(by), days, where).limit(limit)).mappings().all()
        names = [f"by_{group}" for group in by]
        return [_summed(plain(row), names) for row in rows]

    def purge(self, keeping: Keeping) -> Purged:
        gone_calls = gone_texts = gone_answers = 0
        if keeping.calls_since_ns is not None:
            old = and_(calls.c.started_ns < keeping.calls_since_ns, _ENDED)
            gone_calls = self._batches(lambda connection: _delete_calls(connection, old))
        if (unkept := _unkept(keeping)) is not None:
            gone_texts = self._batches(lambda connection: _delete_texts(connection, unkept))
        if (unwanted := _unwanted(keeping)) is not None:
            gone_answers = self._batches(lambda connection: _delete_answers(connection, unwanted))
        if gone_calls or gone_texts or gone_answers:
            self._fold()
        return Purged(gone_calls, gone_texts, gone_answers)

    def erase(self, where: CallFilter) -> Erased:
        mine = and_(true(), *conditions(where))
        todo = and_(mine, _ENDED, calls.c.erased == 0)
        texts = answers = 0

        def some(connection: Connection) -> int:
            nonlocal texts, answers
            ids = connection.execute(select(calls.c.id).where(todo).limit(BATCH_ROWS)).scalars().all()
            texts += connection.execute(delete(calls_text).where(calls_text.c.call_id.in_(ids))).rowcount
            answers += connection.execute(delete(kept_answers).where(kept_answers.c.call_id.in_(ids))).rowcount
            connection.execute(update(attempts).values(message=None).where(attempts.c.call_id.in_(ids)))
            nobody = {
                "message": None,
                "client_request_id": None,
                "end_user": None,
                "key_name": func.iif(calls.c.key_name.is_(None), None, ERASED),
                "erased": 1,
            }
            return connection.execute(update(calls).values(nobody).where(calls.c.id.in_(ids))).rowcount

        done = self._batches(some)
        with renaming(), self._engine.connect() as connection:
            left = connection.execute(select(func.count()).select_from(calls).where(mine, ~_ENDED)).scalar_one()
        if done:
            self._fold()
        return Erased(done, texts, left, answers)

    def fact(self, name: str, new: str) -> str:
        value = select(facts.c.value).where(facts.c.name == name)
        with renaming(), self._engine.connect() as connection:
            found = connection.execute(value).scalar()
            if found is None:
                connection.execute(insert(facts).values(name=name, value=new).on_conflict_do_nothing())
                connection.commit()
                found = connection.execute(value).scalar_one()
        return str(found)

    def dispose(self) -> None:
        self._engine.dispose()

    def _batches(self, some: Callable[[Connection], int]) -> int:
        """Repeats `some`, each time in a transaction of its own, until it finds nothing more to do."""
        total = 0
        with renaming(), self._engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA secure_delete=ON")
            while True:
                connection.commit()
                connection.exec_driver_sql("BEGIN IMMEDIATE")
                done = some(connection)
                connection.commit()
                total += done
                if done < BATCH_ROWS:
                    return total

    def _fold(self) -> None:
        """Moves the log into the database and empties it, as far as readers let it be."""
        with renaming(), self._engine.connect() as connection:
            connection.commit()
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")


def _order(query: Select[Any]) -> Select[Any]:
    return query.order_by(calls.c.started_ns.desc(), calls.c.seq.desc())


def _behind(after: Place | None) -> ColumnElement[bool]:
    if after is None:
        return true()
    here = tuple_(literal(after.started_ns), literal(after.seq))
    # The first of the two is what an index can begin at; the second is exact.
    return and_(calls.c.started_ns <= after.started_ns, tuple_(calls.c.started_ns, calls.c.seq) < here)


def _walk(where: CallFilter, after: Place | None) -> Any:
    """The part of an index that one page may look at, with what the filter asks of each row."""
    columns = [calls.c[name] for name in ("seq", "started_ns", *ASKED)]
    return _order(select(*columns).where(*indexed(where), _behind(after))).limit(WALK_ROWS).subquery("walk")


def _end_of(where: CallFilter, after: Place | None) -> Select[Any]:
    """The last call of a walk that was cut short; none where it reached the end."""
    here = select(calls.c.started_ns, calls.c.seq).where(*indexed(where), _behind(after))
    return _order(here).limit(1).offset(WALK_ROWS - 1)


def _sums(by: tuple[Group, ...], days: Sequence[Day], where: CallFilter) -> Select[Any]:
    source: Any = calls
    columns: dict[Group, ColumnElement[Any]] = dict(COLUMNS)
    if Group.DAY in by:
        columns_of_days = (column("day", String), column("since", BigInteger), column("until", BigInteger))
        calendar = (
            values(*columns_of_days, name="days").data([msgspec.structs.astuple(d) for d in days]).cte("calendar")
        )
        source = calendar.join(
            calls, and_(calls.c.started_ns >= calendar.c.since, calls.c.started_ns < calendar.c.until)
        )
        columns[Group.DAY] = calendar.c.day
    groups = [columns[group].label(f"by_{group}") for group in by]
    keys = [*groups, calls.c.status, calls.c.price_currency.label("currency")]
    query = select(
        *keys,
        func.count().label("calls"),
        *(func.coalesce(func.sum(calls.c[name]), 0).label(name) for name in (*_COUNTED, *_FLAGS, "price_nano")),
        func.count(calls.c.price_nano).label("priced"),
    ).select_from(source)
    return query.where(*conditions(where)).group_by(*keys).order_by(*keys)


def _summed(row: dict[str, Any], names: Sequence[str]) -> Sums:
    group = tuple(row.pop(name) for name in names)
    return msgspec.convert({**row, "group": group}, Sums, strict=False)


def _delete_calls(connection: Connection, old: ColumnElement[bool]) -> int:
    ids = connection.execute(select(calls.c.id).where(old).limit(BATCH_ROWS)).scalars().all()
    connection.execute(delete(calls_text).where(calls_text.c.call_id.in_(ids)))
    connection.execute(delete(kept_answers).where(kept_answers.c.call_id.in_(ids)))
    connection.execute(delete(attempts).where(attempts.c.call_id.in_(ids)))
    return connection.execute(delete(calls).where(calls.c.id.in_(ids))).rowcount


def _delete_texts(connection: Connection, unkept: ColumnElement[bool]) -> int:
    ids = connection.execute(select(calls_text.c.call_id).where(unkept).limit(BATCH_ROWS)).scalars().all()
    return connection.execute(delete(calls_text).where(calls_text.c.call_id.in_(ids))).rowcount


def _delete_answers(connection: Connection, unwanted: ColumnElement[bool]) -> int:
    """Those of calls that run are left: they are deleted when these have ended."""
    here = select(kept_answers.c.seq).where(kept_answers.c.ended_ns.is_not(None), unwanted).limit(BATCH_ROWS)
    rows = connection.execute(here).scalars().all()
    return connection.execute(delete(kept_answers).where(kept_answers.c.seq.in_(rows))).rowcount


def _unwanted(keeping: Keeping) -> ColumnElement[bool] | None:
    """The kept answers that may not be there; None where all may."""
    if not keeping.answers:
        return true()
    found: list[ColumnElement[bool]] = []
    if keeping.now_ns is not None:
        found.append(kept_answers.c.expires_ns <= keeping.now_ns)
    if keeping.answers_since_ns is not None:
        found.append(kept_answers.c.created_ns < keeping.answers_since_ns)
    if (mute := _mute(keeping.mute_policies, keeping.mute_endpoints)) is not None:
        found.append(kept_answers.c.call_id.in_(mute))
    mine = [
        *(((name,), (), since_ns) for name, since_ns in keeping.answers_of_policies.items()),
        *(((), (name,), since_ns) for name, since_ns in keeping.answers_of_endpoints.items()),
    ]
    for policies, endpoints, since_ns in mine:
        if (of_calls := _mute(policies, endpoints)) is not None:
            found.append(and_(kept_answers.c.created_ns < since_ns, kept_answers.c.call_id.in_(of_calls)))
    return or_(*found) if found else None


def _unkept(keeping: Keeping) -> ColumnElement[bool] | None:
    """The texts that may not be there; None where all may."""
    if not keeping.texts:
        return true()
    found: list[ColumnElement[bool]] = []
    if keeping.texts_since_ns is not None:
        found.append(calls_text.c.started_ns < keeping.texts_since_ns)
    if (mute := _mute(keeping.mute_policies, keeping.mute_endpoints)) is not None:
        found.append(calls_text.c.call_id.in_(mute))
    return or_(*found) if found else None


def _mute(policies: Collection[str], endpoints: Collection[str]) -> Select[Any] | CompoundSelect[Any] | None:
    """The calls that one of these held for, or that went to one of these; None where there are none."""
    if not policies and not endpoints:
        return None
    held = [has_policy(name) for name in policies]
    of_calls = select(calls.c.id).where(or_(false(), *held, calls.c.endpoint_id.in_(endpoints)))
    if not endpoints:
        return of_calls
    return of_calls.union(select(attempts.c.call_id).where(attempts.c.endpoint_id.in_(endpoints)))

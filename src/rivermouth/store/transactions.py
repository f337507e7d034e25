"""Transactions of one kind of store over SQLite: one thread writes over one connection, a few read over others.

Every writing transaction begins with BEGIN IMMEDIATE, so SQLite's one write lock is the lock of every row: what a
transaction has read cannot change before it has written.  In WAL mode neither side waits for the other.  `inline` runs
everything where it is called instead: for tests that have a clock of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from sqlalchemy import Connection, Engine

T = TypeVar("T")


class Transactions:
    """Over an engine of `database.open_database`, which it disposes of at its end.  name: of its threads."""

    def __init__(self, engine: Engine, name: str, *, readers: int, inline: bool = False) -> None:
        self._engine = engine
        self._writer: Connection | None = None
        self._writing = None if inline else ThreadPoolExecutor(1, name)
        self._reading = None if inline else ThreadPoolExecutor(readers, f"{name}-read")

    async def run(self, work: Callable[[Connection], T]) -> T:
        """One writing transaction.  Whatever `work` raises undoes it.

        Cancelled while it runs, it still returns only when the transaction is over.
        """
        return await _in(self._writing, lambda: self._write(work))

    async def read(self, work: Callable[[Connection], T]) -> T:
        """One consistent reading."""
        return await _in(self._reading, lambda: self._read(work))

    async def outside(self, *statements: str) -> None:
        """These, over the writer's connection, in no transaction.  Raises the driver's own errors."""

        def work() -> None:
            connection = self._writer = self._writer or self._engine.connect()
            try:
                for statement in statements:
                    connection.exec_driver_sql(statement).close()
            finally:
                connection.rollback()

        await _in(self._writing, work)

    async def close(self) -> None:
        """Release connections and threads.  Idempotent."""
        for pool in (self._writing, self._reading):
            if pool is not None:
                await asyncio.to_thread(pool.shutdown)
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
        self._engine.dispose()

    def _write(self, work: Callable[[Connection], T]) -> T:
        connection = self._writer = self._writer or self._engine.connect()
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        try:
            done = work(connection)
            connection.commit()
        except BaseException:
            connection.rollback()
            raise
        return done

    def _read(self, work: Callable[[Connection], T]) -> T:
        with self._engine.connect() as connection:
            connection.exec_driver_sql("BEGIN")
            return work(connection)


async def _in(pool: ThreadPoolExecutor | None, work: Callable[[], T]) -> T:
    """A transaction is never left half known: who is cancelled meanwhile learns of it when it is over."""
    if pool is None:
        return work()
    running = asyncio.get_running_loop().run_in_executor(pool, work)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        while not running.done():
            await asyncio.wait({running})
        if not running.cancelled():
            running.exception()
        raise

"""Chats in SQLite."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from rivermouth.store.chats.port import Taken, Tx
from rivermouth.store.chats.transaction import SqlTx
from rivermouth.store.database import renamed, renaming, storable
from rivermouth.store.transactions import Transactions

T = TypeVar("T")

READERS: Final = 2


class SqliteChatStore:
    """The port `ChatStore` over an engine of `database.open_database`, which it disposes of at its end.

    clock_ns: Unix nanoseconds.  must_exist: raises `NoSuchOwner` for who may own nothing.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        clock_ns: Callable[[], int],
        inline: bool = False,
        must_exist: Callable[[Connection, str], None] | None = None,
    ) -> None:
        self._transactions = Transactions(engine, "rivermouth-chats", readers=READERS, inline=inline)
        self._clock_ns = clock_ns
        self._must_exist = must_exist

    async def run(self, work: Callable[[Tx], T]) -> T:
        with renaming(named), storable():
            return await self._transactions.run(lambda connection: work(self._tx(connection)))

    async def read(self, work: Callable[[Tx], T]) -> T:
        with renaming(named):
            return await self._transactions.read(lambda connection: work(self._tx(connection)))

    async def close(self) -> None:
        await self._transactions.close()

    def _tx(self, connection: Connection) -> SqlTx:
        return SqlTx(connection, self._clock_ns, self._must_exist)


def named(error: DBAPIError) -> Exception:
    """The driver's exception in the words of a port whose rows can be there once."""
    if getattr(error.orig, "sqlite_errorname", "") in ("SQLITE_CONSTRAINT_UNIQUE", "SQLITE_CONSTRAINT_PRIMARYKEY"):
        return Taken(str(error.orig))
    return renamed(error)

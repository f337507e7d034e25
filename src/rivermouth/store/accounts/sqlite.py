"""Accounts in SQLite.  What is deleted over this connection is overwritten in the file, not only unlinked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from sqlalchemy import Connection, Engine, event

from rivermouth.store.accounts.port import AccountTx
from rivermouth.store.accounts.transaction import SqlAccountTx
from rivermouth.store.chats.sqlite import named
from rivermouth.store.database import BUSY_MS, renaming, storable
from rivermouth.store.transactions import Transactions

T = TypeVar("T")

READERS: Final = 2
WIPE_MS: Final = 200


class SqliteAccountStore:
    """The port `AccountStore` over an engine of `database.open_database`, which it disposes of at its end.

    clock_ns: Unix nanoseconds.
    """

    def __init__(self, engine: Engine, *, clock_ns: Callable[[], int], inline: bool = False) -> None:
        event.listen(engine, "connect", _overwrite)
        engine.dispose()  # what is connected already would not be told
        self._transactions = Transactions(engine, "rivermouth-accounts", readers=READERS, inline=inline)
        self._clock_ns = clock_ns

    async def run(self, work: Callable[[AccountTx], T]) -> T:
        with renaming(named), storable():
            return await self._transactions.run(lambda connection: work(self._tx(connection)))

    async def read(self, work: Callable[[AccountTx], T]) -> T:
        with renaming(named):
            return await self._transactions.read(lambda connection: work(self._tx(connection)))

    async def wipe(self) -> None:
        """The write-ahead log still has the pages of before: write them into the file, and empty it."""
        with renaming(named):
            await self._transactions.outside(*_EMPTY_LOG)

    async def close(self) -> None:
        await self._transactions.close()

    def _tx(self, connection: Connection) -> SqlAccountTx:
        return SqlAccountTx(connection, self._clock_ns)


_EMPTY_LOG: Final = (
    f"PRAGMA busy_timeout={WIPE_MS}",  # it keeps writers waiting while it waits for readers
    "PRAGMA wal_checkpoint(TRUNCATE)",
    f"PRAGMA busy_timeout={BUSY_MS}",
)


def _overwrite(connection: Any, record: object) -> None:
    connection.execute("PRAGMA secure_delete=ON")

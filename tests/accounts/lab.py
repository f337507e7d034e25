"""Accounts in this process: the real service and store, a clock that the test sets, and hashes that cost nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from argon2 import PasswordHasher

from rivermouth.accounts.keyring import Keyring
from rivermouth.accounts.passwords import Passwords
from rivermouth.accounts.service import Accounts
from rivermouth.accounts.settings import AccountSettings
from rivermouth.store.accounts.port import AccountStore
from rivermouth.store.accounts.sqlite import SqliteAccountStore
from rivermouth.store.accounts.transaction import must_exist
from rivermouth.store.chats.sqlite import SqliteChatStore
from rivermouth.store.database import open_database
from tests.databases import laid

NS = 1_000_000_000
EPOCH_S = 1_700_000_000.0
HERE = "198.51.100.7"


def cheap() -> PasswordHasher:
    return PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)


class Time:
    """One clock for everything."""

    def __init__(self) -> None:
        self.s = EPOCH_S

    def now_s(self) -> float:
        return self.s

    def now_ns(self) -> int:
        return int(self.s * NS)


class FakeChats:
    """Keeps what it was told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Any]] = []

    async def quiet(self, owner: str) -> None:
        self.told.append(("quiet", owner))

    def send_away(self, owner: str) -> None:
        self.told.append(("sent away", owner))

    async def forgotten(self, owner: str, chat_ids: Sequence[int]) -> None:
        self.told.append(("forgotten", (owner, list(chat_ids))))


class AccountLab:
    def __init__(self, accounts: Accounts, store: AccountStore, chats: SqliteChatStore, time: Time) -> None:
        self.accounts = accounts
        self.store = store
        self.chats = chats
        self.time = time
        self.told: list[tuple[str, Any]] = []

    async def chat(self, owner: str) -> int:
        made = await self.chats.run(lambda tx: tx.insert_chat(owner, "", titled=False, instructions=""))
        return made.id

    async def owner(self, chat_id: int) -> str | None:
        found = await self.chats.read(lambda tx: tx.chat(chat_id))
        return found.owner if found is not None else None


def with_settings(**changes: Any) -> AccountSettings:
    return msgspec.structs.replace(AccountSettings(), **changes)


@asynccontextmanager
async def account_lab(
    folder: Path, settings: AccountSettings | None = None, passwords: Passwords | None = None
) -> AsyncIterator[AccountLab]:
    time, belongings = Time(), FakeChats()
    path = laid(folder / "rivermouth.db")
    store = SqliteAccountStore(open_database(path), clock_ns=time.now_ns, inline=True)
    chats = SqliteChatStore(open_database(path), clock_ns=time.now_ns, inline=True, must_exist=must_exist)
    accounts = Accounts(
        store,
        Keyring(folder, time.now_s),
        belongings,
        settings or AccountSettings(),
        now_s=time.now_s,
        unix_s=time.now_s,
        passwords=passwords or Passwords(cheap()),
    )
    try:
        async with accounts:
            lab = AccountLab(accounts, store, chats, time)
            lab.told = belongings.told
            yield lab
    finally:
        await store.close()
        await chats.close()

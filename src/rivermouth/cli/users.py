"""`rivermouth users`: the accounts, beside a running server or without one.

Without one the data directory is taken for as long as the change lasts, and its schema brought up to date.  A server
that runs has it, and keeps nothing of an account in memory: what is written beside it holds from the next request on.
"""

from __future__ import annotations

import asyncio
import getpass
import secrets
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from rivermouth.cli.places import configured, data_of
from rivermouth.cli.term import Exit, emit, fail, printable, say, show, table
from rivermouth.cli.words import UNKNOWN, moment
from rivermouth.store.datadir import DataDir, DataDirBusy

if TYPE_CHECKING:
    from rivermouth.store.accounts.port import AccountTx, Listed
    from rivermouth.store.accounts.sqlite import SqliteAccountStore

T = TypeVar("T")

MADE_BYTES: Final = 12
TITLES: Final = ("NAME", "SINCE", "LAST SEEN", "SESSIONS", "CHATS")


def listed(*, data_dir: Path | None, config_file: Path | None, as_json: bool) -> None:
    """One line each, in the order of the names."""
    data = data_of(data_dir, config_file)
    found = _read(data) if data.database.exists() else []
    if as_json:
        emit(found)
    elif found:
        rows = (
            (one.name, moment(one.created_ns), _seen(one.seen_ns), str(one.sessions), str(one.chats)) for one in found
        )
        show(table(TITLES, rows))
    else:
        say("Nobody has an account.")


def added(name: str, *, ask: bool, data_dir: Path | None, config_file: Path | None) -> None:
    """Exits with `Exit.FAILED` for a name that somebody has.  Raises `ApiError` for one that cannot be."""
    from rivermouth.accounts import names
    from rivermouth.store.chats.port import Taken

    plain = names.shown(name)
    password, hashed = _new_password(ask, config_file)
    with _writing(data_of(data_dir, config_file)) as store:
        try:
            _run(
                store,
                lambda tx: tx.insert_user(
                    secrets.token_hex(MADE_BYTES), name=plain, name_key=names.key(plain), password=hashed
                ),
            )
        except Taken:
            fail(f"the name {printable(plain)} is taken", Exit.FAILED)
    _tell(plain, password, asked=ask)


def reset(name: str, *, ask: bool, data_dir: Path | None, config_file: Path | None) -> None:
    """Exits with `Exit.NOT_FOUND` for a name that nobody has."""
    from rivermouth.accounts import names

    key = names.key(name[: names.MOST_TYPED])

    def change(tx: AccountTx) -> str | None:
        user = tx.user_of_name(key)
        if user is None:
            return None
        tx.set_password(user.id, hashed)
        tx.end_sessions(user.id)
        return user.name

    password, hashed = _new_password(ask, config_file)
    with _writing(data_of(data_dir, config_file)) as store:
        changed = _run(store, change)
    if changed is None:
        fail(f"nobody has the name {printable(name)}", Exit.NOT_FOUND)
    _tell(changed, password, asked=ask)


def rotated(*, now: bool, data_dir: Path | None, config_file: Path | None) -> None:
    """A running server takes the new secret within seconds."""
    from rivermouth.accounts.keyring import Keyring

    config = configured(config_file)
    keyring = Keyring(data_of(data_dir, config_file, config).path, time.time)
    kid = keyring.rotate(keep_s=None if now else config.accounts.access_token_s)
    say(f"Access tokens are signed with the secret {kid} from now on.")


@contextmanager
def _writing(data: DataDir) -> Iterator[SqliteAccountStore]:
    """The store, with a server that has it or instead of one.  Raises `StoreError`."""
    from rivermouth.store.accounts.sqlite import SqliteAccountStore
    from rivermouth.store.database import open_beside, open_database

    try:
        lock = data.lock()
    except DataDirBusy:
        yield SqliteAccountStore(open_beside(data.database), clock_ns=time.time_ns, inline=True)
        return
    with lock:
        yield SqliteAccountStore(open_database(data.database), clock_ns=time.time_ns, inline=True)


def _read(data: DataDir) -> Sequence[Listed]:
    from rivermouth.store.accounts.sqlite import SqliteAccountStore
    from rivermouth.store.database import open_reader

    store = SqliteAccountStore(open_reader(data.database), clock_ns=time.time_ns, inline=True)
    return _closed_after(store, store.read(lambda tx: tx.accounts()))


def _run(store: SqliteAccountStore, work: Callable[[AccountTx], T]) -> T:
    return _closed_after(store, store.run(work))


def _closed_after(store: SqliteAccountStore, work: Awaitable[T]) -> T:
    """What one piece of work gives; the store is closed after it, with its engine."""

    async def run() -> T:
        try:
            return await work
        finally:
            await store.close()

    return asyncio.run(run())


def _new_password(ask: bool, config_file: Path | None) -> tuple[str, str]:
    """The password, and what is kept of it.  Raises `ApiError` for one that is too short."""
    from rivermouth.accounts.passwords import fitting, hasher

    password = _asked() if ask else secrets.token_urlsafe(MADE_BYTES)
    least = configured(config_file).accounts.password_min_chars if ask else 0
    return password, hasher().hash(fitting(password, least))


def _asked() -> str:
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    password = getpass.getpass("New password: ")
    if getpass.getpass("Once more: ") != password:
        fail("the two are not the same", Exit.FAILED)
    return password


def _tell(name: str, password: str, *, asked: bool) -> None:
    if asked:
        say(f"{name} has the new password.")
        return
    say(f"The new password of {name}, shown this once:")
    show(password)


def _seen(at_ns: int | None) -> str:
    return moment(at_ns) if at_ns is not None else UNKNOWN

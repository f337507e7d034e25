"""What every store of accounts does.  The suite knows the port alone; `ADAPTERS` says over what it runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from rivermouth.store.accounts.port import AccountStore, Session, User
from rivermouth.store.accounts.sqlite import SqliteAccountStore
from rivermouth.store.chats.port import NoSuchOwner, Taken
from rivermouth.store.database import open_beside, open_database, open_reader
from rivermouth.store.port import StoreError
from tests.accounts.lab import NS, Time
from tests.databases import laid

pytestmark = pytest.mark.anyio


async def _sqlite(folder: Path, time: Time) -> AccountStore:
    return SqliteAccountStore(open_database(laid(folder / "rivermouth.db")), clock_ns=time.now_ns)


ADAPTERS: dict[str, Callable[[Path, Time], Awaitable[AccountStore]]] = {"sqlite": _sqlite}


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture(params=ADAPTERS.values(), ids=ADAPTERS.keys())
async def store(request: pytest.FixtureRequest, tmp_path: Path, time: Time) -> AsyncIterator[AccountStore]:
    made: AccountStore = await request.param(tmp_path, time)
    yield made
    await made.close()


async def account(store: AccountStore, name: str = "Anna") -> User:
    key = name.lower()
    return await store.run(lambda tx: tx.insert_user(f"id-{key}", name=name, name_key=key, password="hash"))


async def session(store: AccountStore, user_id: str, session_id: str = "s1", secret: str = "a") -> Session:
    ends_ns = await store.read(lambda tx: tx.now_ns() + 100 * NS)
    return await store.run(lambda tx: tx.insert_session(session_id, user_id, secret=secret, expires_ns=ends_ns))


async def test_an_account_is_found_by_id_and_by_the_key_of_its_name(store: AccountStore) -> None:
    made = await account(store)
    assert (made.name, made.guest, made.shared) == ("Anna", False, False)
    assert await store.read(lambda tx: tx.user(made.id)) == made
    assert await store.read(lambda tx: tx.user_of_name("anna")) == made
    assert await store.read(lambda tx: tx.user_of_name("Anna")) is None
    assert await store.read(lambda tx: tx.user("other")) is None


async def test_a_name_is_one_persons(store: AccountStore) -> None:
    await account(store)
    guest = await store.run(lambda tx: tx.insert_user("g"))
    with pytest.raises(Taken):
        await store.run(lambda tx: tx.insert_user("other", name="ANNA", name_key="anna", password="x"))
    with pytest.raises(Taken):
        await store.run(lambda tx: tx.name_guest(guest.id, name="anna", name_key="anna", password="x"))
    assert await store.read(lambda tx: tx.user("other")) is None
    assert await store.read(lambda tx: tx.user("g")) == guest


async def test_a_guest_becomes_an_account_once_and_under_the_same_id(store: AccountStore) -> None:
    guest = await store.run(lambda tx: tx.insert_user("g"))
    assert guest.guest
    assert not await store.read(lambda tx: tx.any_account())
    named = {"name": "Anna", "name_key": "anna", "password": "hash"}
    assert await store.run(lambda tx: tx.name_guest("g", **named))
    assert not await store.run(lambda tx: tx.name_guest("g", name="Bob", name_key="bob", password="other"))
    assert not await store.run(lambda tx: tx.name_guest("nobody", name="Bob", name_key="bob", password="other"))
    found = await store.read(lambda tx: tx.user("g"))
    assert found is not None
    assert (found.name, found.name_key, found.password, found.guest) == ("Anna", "anna", "hash", False)
    assert await store.read(lambda tx: tx.any_account())


async def test_there_is_one_shared_guest_until_an_account_is_made_of_it(store: AccountStore) -> None:
    first = await store.read(lambda tx: tx.shared_guest())
    assert first is not None
    assert (first.id, first.guest) == ("guest", True)
    with pytest.raises(Taken):
        await store.run(lambda tx: tx.insert_shared_guest("second"))
    assert await store.run(lambda tx: tx.name_guest("guest", name="Anna", name_key="anna", password="hash"))
    assert await store.read(lambda tx: tx.shared_guest()) is None
    second = await store.run(lambda tx: tx.insert_shared_guest("second"))
    assert await store.read(lambda tx: tx.shared_guest()) == second


async def test_a_session_is_renewed_by_the_secret_that_it_has(store: AccountStore, time: Time) -> None:
    user = await account(store)
    made = await session(store, user.id)
    time.s += 5
    assert not await store.run(lambda tx: tx.renew_session("s1", was="b", secret="c", expires_ns=1))
    assert await store.read(lambda tx: tx.session("s1")) == made
    assert await store.run(lambda tx: tx.renew_session("s1", was="a", secret="b", expires_ns=7))
    now = await store.read(lambda tx: tx.session("s1"))
    assert now is not None
    assert (now.secret, now.previous, now.renewed_ns, now.expires_ns) == ("b", "a", time.now_ns(), 7)
    assert (now.created_ns, now.user_id) == (made.created_ns, user.id)


async def test_sessions_end_alone_all_together_and_by_themselves(store: AccountStore, time: Time) -> None:
    user, other = await account(store), await account(store, "Bob")
    for number in range(5):
        await session(store, user.id, f"s{number}")
        time.s += 1
    await session(store, other.id, "bobs")

    async def left() -> list[str]:
        names = [*(f"s{n}" for n in range(5)), "bobs"]
        return [name for name in names if await store.read(lambda tx, name=name: tx.session(name))]

    assert await store.run(lambda tx: tx.end_session("s1"))
    assert not await store.run(lambda tx: tx.end_session("s1"))
    assert await store.run(lambda tx: tx.end_sessions(user.id, keep=2)) == 2
    assert await left() == ["s3", "s4", "bobs"]
    time.s += 98
    assert await store.run(lambda tx: tx.end_expired()) == 1
    assert await left() == ["s4", "bobs"]
    assert await store.run(lambda tx: tx.end_sessions(user.id)) == 1
    assert await left() == ["bobs"]


async def test_nobody_has_no_session(store: AccountStore) -> None:
    with pytest.raises(NoSuchOwner):
        await session(store, "nobody")


async def test_accounts_are_listed_and_guests_are_not(store: AccountStore, time: Time) -> None:
    bob, anna = await account(store, "Bob"), await account(store, "Anna")
    await store.run(lambda tx: tx.insert_user("g"))
    time.s += 9
    await session(store, bob.id)
    first, second = await store.read(lambda tx: tx.accounts())
    assert (first.id, first.seen_ns, first.sessions, first.chats) == (anna.id, None, 0, 0)
    assert (second.id, second.seen_ns, second.sessions) == (bob.id, time.now_ns(), 1)


async def test_stranded_are_guests_without_a_session_but_for_the_shared_one(store: AccountStore) -> None:
    await account(store)
    for name in ("g1", "g2", "g3"):
        await store.run(lambda tx, name=name: tx.insert_user(name))
    await session(store, "g2")
    assert {user.id for user in await store.read(lambda tx: tx.stranded(10))} == {"g1", "g3"}
    assert len(await store.read(lambda tx: tx.stranded(1))) == 1


async def test_what_a_transaction_raises_undoes_it(store: AccountStore) -> None:
    class Halt(Exception):
        pass

    def work(tx: object) -> None:
        tx.insert_user("g")  # type: ignore[attr-defined]
        raise Halt

    with pytest.raises(Halt):
        await store.run(work)
    assert await store.read(lambda tx: tx.user("g")) is None


async def test_a_reading_cannot_write_beside_it_and_who_writes_beside_a_server_can(tmp_path: Path, time: Time) -> None:
    path = tmp_path / "rivermouth.db"
    serving = SqliteAccountStore(open_database(path), clock_ns=time.now_ns)
    reader = SqliteAccountStore(open_reader(path), clock_ns=time.now_ns, inline=True)
    with pytest.raises(StoreError):
        await account(reader)
    beside = SqliteAccountStore(open_beside(path), clock_ns=time.now_ns, inline=True)
    made = await account(beside)
    assert await serving.read(lambda tx: tx.user(made.id)) == made
    for store in (serving, reader, beside):
        await store.close()
    with pytest.raises(StoreError, match="no database"):
        open_beside(tmp_path / "other.db")

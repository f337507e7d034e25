"""Keys from their making to their end, as the service does it over a real database."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from rivermouth.config import Budget, Config, RateLimits, parse
from rivermouth.ir.errors import ApiError
from rivermouth.platform import changes
from rivermouth.platform.keyring import KeyRing, digest_of
from rivermouth.platform.service import FIRST_ADMIN, KeyChange, NewKey, PlatformService
from rivermouth.secrets import Secret, redact
from rivermouth.store.database import open_database
from rivermouth.store.platform.sqlite import SqlitePlatformStore
from rivermouth.store.sqlite import SqliteCallStore
from tests.databases import laid
from tests.platform.calls import NS, Clock
from tests.store.records import ended, opened

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("database")]

ME = "cli:me"
POLICIES = '[policies.eu]\nregions = ["eu-*"]\n'


def config(text: str = POLICIES) -> Config:
    return parse(text, "x.toml", {}, frozenset())


@asynccontextmanager
async def service(
    folder: Path, clock: Clock | None = None, text: str = POLICIES, **more: Any
) -> AsyncIterator[PlatformService]:
    clock = clock or Clock()
    store = SqlitePlatformStore(open_database(laid(folder / "rivermouth.db")))
    made = PlatformService(
        store, config(text), ring=KeyRing(), gate=clock.gate(), clock_ns=clock.now_ns, watch=False, **more
    )
    async with made:
        yield made


def known(of: PlatformService, secret: Secret, clock: Clock) -> str | None:
    """The name of the key that the secret opens."""
    found = of.ring.find(digest_of(secret.reveal()), clock.now_ns())
    return found.row.name if found is not None else None


async def error_of(work: Any) -> tuple[int, str | None, str | None]:
    with pytest.raises(ApiError) as caught:
        await work
    return caught.value.status, caught.value.code, caught.value.param


async def test_a_key_is_good_at_once_and_after_a_restart_and_its_secret_is_nowhere(tmp_path: Path) -> None:
    clock = Clock()
    async with service(tmp_path, clock) as made:
        assert not made.ring.asks
        issued = await made.create(NewKey(name="ci", policy="eu", models=("gpt-*",)), ME)
        secret = issued.secret.reveal()
        assert secret.startswith("rmk_")
        assert len(secret) == 44
        assert issued.key.prefix == secret[:12]
        assert known(made, issued.secret, clock) == "ci"
        assert made.ring.asks
        assert known(made, Secret(secret[:-1]), clock) is None
    async with service(tmp_path, clock) as again:
        assert known(again, issued.secret, clock) == "ci"
        assert again.key("ci") == again.key(issued.key.id)
        assert again.key("ci") == msgspec.structs.replace(issued.key, last_used_ns=clock.now_ns())
    for file in (path for path in tmp_path.rglob("*") if path.is_file()):
        assert secret.encode() not in file.read_bytes()
    assert secret not in redact(f"a log that has {secret} in it")


async def test_a_rotated_key_has_two_secrets_for_a_while(tmp_path: Path) -> None:
    clock = Clock()
    async with service(tmp_path, clock) as made:
        first = await made.create(NewKey(name="ci"), ME)
        second = await made.rotate("ci", ME, grace_s=100)
        assert second.key.id == first.key.id
        assert [known(made, s, clock) for s in (first.secret, second.secret)] == ["ci", "ci"]
        assert second.key.old_until_ns == clock.now_ns() + 100 * NS
        third = await made.rotate("ci", ME, grace_s=100)
        assert [known(made, s, clock) for s in (first.secret, second.secret, third.secret)] == [None, "ci", "ci"]
        clock.unix_s += 100
        assert [known(made, s, clock) for s in (second.secret, third.secret)] == [None, "ci"]
        fourth = await made.rotate("ci", ME, grace_s=0)
        assert [known(made, s, clock) for s in (third.secret, fourth.secret)] == [None, "ci"]


async def test_a_revoked_key_opens_nothing_and_the_server_stays_closed(tmp_path: Path) -> None:
    clock = Clock()
    async with service(tmp_path, clock) as made:
        issued = await made.create(NewKey(name="ci"), ME)
        await made.rotate("ci", ME)
        assert (await made.revoke("ci", ME)).status == "revoked"
        assert known(made, issued.secret, clock) is None
        assert made.ring.asks
        assert (await made.revoke("ci", ME)).status == "revoked"
        assert await error_of(made.rotate("ci", ME)) == (409, "key_revoked", None)
        assert await error_of(made.change("ci", KeyChange(user="x"), ME)) == (409, "key_revoked", None)
        assert await error_of(made.create(NewKey(name="ci"), ME)) == (409, "key_name_taken", None)
        assert [c.action for c in await made.changes()] == ["key.revoked", "key.rotated", "key.created"]
    async with service(tmp_path, clock) as again:
        assert again.ring.asks
        assert again.keys(revoked=False) == ()


async def test_an_expired_key_opens_nothing(tmp_path: Path) -> None:
    clock = Clock()
    async with service(tmp_path, clock) as made:
        issued = await made.create(NewKey(name="ci", expires_ns=clock.now_ns() + 10 * NS), ME)
        old = issued.secret
        issued = await made.rotate("ci", ME, grace_s=1000)
        clock.unix_s += 10
        assert [known(made, s, clock) for s in (old, issued.secret)] == [None, None]
        assert made.key("ci").status == "expired"
        await made.change("ci", KeyChange(expires_ns=None), ME)
        assert known(made, issued.secret, clock) == "ci"


async def test_a_change_changes_what_it_says_and_nothing_else(tmp_path: Path) -> None:
    async with service(tmp_path) as made:
        new = NewKey(name="ci", models=("a",), limits=RateLimits(concurrent=2), budget=Budget(amount=1, currency="EUR"))
        before = (await made.create(new, ME)).key
        after = await made.change("ci", KeyChange(models=None, role="admin", policy="eu"), ME)
        assert (after.models, after.role, after.policy) == (None, "admin", "eu")
        assert (after.limits, after.budget, after.id) == (before.limits, before.budget, before.id)
        entry = (await made.changes(1))[0]
        assert (entry.who, entry.action, entry.target, entry.name) == (ME, "key.changed", before.id, "ci")
        assert entry.before == '{"role":"user","models":["a"],"policy":null}'
        assert entry.after == '{"role":"admin","models":null,"policy":"eu"}'


async def test_the_log_of_changes_has_no_secret_and_no_digest(tmp_path: Path) -> None:
    async with service(tmp_path) as made:
        issued = await made.create(NewKey(name="ci"), ME)
        rotated = await made.rotate("ci", ME)
        told = "".join(entry.before + entry.after for entry in await made.changes())
        for secret in (issued.secret.reveal(), rotated.secret.reveal()):
            assert secret not in told
            assert digest_of(secret) not in told


@pytest.mark.parametrize(
    ("wanted", "param", "code"),
    [
        ({"name": "no spaces"}, "name", None),
        ({"name": ""}, "name", None),
        ({"name": "0123abcd"}, "name", None),
        ({"name": "x", "policy": "nowhere"}, "policy", "unknown_policy"),
        ({"name": "x", "role": "king"}, "role", None),
        ({"name": "x", "scopes": ("everything",)}, "scopes[0]", None),
        ({"name": "x", "models": ("",)}, "models[0]", None),
        ({"name": "x", "expires_ns": 5}, "expires_ns", None),
        ({"name": "x", "limits": RateLimits(concurrent=0)}, "limits.concurrent", None),
        ({"name": "x", "budget": Budget(amount=-1, currency="EUR")}, "budget.amount", None),
        ({"name": "x", "budget": Budget(amount=1, currency="EUR", zone="Mars/Olympus")}, "budget.zone", None),
    ],
)
async def test_a_key_that_cannot_be_is_not_made(
    tmp_path: Path, wanted: dict[str, Any], param: str, code: str | None
) -> None:
    async with service(tmp_path) as made:
        assert await error_of(made.create(NewKey(**wanted), ME)) == (400, code, param)
        assert made.keys() == ()
        assert await made.changes() == []


async def test_keys_of_the_configuration_are_shown_and_are_changed_there(tmp_path: Path) -> None:
    text = '[server]\nkeys = ["everybodys-key"]\n[keys.ci]\nkey = "the-key-of-ci"\nrole = "auditor"\n'
    async with service(tmp_path, text=text) as made:
        views = made.keys()
        assert [(v.id.partition(":")[0], v.source, v.role) for v in views] == [
            ("server", "server", "user"),
            ("config", "config", "auditor"),
        ]
        assert await error_of(made.revoke("ci", ME)) == (409, "key_configured", None)
        assert await error_of(made.create(NewKey(name="ci"), ME)) == (409, "key_name_taken", None)
        assert await error_of(made.revoke("nobody", ME)) == (404, "key_not_found", None)


async def test_the_configurations_key_of_the_same_name_wins(tmp_path: Path) -> None:
    clock = Clock()
    async with service(tmp_path, clock) as made:
        issued = await made.create(NewKey(name="ci", limits=RateLimits(concurrent=1)), ME)
        made.adopt(config('[keys.ci]\nkey = "the-key-of-ci"\n'))
        assert known(made, issued.secret, clock) is None
        assert made.key(issued.key.id).status == "shadowed"
        assert made.limits("ci").limits == RateLimits()
        made.adopt(config())
        assert known(made, issued.secret, clock) == "ci"
        assert made.limits("ci").limits == RateLimits(concurrent=1)


@pytest.mark.parametrize(
    ("text", "made_one"),
    [
        ("", False),
        ('[server]\nkeys = ["everybodys-key"]\n', True),
        ("[server]\nrequire_keys = true\n", True),
        ('[keys.ci]\nkey = "the-key-of-ci"\n', True),
        ('[keys.ci]\nkey = "the-key-of-ci"\nrole = "admin"\n', False),
    ],
    ids=["open", "common", "required", "own", "admin"],
)
async def test_the_first_admin_is_made_once_and_only_where_keys_are_asked_for(
    tmp_path: Path, text: str, made_one: bool
) -> None:
    async with service(tmp_path, text=text) as made:
        issued = await made.first_admin()
        assert (issued is not None) == made_one
        assert made.ring.asks == made_one
        assert issued is None or (issued.key.name, issued.key.role) == (FIRST_ADMIN, "admin")
        assert await made.first_admin() is None
    async with service(tmp_path, text=text) as again:
        assert await again.first_admin() is None


async def test_what_another_process_changes_is_taken_over(tmp_path: Path) -> None:
    clock = Clock()
    async with service(tmp_path, clock) as server, service(tmp_path, clock) as command:
        issued = await command.create(NewKey(name="ci", limits=RateLimits(concurrent=3)), ME)
        assert known(server, issued.secret, clock) is None
        await server.refresh()
        assert known(server, issued.secret, clock) == "ci"
        assert server.limits("ci").limits.concurrent == 3
        await command.revoke("ci", ME)
        await server.refresh()
        assert known(server, issued.secret, clock) is None


async def test_of_two_changes_at_once_one_is_told_that_it_is_too_late(tmp_path: Path) -> None:
    async with service(tmp_path) as server, service(tmp_path) as command:
        await command.create(NewKey(name="ci"), ME)
        await server.refresh()
        await command.change("ci", KeyChange(user="them"), ME)
        assert await error_of(server.change("ci", KeyChange(user="us"), ME)) == (409, "key_changed", None)
        assert server.key("ci").user == "them"
        assert (await server.change("ci", KeyChange(user="us"), ME)).user == "us"


async def test_a_change_that_its_caller_gives_up_is_taken_over_all_the_same(tmp_path: Path) -> None:
    async with service(tmp_path) as made:
        asking = asyncio.ensure_future(made.create(NewKey(name="ci"), ME))
        await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await made.refresh()
        with sqlite3.connect(tmp_path / "rivermouth.db") as raw:
            written = raw.execute("SELECT count(*) FROM platform_keys").fetchone()[0]
        raw.close()
        assert len(made.keys()) == written


async def test_when_a_key_was_used_is_kept(tmp_path: Path) -> None:
    clock = Clock()
    async with service(tmp_path, clock) as made:
        issued = await made.create(NewKey(name="ci"), ME)
        assert made.key("ci").last_used_ns is None
        clock.unix_s += 5
        known(made, issued.secret, clock)
        assert made.key("ci").last_used_ns == clock.now_ns()
    async with service(tmp_path, clock) as again:
        assert again.key("ci").last_used_ns == clock.now_ns()


async def test_budgets_are_known_from_the_records_when_the_service_starts(tmp_path: Path) -> None:
    clock = Clock()
    async with service(tmp_path, clock) as made:
        await made.create(NewKey(name="ci", budget=Budget(amount=9, currency="EUR", period="day")), ME)
    calls = SqliteCallStore.open(tmp_path / "rivermouth.db")
    fields = {"key_name": "ci", "started_ns": clock.now_ns() - NS}
    calls.close([ended(opened(1, **fields), price_nano=4 * NS, ended_ns=5)])
    calls.insert_open([opened(2, **fields)])
    calls.interrupt_open()
    calls.dispose()
    flushed = 0

    async def flush() -> None:
        nonlocal flushed
        flushed += 1

    async with service(tmp_path, clock, flush=flush) as again:
        (state,) = again.budgets()
        assert (state.kind, state.name, state.spent_nano, state.known) == ("key", "ci", 4 * NS, True)
        assert flushed == 1
        await again.refresh()
        assert flushed == 1


async def test_a_budget_of_a_new_configuration_is_read_soon_and_closed_until_then(tmp_path: Path) -> None:
    async with service(tmp_path) as made:
        made.adopt(config('[policies.eu]\nbudget = { amount = 5, currency = "EUR" }\n'))
        assert [state.known for state in made.budgets()] == [False]
        await asyncio.gather(*made._tasks)
        assert [state.known for state in made.budgets()] == [True]


async def test_others_may_write_into_the_log_of_changes(tmp_path: Path) -> None:
    async with service(tmp_path) as made:
        await made.note("data.deleted", "key:boss", target="user:zoe", name="zoe", after={"calls": 7})
        (entry,) = await made.changes()
        assert (entry.action, entry.before, entry.after) == ("data.deleted", "null", '{"calls":7}')


def test_a_field_that_is_not_there_is_not_changed() -> None:
    assert all(getattr(KeyChange(), name) is UNSET for name in KeyChange.__struct_fields__)
    assert set(KeyChange.__struct_fields__) == set(NewKey.__struct_fields__) - {"name"}


def test_no_two_secrets_are_the_same() -> None:
    assert len({changes.new_secret() for _ in range(200)} | {changes.new_id() for _ in range(200)}) == 400

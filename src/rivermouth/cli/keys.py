"""`rivermouth keys`: the platform keys of the database, made, shown, rotated and revoked by whoever may write it.

Who can write the data directory needs no key to make one.  Where no server runs, the directory is taken for as long as
the command writes.  Beside a running server it writes all the same, in one transaction; the server looks for changes
every second, and then goes by them.
"""

from __future__ import annotations

import asyncio
import getpass
import re
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import typer

from rivermouth.cli.places import config_path, configured, data_of, placed
from rivermouth.cli.term import emit, one_line, say, show, table
from rivermouth.cli.words import NS, UNKNOWN, ago, moment
from rivermouth.config import Budget, Config, ConfigError, remains
from rivermouth.platform.changes import NewKey, refused
from rivermouth.platform.gate import PlatformGate
from rivermouth.platform.keyring import KeyRing
from rivermouth.platform.service import GRACE_S, Issued, KeyView, PlatformService
from rivermouth.store.backup import schema_at
from rivermouth.store.database import open_database
from rivermouth.store.datadir import DataDir, DataDirBusy
from rivermouth.store.platform.port import PlatformStore
from rivermouth.store.platform.sqlite import SqlitePlatformStore
from rivermouth.store.port import StoreError
from rivermouth.store.tables import HEAD

T = TypeVar("T")

DAY_S: Final = 86_400.0
CLOSES: Final = "It is the first: from now on everybody needs a key, for good."
"""What the first key does to a server that has asked nobody for one."""
BUDGET: Final = re.compile(r"([0-9]+(?:[.][0-9]+)?) +([A-Z]{3})(?:/(day|month))?")


def create(new: NewKey, *, data_dir: Path | None, config_file: Path | None, as_json: bool) -> None:
    """A new key; its secret goes to stdout, once."""

    async def one(service: PlatformService) -> tuple[Issued, bool]:
        open_before = not service.asks
        return await service.create(new, _who()), open_before

    made, open_before = _done(one, data_dir, config_file, strict=True)
    _tell(made, as_json=as_json)
    if open_before:
        say(CLOSES)


def rotate(key: str, *, grace_s: float | None, data_dir: Path | None, config_file: Path | None, as_json: bool) -> None:
    """Another secret for a key."""
    grace_s = GRACE_S if grace_s is None else grace_s
    _tell(_done(lambda service: service.rotate(key, _who(), grace_s), data_dir, config_file), as_json=as_json)


def revoke(key: str, *, data_dir: Path | None, config_file: Path | None, as_json: bool) -> None:
    """The end of a key."""
    view = _done(lambda service: service.revoke(key, _who()), data_dir, config_file)
    if as_json:
        emit(view)
    else:
        say(f"The key '{view.name}' is revoked.")


def listed(*, revoked: bool, data_dir: Path | None, config_file: Path | None, as_json: bool) -> None:
    """The keys, those of the configuration too."""

    async def keys(service: PlatformService) -> tuple[KeyView, ...]:
        return service.keys(revoked=revoked)

    found = _done(keys, data_dir, config_file)
    if as_json:
        emit(found)
    elif found:
        show(table(("NAME", "PREFIX", "ROLE", "STATUS", "USER", "LAST USED", "ID"), map(_row, found)))
    else:
        say("There are no keys: nobody is asked for one, unless server.require_keys says so.")


def shown(key: str, *, data_dir: Path | None, config_file: Path | None, as_json: bool) -> None:
    """One key, without its secret, which nobody has."""

    async def one(service: PlatformService) -> KeyView:
        return service.key(key)

    view = _done(one, data_dir, config_file)
    if as_json:
        emit(view)
    else:
        show("\n".join(one_line(line) for line in account(view)))


def account(view: KeyView) -> list[str]:
    """A key as lines for a person."""
    limits = [f"{value} {words}" for name, words in LIMITS.items() if (value := getattr(view.limits, name)) is not None]
    facts = {
        "key": view.id,
        "name": view.name,
        "from": view.source,
        "begins": view.prefix or "",
        "status": view.status,
        "role": view.role,
        "user": view.user or "",
        "calls": "resumable" if view.resumable else "",
        "scopes": ", ".join(view.scopes) if view.scopes is not None else "all of its role",
        "models": ", ".join(view.models) if view.models is not None else "all",
        "policy": view.policy or "",
        "limits": ", ".join(limits),
        "budget": budget_words(view.budget) if view.budget is not None else "",
        "made": f"{_moment(view.created_ns)} by {view.created_by}" if view.created_ns is not None else "",
        "expires": _moment(view.expires_ns),
        "revoked": _moment(view.revoked_ns),
        "last used": _moment(view.last_used_ns),
        "old secret": f"good until {_moment(view.old_until_ns)}" if view.old_until_ns is not None else "",
    }
    return [f"{name:<11} {text}" for name, text in facts.items() if text]


LIMITS: Final = {
    "requests_per_minute": "calls a minute",
    "tokens_per_minute": "tokens a minute",
    "concurrent": "at once",
}


def budget_words(budget: Budget) -> str:
    """50 EUR a month, midnight in Europe/Berlin."""
    return f"{budget.amount:g} {budget.currency} a {budget.period}, midnight in {budget.zone}"


def wanted(
    name: str,
    *,
    role: str,
    scopes: list[str] | None,
    models: list[str] | None,
    policy: str | None,
    user: str | None,
    resumable: bool,
    limits: dict[str, int | None],
    budget: str | None,
    zone: str,
    days: float | None,
) -> NewKey:
    """What the command line asks for.  Raises `ApiError` for what cannot be.

    budget: as in "50 EUR/month".  days: until it expires.
    """
    fields: dict[str, Any] = {
        "name": name,
        "role": role,
        "scopes": scopes or None,
        "models": models or None,
        "policy": policy,
        "user": user,
        "resumable": resumable,
        "limits": {limit: value for limit, value in limits.items() if value is not None},
        "budget": _budget_of(budget, zone) if budget is not None else None,
        "expires_ns": time.time_ns() + int(days * DAY_S * NS) if days is not None else None,
    }
    try:
        return msgspec.convert(fields, NewKey)
    except msgspec.ValidationError as error:
        raise refused(error) from None


def _budget_of(text: str, zone: str) -> dict[str, Any]:
    found = BUDGET.fullmatch(text.strip())
    if found is None:
        raise typer.BadParameter(f"{text!r} is no budget, as in '50 EUR/month' or '2 EUR/day'")
    return {"amount": float(found[1]), "currency": found[2], "period": found[3] or "month", "zone": zone}


def _done(
    work: Callable[[PlatformService], Awaitable[T]],
    data_dir: Path | None,
    config_file: Path | None,
    *,
    strict: bool = False,
) -> T:
    """What `work` gives, from a service over the database that ends with it.

    strict: not without the configuration.  Else one that cannot be used here, for want of a secret in this shell or
    for a fault, keeps nobody from revoking a key.
    """
    try:
        config = configured(config_file)
    except ConfigError as error:
        kept = remains(config_path(config_file)) or (Config() if placed(data_dir) else None)
        if strict or kept is None:  # None: the database of another place would be looked at
            raise
        say(f"Without the configuration, which cannot be used: {error.problems[0]}")
        config = kept
    data = data_of(data_dir, config_file, config=config)

    async def run(store: PlatformStore) -> T:
        service = PlatformService(store, config, ring=KeyRing(), gate=PlatformGate(), watch=False)
        async with service:
            return await work(service)

    with _database(data) as store:
        return asyncio.run(run(store))


@contextmanager
def _database(data: DataDir) -> Iterator[PlatformStore]:
    """The database, to be written: taken for this command, or beside the server that has it.

    Raises `StoreError` where that server is of another version: its schema must stay what it is.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(data.lock())
        except DataDirBusy:
            found = schema_at(data.database)
            if found != HEAD:
                raise StoreError(f"the server that runs has the schema {found}, this program {HEAD}") from None
        yield SqlitePlatformStore(open_database(data.database))


def _tell(issued: Issued, *, as_json: bool) -> None:
    if as_json:
        emit({"key": issued.key, "secret": issued.secret.reveal()})
        return
    say(f"The secret of '{issued.key.name}' follows; it is kept nowhere and cannot be shown again.")
    if issued.key.old_until_ns is not None:
        say(f"The one before it is good until {_moment(issued.key.old_until_ns)}.")
    show(issued.secret.reveal())


def _who() -> str:
    """For the log of changes."""
    try:
        return f"cli:{getpass.getuser()}"
    except (OSError, KeyError):
        return "cli"


def _row(view: KeyView) -> tuple[str, ...]:
    used = ago(view.last_used_ns / NS, time.time()) if view.last_used_ns is not None else UNKNOWN
    return view.name, view.prefix or UNKNOWN, view.role, view.status, view.user or "", used, view.id


def _moment(at_ns: int | None) -> str:
    return moment(at_ns) if at_ns is not None else ""

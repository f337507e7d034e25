"""Keys and what belongs to them, for whoever manages them: the API under /platform/v1, and the command line.

    change -> one transaction in the database, with its entry in the log of changes
           -> the keyring and the gate of this process take it over, before the method returns
    change by another process (the command line beside a running server)
           -> `watch` sees a new revision within `LOOK_S`, and takes it over the same way

Nothing here knows HTTP.  Whoever calls has looked at the caller's role before: `list`, `changes` and the states are for
auditors and admins, every change for admins alone.  Each change is told who makes it, as `ChangeRow.who` has it.

Errors are `ApiError`: not_found (404, code `key_not_found`) for a key that is not there; invalid_request (400) with
`param` for a value that cannot be; 409 with code `key_name_taken`, `key_changed` (somebody changed it meanwhile: read
and try again), `key_revoked` (a revoked key cannot be changed) or `key_configured` (it stands in the configuration
file, and is changed there).  A database that fails raises `StoreError`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, Final

import msgspec
import structlog

from rivermouth.config import Config
from rivermouth.ir.errors import ApiError, Kind, invalid
from rivermouth.platform import changes
from rivermouth.platform.changes import KeyChange, NewKey
from rivermouth.platform.gate import BudgetState, LimitState, PlatformGate
from rivermouth.platform.keyring import KeyRing
from rivermouth.platform.terms import Terms, terms_of
from rivermouth.platform.views import KeyView, configured_views, view_of
from rivermouth.secrets import Secret
from rivermouth.store.platform.port import ChangeRow, KeyRow, PlatformStore, Taken
from rivermouth.store.port import StoreError

__all__ = [
    "Issued",
    "KeyChange",
    "KeyView",
    "NewKey",
    "PlatformService",
]

log = structlog.get_logger()

LOOK_S: Final = 1.0
TOUCH_S: Final = 60
FORGET_S: Final = 3600
FORGOTTEN_NS: Final = 32 * 86_400 * 1_000_000_000
"""No period of a budget is longer."""
GRACE_S: Final = 86_400.0
SERVER: Final = "server"
FIRST_ADMIN: Final = "first-admin"


class Issued(msgspec.Struct, frozen=True):
    """A key that was just made or rotated, and its secret, which nobody will ever be shown again."""

    key: KeyView
    secret: Secret


class PlatformService:
    """`async with PlatformService(...)`: from then on the keyring and the gate are as the database has them.

    flush: returns when every record handed in before is in the database.  watch: look for changes by others.
    """

    def __init__(
        self,
        store: PlatformStore,
        config: Config,
        *,
        ring: KeyRing,
        gate: PlatformGate,
        flush: Callable[[], Any] | None = None,
        clock_ns: Callable[[], int] = time.time_ns,
        watch: bool = True,
    ) -> None:
        self._store = store
        self._config = config
        self._ring = ring
        self._gate = gate
        self._flush = flush
        self._clock_ns = clock_ns
        self._watches = watch
        self._rows: dict[str, KeyRow] = {}
        self._revision = -1
        self._one_at_a_time = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._writing: set[asyncio.Future[None]] = set()

    @property
    def ring(self) -> KeyRing:
        """The valid keys of the database, for whoever judges requests."""
        return self._ring

    @property
    def gate(self) -> PlatformGate:
        """For the engine."""
        return self._gate

    # what there is

    def keys(self, *, revoked: bool = True) -> tuple[KeyView, ...]:
        """Every key: those of the configuration first, then those of the database as they were made."""
        now_ns = self._clock_ns()
        rows = (row for row in self._rows.values() if revoked or row.revoked_ns is None)
        return (*configured_views(self._config), *(self._view(row, now_ns) for row in rows))

    def key(self, key: str) -> KeyView:
        """One, by its id or its name.  Raises `ApiError` not_found."""
        found = next((view for view in self.keys() if key in (view.id, view.name)), None)
        if found is None:
            raise _no_key(key)
        return found

    def limits(self, key: str | None) -> LimitState:
        """What the key of that name has taken of its limits in this minute; None: what all together have of the
        server's."""
        return self._gate.limit_state(key)

    def budgets(self) -> tuple[BudgetState, ...]:
        """Every budget of a key and of a policy: what is spent and reserved of it in its present period."""
        return self._gate.budget_states()

    async def changes(
        self, limit: int = 100, before: int | None = None, target: str | None = None
    ) -> Sequence[ChangeRow]:
        """The log of changes, the newest first.  before: `seq` of the last entry of the page before."""
        return await asyncio.to_thread(self._store.changes, limit, before, target)

    # what can be changed

    async def create(self, new: NewKey, by: str) -> Issued:
        """A key that is valid when this returns."""
        row, secret = changes.issue(changes.checked(new), by, self._clock_ns(), changes.new_secret(), changes.new_id())
        self._check_name(row.name)
        self._check_policy(row.policy)
        entry = changes.entry("key.created", by, row.created_ns, before=None, after=row)
        await self._write(
            lambda: self._store.insert_key(row, entry),
            _conflict(f"a key is, or was, called '{row.name}', and no name is given twice", "key_name_taken"),
        )
        return Issued(self.key(row.id), secret)

    async def change(self, key: str, change: KeyChange, by: str) -> KeyView:
        """Other limits, another policy ...; what `change` does not say stays as it is."""
        row = self._row(key)
        after = changes.changed(row, changes.checked(change), self._clock_ns())
        if after.name != row.name:
            raise invalid("a key keeps its name, because records have it", "name")
        if after.policy != row.policy:
            self._check_policy(after.policy)
        await self._replace("key.changed", by, row, after)
        return self.key(row.id)

    async def rotate(self, key: str, by: str, grace_s: float = GRACE_S) -> Issued:
        """Another secret for the same key; the one before is good for `grace_s` more, and one before that no more."""
        row = self._row(key)
        after, secret = changes.rotated(row, self._clock_ns(), changes.new_secret(), grace_s)
        await self._replace("key.rotated", by, row, after)
        return Issued(self.key(row.id), secret)

    async def revoke(self, key: str, by: str) -> KeyView:
        """Nobody comes in with it any more, when this returns; calls that run are not ended.  Idempotent."""
        row = self._row(key, revoked=True)
        if row.revoked_ns is None:
            await self._replace("key.revoked", by, row, changes.revoked(row, self._clock_ns()))
        return self.key(row.id)

    async def note(
        self, action: str, by: str, *, target: str, name: str, before: Any = None, after: Any = None
    ) -> None:
        """An entry in the log of changes, for a change of something that is not here.  No secret may be in it."""
        made = changes.note(action, by, self._clock_ns(), target=target, name=name, before=before, after=after)
        await asyncio.to_thread(self._store.add_change, made)

    @property
    def asks(self) -> bool:
        """Does a server of this configuration and this database ask for keys?"""
        server = self._config.server
        return bool(self._rows or server.keys or self._config.keys or server.require_keys)

    async def first_admin(self) -> Issued | None:
        """An admin's key at the first start of a server that asks for keys: where no key was ever made in the database
        and the configuration has no admin.  None in every other case; an open server stays open.
        """
        keys = self._config.keys
        if not self.asks or self._rows or any(key.role == "admin" for key in keys.values()):
            return None
        return await self.create(NewKey(name=FIRST_ADMIN, role="admin"), SERVER)

    # how it follows the configuration and the database

    def adopt(self, config: Config) -> None:
        """The configuration is another one.  New budgets refuse until what was spent of them is read, which is soon."""
        self._config = config
        self._take_over()
        if self._gate.unread():
            self._spawn(self._read_budgets())

    async def refresh(self) -> None:
        """Take over what the database says now.  Raises `StoreError`."""
        async with self._one_at_a_time:
            await self._refreshed()

    async def __aenter__(self) -> PlatformService:
        await self.refresh()
        if self._watches:
            self._spawn(self._watch())
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, *self._writing, return_exceptions=True)
        try:
            await self._touch()
        except StoreError as error:
            log.warning("platform.store_failed", work="touch", reason=str(error))
        finally:
            await asyncio.to_thread(self._store.dispose)

    async def _refreshed(self) -> None:
        def read() -> tuple[int, Sequence[KeyRow]]:
            return self._store.revision(), self._store.keys()  # in this order: what comes between is read twice

        self._revision, rows = await asyncio.to_thread(read)
        self._rows = {row.id: row for row in rows}
        self._take_over()
        await self._read_budgets()

    def _take_over(self) -> None:
        taken = set(self._config.keys)
        shadowed = [row.name for row in self._rows.values() if row.name in taken and row.revoked_ns is None]
        if shadowed:
            log.warning("keys.shadowed", names=shadowed, reason="the configuration has keys of these names")
        self._ring.replace(row for row in self._rows.values() if row.name not in taken)
        terms: Terms = terms_of(self._config, self._rows.values())
        self._gate.adopt(terms)

    async def _read_budgets(self) -> None:
        """What was spent of budgets that are new here, from the records.  Until then they refuse every call."""
        for since_ns, until_ns in self._gate.unread():
            ended_ns = self._gate.watched_since(since_ns)
            if self._flush is not None:
                await self._flush()
            spent = await asyncio.to_thread(self._store.spent, since_ns, until_ns, ended_ns)
            self._gate.read(since_ns, until_ns, spent)

    async def _watch(self) -> None:
        for second in count(1):
            await asyncio.sleep(LOOK_S)
            try:
                if await asyncio.to_thread(self._store.revision) != self._revision or self._gate.unread():
                    await self.refresh()
                if second % TOUCH_S == 0:
                    await self._touch()
                if second % FORGET_S == 1:
                    await asyncio.to_thread(self._store.forget, self._clock_ns() - FORGOTTEN_NS)
            except StoreError as error:
                log.warning("platform.store_failed", work="watch", reason=str(error))

    async def _touch(self) -> None:
        used = self._ring.take_used()
        if used:
            await asyncio.to_thread(self._store.touch, used)
            for key_id, at_ns in used.items():
                row = self._rows.get(key_id)
                if row is not None:
                    self._rows[key_id] = msgspec.structs.replace(row, last_used_ns=at_ns)

    # how changes are made

    async def _replace(self, action: str, by: str, row: KeyRow, after: KeyRow) -> None:
        entry = changes.entry(action, by, self._clock_ns(), before=row, after=after)
        await self._write(
            lambda: self._store.replace_key(after, entry),
            _conflict(f"the key '{row.name}' was changed meanwhile; read it again", "key_changed"),
        )

    async def _write(self, write: Callable[[], None], too_late: ApiError) -> None:
        """The change and what follows from it.  Cancelled meanwhile, what was written is taken over all the same."""

        async def written() -> None:
            async with self._one_at_a_time:
                try:
                    await asyncio.to_thread(write)
                except Taken:
                    raise too_late from None
                finally:
                    await self._refreshed()

        writing = asyncio.ensure_future(written())
        self._writing.add(writing)
        writing.add_done_callback(self._written)
        await asyncio.shield(writing)

    def _written(self, writing: asyncio.Future[None]) -> None:
        self._writing.discard(writing)
        if not writing.cancelled():
            writing.exception()  # whoever asked for it may have gone

    def _row(self, key: str, *, revoked: bool = False) -> KeyRow:
        view = self.key(key)
        row = self._rows.get(view.id)
        if row is None:
            raise _conflict(f"the key '{view.name}' is the configuration's, and changed there", "key_configured")
        if row.revoked_ns is not None and not revoked:
            raise _conflict(f"the key '{row.name}' is revoked", "key_revoked")
        return row

    def _check_name(self, name: str) -> None:
        if name in {view.name for view in self.keys()}:
            raise _conflict(f"a key is called '{name}'", "key_name_taken")

    def _check_policy(self, policy: str | None) -> None:
        if policy is not None and policy not in self._config.policies:
            known = f"; there are: {', '.join(self._config.policies)}" if self._config.policies else ""
            raise invalid(f"no policy is called '{policy[:100]}'{known}", "policy", "unknown_policy")

    def _view(self, row: KeyRow, now_ns: int) -> KeyView:
        return view_of(row, now_ns, used_ns=self._ring.used_ns(row.id), shadowed=row.name in self._config.keys)

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("platform.task_failed", exc_info=task.exception())


def _no_key(key: str) -> ApiError:
    return ApiError(Kind.NOT_FOUND, f"there is no key '{key[:100]}'", code="key_not_found")


def _conflict(text: str, code: str) -> ApiError:
    return ApiError(Kind.INVALID_REQUEST, text, status=409, code=code)

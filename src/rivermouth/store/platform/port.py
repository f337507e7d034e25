"""What a store of platform keys must do, and the values it keeps.

A key's row holds the digest of its secret and never the secret.  A row is never removed and its name never given again,
so whoever stands in an old record can still be found.  Every change is one transaction with its entry in the log of
changes, which can only be added to; each raises `revision`, by which another process learns that something changed.

All methods are synchronous and may block; they may be called from any thread.  Adapters rename their engine's
exceptions to `StoreError`.  The contract suite in tests/platform/test_store.py runs over every adapter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from rivermouth.config import Budget, RateLimits, Role, Scope


class KeyRow(msgspec.Struct, frozen=True, kw_only=True):
    """A platform key.  Times are Unix nanoseconds.

    id: "key_" and 16 hex digits.  name: how records call it.  prefix: the beginning of the secret, which may be shown.
    digest: of the secret, SHA-256 in hex.  old_digest: that of the secret before, good until old_until_ns.
    scopes, models: None: all that the role may.  policy: the name of one that holds for every call of the key.
    user: whose it is, in the operator's words.  resumable: all its calls are.  created_by: as `ChangeRow.who`.
    last_used_ns: to about a minute.
    version: how often the row was written; a change is made to the version that was read, or not at all.
    """

    id: str
    name: str
    prefix: str
    digest: str
    old_digest: str | None = None
    old_until_ns: int | None = None
    role: Role = "user"
    scopes: tuple[Scope, ...] | None = None
    models: tuple[str, ...] | None = None
    policy: str | None = None
    user: str | None = None
    resumable: bool = False
    limits: RateLimits = RateLimits()
    budget: Budget | None = None
    created_ns: int
    created_by: str
    expires_ns: int | None = None
    revoked_ns: int | None = None
    last_used_ns: int | None = None
    version: int = 1


class ChangeRow(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of the log of changes.

    seq: grows with every entry.  who: "key:NAME", "cli:USER", "server", or "anybody" on a server without keys.
    action: as in "key.created".  target: the id of what was changed; name: how people call it.
    before, after: JSON, without any secret and without its digest; "null" where there was nothing.
    """

    seq: int = 0
    at_ns: int
    who: str
    action: str
    target: str
    name: str
    before: str = "null"
    after: str = "null"


class SpentRow(msgspec.Struct, frozen=True, kw_only=True):
    """What calls of one key under these policies cost, in billionths.  policy_id: as in `CallRecord`."""

    key_name: str | None
    policy_id: str | None
    currency: str
    nano: int


class LateRow(SpentRow, frozen=True, kw_only=True):
    """The same of one call."""

    call_id: str


class Spent(msgspec.Struct, frozen=True):
    """What the ended calls that started in a period cost.

    sums: of those that ended before the moment asked about; late: each of those that ended then or after it.
    """

    sums: Sequence[SpentRow]
    late: Sequence[LateRow]


class Taken(Exception):
    """There is a key of that name, or the row is not the version that was read any more."""


class PlatformStore(Protocol):
    """The port."""

    def revision(self) -> int:
        """A number that has grown when keys were changed; cheap to ask for."""
        ...

    def keys(self) -> Sequence[KeyRow]:
        """All, the revoked ones too, in the order in which they were made."""
        ...

    def insert_key(self, row: KeyRow, change: ChangeRow) -> None:
        """Raises `Taken` for an id, a name or a digest that is there."""
        ...

    def replace_key(self, row: KeyRow, change: ChangeRow) -> None:
        """Over the row of that id whose version is one lower.  Raises `Taken` where there is none such.

        `last_used_ns` stays what it is.
        """
        ...

    def touch(self, used: Mapping[str, int]) -> None:
        """When keys were last used, by id.  No change that is logged, and no new revision."""
        ...

    def add_change(self, change: ChangeRow) -> None:
        """An entry for a change of something that is not here."""
        ...

    def changes(self, limit: int, before: int | None = None, target: str | None = None) -> Sequence[ChangeRow]:
        """At most `limit` entries, the newest first; before: only those with a lower `seq`."""
        ...

    def spent(self, since_ns: int, until_ns: int, ended_ns: int) -> Spent:
        """What calls that started in [since, until) and have ended cost, all from one view of the database.

        ended_ns: the moment that parts `sums` from `late`.  Calls that were erased or deleted since are in `sums`.
        """
        ...

    def forget(self, before_ns: int) -> None:
        """What erased and deleted calls had cost that started before this; no budget counts them any more."""
        ...

    def dispose(self) -> None:
        """Release connections.  Idempotent."""
        ...

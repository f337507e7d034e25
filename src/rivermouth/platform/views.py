"""Keys as they are shown: without secrets and digests, those of the configuration beside those of the database."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from rivermouth.config import Budget, Config, RateLimits, Role, Scope
from rivermouth.platform.keyring import fingerprint
from rivermouth.store.platform.port import KeyRow

Source = Literal["database", "config", "server"]
Standing = Literal["active", "expired", "revoked", "shadowed"]


class KeyView(msgspec.Struct, frozen=True, kw_only=True):
    """One key.  Times are Unix nanoseconds, as in `KeyRow`.

    id: of the database's row; "config:NAME" for a `[keys.NAME]`, "server:FINGERPRINT" for one of `server.keys`.
    prefix: how the secret begins, for people who look for theirs; None for keys of the configuration.
    status: "shadowed": the configuration has a key of that name, so this one opens nothing.
    old_until_ns: until when the secret of before the last rotation is good too; None where none is.
    """

    id: str
    name: str
    source: Source
    status: Standing = "active"
    prefix: str | None = None
    role: Role = "user"
    scopes: tuple[Scope, ...] | None = None
    models: tuple[str, ...] | None = None
    policy: str | None = None
    user: str | None = None
    resumable: bool = False
    limits: RateLimits = RateLimits()
    budget: Budget | None = None
    created_ns: int | None = None
    created_by: str | None = None
    expires_ns: int | None = None
    revoked_ns: int | None = None
    last_used_ns: int | None = None
    old_until_ns: int | None = None
    version: int = 0


def view_of(row: KeyRow, now_ns: int, *, used_ns: int | None = None, shadowed: bool = False) -> KeyView:
    """used_ns: when it was last used, where that is newer than what the row says."""
    used = max(used_ns or 0, row.last_used_ns or 0) or None
    old_until_ns = row.old_until_ns if row.old_until_ns is not None and row.old_until_ns > now_ns else None
    return KeyView(
        id=row.id,
        name=row.name,
        source="database",
        status=standing(row, now_ns, shadowed=shadowed),
        prefix=row.prefix,
        role=row.role,
        scopes=row.scopes,
        models=row.models,
        policy=row.policy,
        user=row.user,
        resumable=row.resumable,
        limits=row.limits,
        budget=row.budget,
        created_ns=row.created_ns,
        created_by=row.created_by,
        expires_ns=row.expires_ns,
        revoked_ns=row.revoked_ns,
        last_used_ns=used,
        old_until_ns=old_until_ns,
        version=row.version,
    )


def standing(row: KeyRow, now_ns: int, *, shadowed: bool = False) -> Standing:
    """How the key stands at that moment."""
    if row.revoked_ns is not None:
        return "revoked"
    if shadowed:
        return "shadowed"
    return "expired" if row.expires_ns is not None and row.expires_ns <= now_ns else "active"


def configured_views(config: Config) -> Iterator[KeyView]:
    """The keys of the configuration; those that are everybody's go by their fingerprints, as in records."""
    for secret in config.server.keys:
        name = fingerprint(secret.reveal())
        yield KeyView(id=f"server:{name}", name=name, source="server")
    for name, key in config.keys.items():
        yield KeyView(
            id=f"config:{name}",
            name=name,
            source="config",
            role=key.role,
            scopes=key.scopes,
            models=key.models,
            policy=key.policy,
            user=key.user,
            resumable=key.resumable,
            limits=key.limits,
            budget=key.budget,
        )

"""What a change makes of a key, and what the log of changes says of it.  Pure, but for `new_secret` and `new_id`."""

from __future__ import annotations

import secrets
import string
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from rivermouth.config import Budget, RateLimits, Role, Scope
from rivermouth.config.names import key_fault
from rivermouth.config.plain import plainly, sayings_of
from rivermouth.config.zones import zone_fault
from rivermouth.ir.errors import ApiError, invalid
from rivermouth.platform.keyring import digest_of
from rivermouth.secrets import Secret
from rivermouth.store.platform.port import ChangeRow, KeyRow
from rivermouth.wire import json

SECRET_HEAD: Final = "rmk_"  # noqa: S105 - what every secret begins with
SHOWN_CHARS: Final = 8
SECRET_CHARS: Final = 40
ALPHABET: Final = string.ascii_letters + string.digits
LONGEST_GRACE_S: Final = 90 * 86_400.0
HIDDEN: Final = ("digest", "old_digest", "last_used_ns", "version")
"""What the log of changes does not have of a key."""

Pattern = Annotated[str, Meta(min_length=1, max_length=200)]
Moment = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class NewKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key that is wanted; the fields are those of `KeyRow`."""

    name: str
    role: Role = "user"
    scopes: tuple[Scope, ...] | None = None
    models: tuple[Pattern, ...] | None = None
    policy: str | None = None
    user: Annotated[str, Meta(max_length=200)] | None = None
    resumable: bool = False
    limits: RateLimits = RateLimits()
    budget: Budget | None = None
    expires_ns: Moment | None = None


class KeyChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to be another: a field that is not there stays, None takes a restriction away."""

    role: Role | UnsetType = UNSET
    scopes: tuple[Scope, ...] | UnsetType | None = UNSET
    models: tuple[Pattern, ...] | UnsetType | None = UNSET
    policy: str | UnsetType | None = UNSET
    user: Annotated[str, Meta(max_length=200)] | UnsetType | None = UNSET
    resumable: bool | UnsetType = UNSET
    limits: RateLimits | UnsetType = UNSET
    budget: Budget | UnsetType | None = UNSET
    expires_ns: Moment | UnsetType | None = UNSET


W = TypeVar("W", NewKey, KeyChange)
SAYINGS: Final = sayings_of(NewKey, KeyChange)


def refused(error: msgspec.ValidationError) -> ApiError:
    """What of a key cannot be, and where."""
    text, _, place = str(error).partition(" - at `$.")
    param = place.rstrip("`") or None
    return invalid(plainly(text, param, SAYINGS), param)


def checked(wanted: W) -> W:
    """The same, whoever made it.  Raises `ApiError` for values that cannot be."""
    try:
        wanted = msgspec.convert(msgspec.to_builtins(wanted), type(wanted))
    except msgspec.ValidationError as error:
        raise refused(error) from None
    if isinstance(wanted, NewKey):
        fault = key_fault(wanted.name)
        if fault is not None:
            raise invalid(fault, "name")
    if isinstance(wanted.budget, Budget):
        fault = zone_fault(wanted.budget.zone)
        if fault is not None:
            raise invalid(fault, "budget.zone")
    return wanted


def issue(new: NewKey, by: str, now_ns: int, secret: str, key_id: str) -> tuple[KeyRow, Secret]:
    """The row, and what its owner is shown once."""
    if new.expires_ns is not None and new.expires_ns <= now_ns:
        raise invalid("it would have expired already", "expires_ns")
    fields = {name: getattr(new, name) for name in NewKey.__struct_fields__}
    row = KeyRow(
        id=key_id, prefix=prefix_of(secret), digest=digest_of(secret), created_ns=now_ns, created_by=by, **fields
    )
    return row, Secret(secret, label=row.prefix)


def changed(row: KeyRow, change: KeyChange, now_ns: int) -> KeyRow:
    """The next version of the row."""
    fields = {n: v for n in KeyChange.__struct_fields__ if (v := getattr(change, n)) is not UNSET}
    expires_ns = fields.get("expires_ns")
    if isinstance(expires_ns, int) and expires_ns <= now_ns:
        raise invalid("to end a key at once, revoke it", "expires_ns")
    return msgspec.structs.replace(row, version=row.version + 1, **fields)


def rotated(row: KeyRow, now_ns: int, secret: str, grace_s: float) -> tuple[KeyRow, Secret]:
    """The next version, with another secret; with no grace the old one is gone at once."""
    if not 0 <= grace_s <= LONGEST_GRACE_S:
        raise invalid(f"the old secret can be good for at most {LONGEST_GRACE_S / 86_400:.0f} days more", "grace_s")
    after = msgspec.structs.replace(
        row,
        version=row.version + 1,
        prefix=prefix_of(secret),
        digest=digest_of(secret),
        old_digest=row.digest if grace_s else None,
        old_until_ns=now_ns + int(grace_s * 1e9) if grace_s else None,
    )
    return after, Secret(secret, label=after.prefix)


def revoked(row: KeyRow, now_ns: int) -> KeyRow:
    """The last version."""
    return msgspec.structs.replace(row, version=row.version + 1, revoked_ns=now_ns, old_digest=None, old_until_ns=None)


def entry(action: str, by: str, now_ns: int, *, before: KeyRow | None, after: KeyRow) -> ChangeRow:
    """What the log of changes says of a change of a key: what is another, before and after."""
    had = _told(before) if before is not None else {}
    has = _told(after)
    names = [name for name in has if before is None or had[name] != has[name]]
    return note(
        action,
        by,
        now_ns,
        target=after.id,
        name=after.name,
        before={name: had[name] for name in names} if before is not None else None,
        after={name: has[name] for name in names},
    )


def note(action: str, by: str, now_ns: int, *, target: str, name: str, before: Any, after: Any) -> ChangeRow:
    """An entry for the log of changes."""
    return ChangeRow(
        at_ns=now_ns,
        who=by,
        action=action,
        target=target,
        name=name,
        before=json.encode(before).decode(),
        after=json.encode(after).decode(),
    )


def _told(row: KeyRow) -> dict[str, Any]:
    told: dict[str, Any] = msgspec.to_builtins(row)
    return {name: value for name, value in told.items() if name not in HIDDEN}


def prefix_of(secret: str) -> str:
    """As much of it as may be shown: what is left is still more than anybody can guess."""
    return secret[: len(SECRET_HEAD) + SHOWN_CHARS]


def new_secret() -> str:
    """`rmk_` and 40 letters and digits."""
    return SECRET_HEAD + "".join(secrets.choice(ALPHABET) for _ in range(SECRET_CHARS))


def new_id() -> str:
    """Of a row."""
    return f"key_{secrets.token_hex(8)}"

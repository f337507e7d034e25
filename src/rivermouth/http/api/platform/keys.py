"""Keys, and whoever asks with one."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final, Literal

import msgspec
from litestar import delete, get, patch, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, FromQuery, JSONBody
from msgspec import UNSET, Meta, UnsetType

from rivermouth.config import Budget, RateLimits, Role, Scope
from rivermouth.http.api.platform.asking import Asked, least, visitor
from rivermouth.http.api.platform.desk import Desk
from rivermouth.http.api.platform.filters import unix_ns
from rivermouth.http.api.platform.shapes import maybe_moment
from rivermouth.ir.errors import ApiError, Kind, invalid
from rivermouth.platform.service import Issued, KeyChange, KeyView, NewKey

NAME_SAYS: Final = "a key's name has up to 64 letters, digits, '.', '_', '@' and '-'"
Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}$", description=NAME_SAYS)]
Pattern = Annotated[str, Meta(min_length=1, max_length=200)]
User = Annotated[str, Meta(min_length=1, max_length=200)]
HOUR_S: Final = 3600.0


class KeyDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A key, without its secret.  prefix: how that begins; null for keys of the configuration."""

    id: str
    name: str
    source: Literal["database", "config", "server"]
    status: Literal["active", "expired", "revoked", "shadowed"]
    prefix: str | None
    role: Role
    scopes: list[Scope] | None
    models: list[str] | None
    policy: str | None
    user: str | None
    resumable: bool
    limits: RateLimits
    budget: Budget | None
    created_at: datetime | None
    created_by: str | None
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    old_secret_until: datetime | None
    version: int


class KeyList(msgspec.Struct, frozen=True):
    data: list[KeyDocument]
    next: str | None = None


class IssuedKey(msgspec.Struct, frozen=True):
    """secret: shown this once, and never again."""

    key: KeyDocument
    secret: str


class NewKeyBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """scopes, models: what it may use; null is all that its role may.  policy: holds for all its calls.  resumable: all
    its calls are.
    """

    name: Name
    role: Role = "user"
    scopes: list[Scope] | None = None
    models: list[Pattern] | None = None
    policy: str | None = None
    user: User | None = None
    resumable: bool = False
    limits: RateLimits = RateLimits()
    budget: Budget | None = None
    expires_at: datetime | None = None


class KeyChangeBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to be another.  A field that is not there stays; null takes a restriction away."""

    role: Role | UnsetType = UNSET
    scopes: list[Scope] | UnsetType | None = UNSET
    models: list[Pattern] | UnsetType | None = UNSET
    policy: str | UnsetType | None = UNSET
    user: User | UnsetType | None = UNSET
    resumable: bool | UnsetType = UNSET
    limits: RateLimits | UnsetType = UNSET
    budget: Budget | UnsetType | None = UNSET
    expires_at: datetime | UnsetType | None = UNSET


class Rotation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """grace_s: for how long the old secret is good too."""

    grace_s: Annotated[float, Meta(ge=0, le=7_776_000)] = 24 * HOUR_S


class Me(msgspec.Struct, frozen=True, kw_only=True):
    """Whoever asks.  key_name: null on a server without keys."""

    key_name: str | None
    role: Role
    scopes: list[Scope] | None
    models: list[str] | None
    policies: list[str]
    user: str | None


def routes(desk: Desk) -> list[HTTPRouteHandler]:
    service = desk.platform

    @get("/platform/v1/me", guards=[least("user")], tags=["keys"])
    async def me(request: Asked) -> Me:
        """Whose key this is, and what it may."""
        caller = visitor(request).caller
        assert caller is not None  # the guard has seen to it
        return Me(
            key_name=caller.name,
            role=caller.role,
            scopes=_listed(caller.scopes),
            models=_listed(caller.models),
            policies=[policy.id for policy in caller.policies],
            user=caller.user,
        )

    @get("/platform/v1/keys", guards=[least("auditor")], tags=["keys"])
    async def keys(request: Asked, revoked: FromQuery[bool] = True) -> KeyList:
        """Every key: those of the configuration, then those of the database as they were made."""
        return KeyList([_key(view) for view in service.keys(revoked=revoked)])

    @post("/platform/v1/keys", guards=[least("admin")], tags=["keys"])
    async def create(request: Asked, data: JSONBody[NewKeyBody]) -> IssuedKey:
        """A new key.  Its secret is in this answer and nowhere else.  The first key of a server that asks nobody for
        one must be an admin's: from then on it asks everybody.
        """
        here = visitor(request)
        if here.caller is not None and here.caller.name is None and data.role != "admin":
            text = "from the first key on everybody needs one, so the first must be an admin's"
            raise ApiError(Kind.INVALID_REQUEST, text, status=409, param="role", code="first_key_no_admin")
        return _issued(await service.create(_new(data, desk.now_ns()), here.who))

    @get("/platform/v1/keys/{key_id:str}", guards=[least("auditor")], tags=["keys"])
    async def key(request: Asked, key_id: FromPath[str]) -> KeyDocument:
        """One key, by its id or its name."""
        return _key(service.key(key_id))

    @patch("/platform/v1/keys/{key_id:str}", guards=[least("admin")], tags=["keys"])
    async def change(request: Asked, key_id: FromPath[str], data: JSONBody[KeyChangeBody]) -> KeyDocument:
        """Other limits, another policy, another role ...; running calls go on as they began."""
        return _key(await service.change(key_id, _changed(data, desk.now_ns()), visitor(request).who))

    @post("/platform/v1/keys/{key_id:str}/rotate", guards=[least("admin")], status_code=200, tags=["keys"])
    async def rotate(request: Asked, key_id: FromPath[str], data: JSONBody[Rotation | None] = None) -> IssuedKey:
        """Another secret for the same key."""
        grace_s = (data or Rotation()).grace_s
        return _issued(await service.rotate(key_id, visitor(request).who, grace_s))

    @post("/platform/v1/keys/{key_id:str}/revoke", guards=[least("admin")], status_code=200, tags=["keys"])
    async def revoke(request: Asked, key_id: FromPath[str]) -> KeyDocument:
        """Nobody comes in with it any more; calls that run are not ended."""
        return _key(await service.revoke(key_id, visitor(request).who))

    @delete("/platform/v1/keys/{key_id:str}", guards=[least("admin")], status_code=200, tags=["keys"])
    async def remove(request: Asked, key_id: FromPath[str]) -> KeyDocument:
        """The same as to revoke it: a key's name stays taken, because records have it."""
        return _key(await service.revoke(key_id, visitor(request).who))

    return [me, keys, create, key, change, rotate, revoke, remove]


def _end(moment: datetime | None, now_ns: int) -> int | None:
    ends_ns = unix_ns(moment, "expires_at")
    if ends_ns is not None and ends_ns <= now_ns:
        raise invalid("a key expires later than now; to end one at once, revoke it", "expires_at")
    return ends_ns


def _new(body: NewKeyBody, now_ns: int) -> NewKey:
    return NewKey(
        name=body.name,
        role=body.role,
        scopes=_tupled(body.scopes),
        models=_tupled(body.models),
        policy=body.policy,
        user=body.user,
        resumable=body.resumable,
        limits=body.limits,
        budget=body.budget,
        expires_ns=_end(body.expires_at, now_ns),
    )


def _changed(body: KeyChangeBody, now_ns: int) -> KeyChange:
    expires = body.expires_at
    return KeyChange(
        role=body.role,
        scopes=_tupled(body.scopes),
        models=_tupled(body.models),
        policy=body.policy,
        user=body.user,
        resumable=body.resumable,
        limits=body.limits,
        budget=body.budget,
        expires_ns=expires if isinstance(expires, UnsetType) else _end(expires, now_ns),
    )


def _tupled(values: Any) -> Any:
    return tuple(values) if isinstance(values, list) else values


def _listed(values: Any) -> Any:
    return list(values) if values is not None else None


def _key(view: KeyView) -> KeyDocument:
    return KeyDocument(
        id=view.id,
        name=view.name,
        source=view.source,
        status=view.status,
        prefix=view.prefix,
        role=view.role,
        scopes=_listed(view.scopes),
        models=_listed(view.models),
        policy=view.policy,
        user=view.user,
        resumable=view.resumable,
        limits=view.limits,
        budget=view.budget,
        created_at=maybe_moment(view.created_ns),
        created_by=view.created_by,
        expires_at=maybe_moment(view.expires_ns),
        revoked_at=maybe_moment(view.revoked_ns),
        last_used_at=maybe_moment(view.last_used_ns),
        old_secret_until=maybe_moment(view.old_until_ns),
        version=view.version,
    )


def _issued(issued: Issued) -> IssuedKey:
    return IssuedKey(_key(issued.key), issued.secret.reveal())

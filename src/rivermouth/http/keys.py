"""Who calls: the keys of the configuration and those of the database, in each SDK's own place, on every route.

A request costs one hash for each place in which it carries something, and one look into a dictionary.  What is looked
up is a digest, so how long the look takes says nothing about any key.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Final
from urllib.parse import parse_qsl

import msgspec

from rivermouth.config import Role, Scope
from rivermouth.config.names import FINGERPRINT_CHARS
from rivermouth.dialects.dialect import Key, Operation
from rivermouth.http.headers import Header, get
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.platform.keyring import KeyRing, Known, digest_of
from rivermouth.routing.endpoint import Policy

__all__ = ["ANYBODY", "ROLES", "SCOPES", "Caller", "Keys"]

ALL: Final[frozenset[Scope]] = frozenset({"generate", "embed", "models", "manage", "chat"})

ROLES: Final[Mapping[Role, frozenset[Scope]]] = {"user": ALL, "auditor": frozenset({"models"}), "admin": ALL}
"""What a key of that role may use, where its scopes do not say less."""

SCOPES: Final[Mapping[Operation, Scope]] = {
    Operation.GENERATE: "generate",
    Operation.EMBED: "embed",
    Operation.COUNT_TOKENS: "generate",
    Operation.MODELS: "models",
    Operation.MODEL: "models",
    Operation.RUNNING: "models",
    Operation.VERSION: "models",
    Operation.INFO: "models",
    Operation.HEALTH: "models",
    Operation.PULL: "manage",
    Operation.COPY: "manage",
    Operation.DELETE: "manage",
    Operation.KEPT: "generate",
    Operation.KEPT_DELETE: "generate",
    Operation.KEPT_CANCEL: "generate",
    Operation.KEPT_INPUT: "generate",
}
"""The scope that an operation needs."""


class Caller(msgspec.Struct, frozen=True):
    """Who calls.  name: of the key, for the record; None where no key is asked for.

    policies: those that hold for all its calls.  models: patterns of the names that it may ask for; None: all.
    scopes: None: all that its role may.  metered: it has limits or a budget.  user: whose key it is.
    key_id: of a key of the database.  resumable: its calls are, where they do not say otherwise.
    """

    name: str | None = None
    policies: tuple[Policy, ...] = ()
    models: tuple[str, ...] | None = None
    role: Role = "user"
    scopes: tuple[Scope, ...] | None = None
    metered: bool = False
    user: str | None = None
    key_id: str | None = None
    resumable: bool = False

    @property
    def bound(self) -> bool:
        """This caller may do less than everybody."""
        return bool(self.policies) or self.models is not None or self.metered or not self.may("chat")

    @property
    def who(self) -> str:
        """For the log of changes."""
        return f"key:{self.name}" if self.name is not None else "anybody"

    def may(self, scope: Scope) -> bool:
        return scope in ROLES[self.role] and (self.scopes is None or scope in self.scopes)

    def may_ask(self, model: str) -> bool:
        return self.models is None or any(fnmatchcase(model, pattern) for pattern in self.models)

    def refusal(self, model: str) -> ApiError | None:
        """What to say of a model that is not this caller's; None for one that is."""
        if self.may_ask(model):
            return None
        return ApiError(Kind.PERMISSION, f"this key may not ask for '{model}'", param="model", code="model_not_allowed")

    def check(self, model: str) -> None:
        """Raises that, where no call is made that could end with it."""
        refused = self.refusal(model)
        if refused is not None:
            raise refused

    def check_operation(self, operation: Operation) -> None:
        """Raises `ApiError` permission for what this caller may not use."""
        scope = SCOPES[operation]
        if not self.may(scope):
            raise ApiError(
                Kind.PERMISSION, f"this key may not be used for this: it lacks '{scope}'", code="scope_missing"
            )


ANYBODY: Final = Caller(role="admin")
"""Everybody, on a server that asks for no key."""


class Keys:
    """The known keys, as digests.  `open` means that there is none and everybody may call (R16).

    common: keys of everybody, known by their fingerprints.  own: keys of one caller each.  ring: those of the database.
    policies: the configured ones, by name.  required: a key is asked for though there is none.
    """

    def __init__(
        self,
        common: Iterable[str],
        own: Iterable[tuple[str, Caller]],
        places: Iterable[Key],
        *,
        ring: KeyRing | None = None,
        policies: Mapping[str, Policy] | None = None,
        required: bool = False,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        digests = [digest_of(key) for key in common]
        self._known = {digest: Caller(digest[:FINGERPRINT_CHARS]) for digest in digests}
        self._known |= {digest_of(key): caller for key, caller in own}
        self._places = tuple((place, (place.header or "").lower().encode()) for place in dict.fromkeys(places))
        self._ring = ring
        self._policies = policies or {}
        self._required = required
        self._clock_ns = clock_ns
        self._made: dict[str, tuple[Known, Caller]] = {}

    @property
    def open(self) -> bool:
        """Nobody is asked for a key.  A key that was once made in the database ends that for good."""
        return not self._known and not self._required and (self._ring is None or not self._ring.asks)

    def caller(self, headers: list[Header], query: bytes) -> Caller | None:
        """Whose key the request carries; None when a key is needed and it carries no good one."""
        if self.open:
            return ANYBODY
        for place, header in self._places:
            offered = _offered(place, header, headers, query)
            if offered is not None:
                digest = digest_of(offered)
                found = self._known.get(digest) or self._of_database(digest)
                if found is not None:
                    return found
        return None

    def _of_database(self, digest: str) -> Caller | None:
        known = self._ring.find(digest, self._clock_ns()) if self._ring is not None else None
        if known is None:
            return None
        made = self._made.get(known.row.id)
        if made is None or made[0] is not known:
            made = self._made[known.row.id] = (known, self._made_of(known))
        return made[1]

    def _made_of(self, known: Known) -> Caller:
        row = known.row
        return Caller(
            row.name,
            (self._policy(row.policy),) if row.policy is not None else (),
            row.models,
            role=row.role,
            scopes=row.scopes,
            metered=row.budget is not None or any(v is not None for v in msgspec.structs.astuple(row.limits)),
            user=row.user,
            key_id=row.id,
            resumable=row.resumable,
        )

    def _policy(self, name: str) -> Policy:
        """That of the configuration; where it is gone from there, one that admits nobody in its place."""
        return self._policies.get(name) or Policy(id=f"{name} (not configured)", providers=())


def _offered(place: Key, header: bytes, headers: list[Header], query: bytes) -> str | None:
    if place.query is not None:
        if not query:
            return None
        return next((v for k, v in parse_qsl(query.decode("latin-1")) if k == place.query), None)
    value = get(headers, header)
    if value is None:
        return None
    if place.between is not None:
        before, after = place.between
        return value.partition(before)[2].partition(after)[0] or None
    scheme = place.scheme.strip()
    if not scheme:
        return value
    head, _, rest = value.partition(" ")
    return rest.strip() if head.lower() == scheme.lower() else None

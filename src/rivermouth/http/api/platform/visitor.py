"""Whose request it is: the switch says so before the framework sees the request, or is there at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from rivermouth.config import Role
from rivermouth.editions import Edition
from rivermouth.http.keys import Caller
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.store.port import CallFilter

PREFIX: Final = "/platform/"
VISITOR: Final = "rivermouth.visitor"
ROLES: Final[tuple[Role, ...]] = ("user", "auditor", "admin")


class Visitor(msgspec.Struct, frozen=True):
    """Whose request it is.  caller: None without a good key.  edition: what is configured for as long as it lasts."""

    edition: Edition
    caller: Caller | None

    @property
    def role(self) -> Role | None:
        return self.caller.role if self.caller is not None else None

    def may(self, role: Role) -> bool:
        return self.role is not None and ROLES.index(self.role) >= ROLES.index(role)

    @property
    def who(self) -> str:
        """As the log of changes has it."""
        return self.caller.who if self.caller is not None else "anybody"

    def narrowed(self, where: CallFilter) -> CallFilter:
        """The filter as this visitor may use it: a user sees the calls of its own key and no others."""
        if self.may("auditor"):
            return where
        own = self.caller.name if self.caller is not None else None
        if own is None or where.key_name not in (None, own):
            raise forbidden("auditor")
        return msgspec.structs.replace(where, key_name=own)


def admitted(scope: Mapping[str, Any]) -> bool:
    """The request of that scope has a good key, or needs none."""
    visitor: Visitor = scope[VISITOR]
    return visitor.caller is not None


def forbidden(role: Role) -> ApiError:
    needed = " or ".join(ROLES[ROLES.index(role) :])
    return ApiError(Kind.PERMISSION, f"this needs a key of the role {needed}", code="role_missing")

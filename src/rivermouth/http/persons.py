"""Whose a request of the chat application is.

a good access token                           the user that it names
a key of the server, whichever                the shared guest: keys do not tell people apart
a key that may do less than everybody         nobody (403): a chat outlives its request, and knows nothing of the key
neither, on a server without keys that only   the shared guest, as long as nobody has an account: one person
  this machine can reach, and from here       at their own machine need not sign in
anything else                                 nobody
"""

from __future__ import annotations

from collections.abc import Sequence

from rivermouth.accounts.service import Accounts
from rivermouth.http.headers import Header
from rivermouth.http.keys import Caller, Keys
from rivermouth.http.visitors import AUTHORIZATION, bearer, is_direct
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.store.accounts.port import User


class Persons:
    """The port `Identity`.  private: only this machine can reach the server, and no proxy stands before it."""

    def __init__(self, accounts: Accounts, keys: Keys, *, private: bool) -> None:
        self._accounts = accounts
        self._keys = keys
        self._private = private

    async def identify(self, headers: Sequence[Header]) -> str:
        return (await self.who(headers)).id

    async def who(self, headers: Sequence[Header]) -> User:
        """Raises `ApiError` authentication, or permission for a key that has no chats."""
        given = list(headers)
        token = self.token(given)
        if token is not None:
            return await self._accounts.of_token(token)
        if self.has_key(given):
            return await self._accounts.shared_guest()
        guest = await self.local_guest(given)
        if guest is not None:
            return guest
        if not self._keys.open:
            raise _no_key()
        raise ApiError(Kind.AUTHENTICATION, "sign in first", code="sign_in_required")

    def token(self, headers: list[Header]) -> str | None:
        """What is shown as an access token: a Bearer that is no key.  Raises `ApiError` for one that is neither."""
        shown = bearer(headers)
        if shown is None or self._keys.open:
            return shown
        if self._keys.caller([(AUTHORIZATION, b"Bearer " + shown.encode("latin-1"))], b"") is not None:
            return None
        if shown.count(".") != 2:
            raise _no_key()
        return shown

    def has_key(self, headers: list[Header]) -> bool:
        """It has a key of this server, in whatever place: also beside a token, as what opens a closed door.

        Raises `ApiError` permission for a key that has no chats.
        """
        caller = None if self._keys.open else self._keys.caller(headers, b"")
        if caller is not None:
            _must_have_chats(caller)
        return caller is not None

    async def local_guest(self, headers: list[Header]) -> User | None:
        """The shared guest, if that is who asks without saying so."""
        if not (self._private and self._keys.open and is_direct(headers)):
            return None
        return await self._accounts.local_guest()


def _must_have_chats(caller: Caller) -> None:
    if not caller.may("chat"):
        text = "this key may not be used for this: it lacks 'chat'"
        raise ApiError(Kind.PERMISSION, text, code="scope_missing")
    if caller.bound:
        text = "a key with a policy, models, limits or a budget of its own has no chats"
        raise ApiError(Kind.PERMISSION, text, code="no_chats_for_key")


def _no_key() -> ApiError:
    return ApiError(Kind.AUTHENTICATION, "no valid API key was given, and no token", code="invalid_api_key")

"""Signing in and out, under /api/auth.  Litestar serves it.

The access token goes to the page's script, which keeps it in memory.  The session token goes into a cookie that no
script can read, that only these routes get, and that no other site's page can make the browser send.  Only `refresh`
and `logout` look at it, and both want to be asked by our own page.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from litestar import Request, Response, delete, get, post
from litestar.handlers import HTTPRouteHandler

from rivermouth.accounts.service import Accounts, SignedIn
from rivermouth.http.api.chats import answer
from rivermouth.http.headers import Header
from rivermouth.http.persons import Persons
from rivermouth.http.rules import Doors, Rules
from rivermouth.http.visitors import bearer, cookie, counted, is_own_page, is_secure
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.store.accounts.port import User
from rivermouth.wire import json

Asked = Request[Any, Any, Any]

COOKIE: Final = "rivermouth_session"
PATH: Final = "/api/auth"
BODY_BYTES: Final = 16 * 1024


class Credentials(msgspec.Struct, frozen=True):
    name: str
    password: str

    def __repr__(self) -> str:
        return "Credentials(***)"


_credentials: Final = json.typed(Credentials)


class Desk:
    """What the handlers do."""

    def __init__(self, accounts: Accounts, doors: Doors) -> None:
        self._accounts = accounts
        self._doors = doors

    @property
    def _persons(self) -> Persons:
        return self._doors.persons

    @property
    def _rules(self) -> Rules:
        return self._doors.rules

    async def guest(self, request: Asked) -> Response[bytes]:
        headers = _headers(request)
        local = await self._persons.local_guest(headers)
        if local is None and not self._rules.open and not self._persons.has_key(headers):
            raise ApiError(Kind.PERMISSION, "guests are not let in here: sign in", code="guests_refused")
        return self._signed_in(request, await self._accounts.be_guest(address=self._address(request), shared=local))

    async def signup(self, request: Asked) -> Response[bytes]:
        headers, asked = _headers(request), json.decode_as(_credentials, await request.body())
        if not self._rules.open and not self._persons.has_key(headers):
            raise ApiError(Kind.PERMISSION, "accounts are made by the operator here", code="signup_closed")
        token = self._persons.token(headers)
        comes = await (self._persons.local_guest(headers) if token is None else self._accounts.of_token(token))
        guest = comes if comes is not None and comes.guest else None
        made = await self._accounts.sign_up(asked.name, asked.password, address=self._address(request), guest=guest)
        return self._signed_in(request, made, 201)

    async def login(self, request: Asked) -> Response[bytes]:
        asked = json.decode_as(_credentials, await request.body())
        entered = await self._accounts.sign_in(asked.name, asked.password, address=self._address(request))
        return self._signed_in(request, entered)

    async def refresh(self, request: Asked) -> Response[bytes]:
        self._must_be_own_page(request)
        return self._signed_in(request, await self._accounts.renew(cookie(_headers(request), COOKIE) or ""))

    async def logout(self, request: Asked) -> Response[None]:
        self._must_be_own_page(request)
        headers = _headers(request)
        await self._accounts.leave(shown=cookie(headers, COOKIE), access_token=bearer(headers))
        return self._gone(request)

    async def me(self, request: Asked) -> Response[bytes]:
        return answer({"user": user_view(await self._persons.who(_headers(request)))})

    async def delete(self, request: Asked) -> Response[None]:
        await self._accounts.delete(await self._persons.who(_headers(request)))
        return self._gone(request)

    def _must_be_own_page(self, request: Asked) -> None:
        if not is_own_page(_headers(request), self._rules.origins):
            raise ApiError(Kind.PERMISSION, "only this server's own page may ask for this", code="origin_not_allowed")

    def _signed_in(self, request: Asked, who: SignedIn, status: int = 200) -> Response[bytes]:
        body = {
            "access_token": who.access_token,
            "token_type": "Bearer",
            "expires_in": who.expires_in_s,
            "user": user_view(who.user),
        }
        answered = answer(body, status)
        answered.headers["cache-control"] = "no-store"
        if who.session is not None and is_own_page(_headers(request), self._rules.origins):
            age_s = int(self._accounts.settings.refresh_s)
            answered.headers["set-cookie"] = self._cookie(request, str(who.session), age_s)
        return answered

    def _gone(self, request: Asked) -> Response[None]:
        return Response(None, status_code=204, headers={"set-cookie": self._cookie(request, "", 0)})

    def _cookie(self, request: Asked, value: str, age_s: int) -> str:
        secure = "; Secure" if is_secure(str(request.scope["scheme"]), _headers(request)) else ""
        path = self._rules.base_path.rstrip("/") + PATH
        return f"{COOKIE}={value}; Path={path}; Max-Age={age_s}; HttpOnly; SameSite=Strict{secure}"

    def _address(self, request: Asked) -> str:
        client = request.scope["client"]
        return counted(client[0] if client else "")


def account_routes(accounts: Accounts, doors: Doors) -> list[HTTPRouteHandler]:
    """The handlers."""
    desk = Desk(accounts, doors)

    @post(f"{PATH}/guest", status_code=200, request_max_body_size=BODY_BYTES)
    async def guest(request: Asked) -> Response[bytes]:
        """Sign in without an account: as the one who sits at this machine, or as a guest of one's own."""
        return await desk.guest(request)

    @post(f"{PATH}/signup", status_code=201, request_max_body_size=BODY_BYTES)
    async def signup(request: Asked) -> Response[bytes]:
        """Make an account.  With the token of a guest, that guest's chats are the account's from now on."""
        return await desk.signup(request)

    @post(f"{PATH}/login", status_code=200, request_max_body_size=BODY_BYTES)
    async def login(request: Asked) -> Response[bytes]:
        """Sign in with name and password."""
        return await desk.login(request)

    @post(f"{PATH}/refresh", status_code=200, request_max_body_size=BODY_BYTES)
    async def refresh(request: Asked) -> Response[bytes]:
        """Another access token, by the cookie, which changes with each use."""
        return await desk.refresh(request)

    @post(f"{PATH}/logout", status_code=204, request_max_body_size=BODY_BYTES)
    async def logout(request: Asked) -> Response[None]:
        """The session ends, whether it is named by the cookie or by the token."""
        return await desk.logout(request)

    @get(f"{PATH}/me")
    async def me(request: Asked) -> Response[bytes]:
        """Who asks."""
        return await desk.me(request)

    @delete(f"{PATH}/me", status_code=204)
    async def delete_me(request: Asked) -> Response[None]:
        """Delete whoever asks, with all chats and everything else that is theirs."""
        return await desk.delete(request)

    return [guest, signup, login, refresh, logout, me, delete_me]


def user_view(user: User) -> dict[str, Any]:
    return {"id": user.id, "name": user.name, "guest": user.guest}


def _headers(request: Asked) -> list[Header]:
    return list(request.scope["headers"])

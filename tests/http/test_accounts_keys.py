"""Accounts and keys on one server: what a key opens of the chat, what it does not, and what a reload changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from rivermouth.config import RateLimits
from rivermouth.platform.service import NewKey
from tests.engine.lab import Lab, lab
from tests.http.accounting import PASSWORD, Browser

pytestmark = pytest.mark.anyio

ADMIN: Final = "the-admins-own-key"
KEYED: Final = f'[keys.boss]\nkey = "{ADMIN}"\nrole = "admin"\n[policies.any]\nproviders = ["*"]\n'
NO_CHATS: Final = (403, "permission", "no_chats_for_key")
SCOPED: Final = (403, "permission", "scope_missing")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with lab(tmp_path_factory.mktemp("keyed"), KEYED) as running:
        yield running


async def issued(server: Lab, **wanted: Any) -> str:
    """A new key of the database."""
    return (await server.run(server.inside.services.platform.create(NewKey(**wanted), "cli:me"))).secret.reveal()


async def test_a_key_of_the_database_is_the_shared_guest_until_it_is_revoked(server: Lab) -> None:
    key = await issued(server, name="plain")
    program, page = Browser(server, X_Api_Key=key), Browser(server, Authorization=f"Bearer {key}")
    chat = program.chat()
    assert page.get("/api/auth/me")["user"] == {"id": "guest", "name": "", "guest": True}
    assert [row["id"] for row in page.get("/api/chats")["chats"]] == [chat]
    await server.run(server.inside.services.platform.revoke("plain", "cli:me"))
    for one in (program, page):
        assert one.ask("GET", "/api/chats").error == (401, "authentication", "invalid_api_key")


@pytest.mark.parametrize(
    ("wanted", "refusal"),
    [
        ({"policy": "any"}, NO_CHATS),
        ({"models": ("scripted*",)}, NO_CHATS),
        ({"limits": RateLimits(concurrent=5)}, NO_CHATS),
        ({"scopes": ("generate", "models")}, SCOPED),
        ({"role": "auditor"}, SCOPED),
        ({"scopes": ("chat",)}, None),
        ({"role": "admin"}, None),
    ],
)
async def test_a_key_that_may_do_less_than_everybody_has_no_chats_and_opens_no_door(
    server: Lab, wanted: dict[str, Any], refusal: tuple[int, str, str] | None
) -> None:
    name = f"k{len(server.inside.services.platform.keys())}"
    program = Browser(server, X_Api_Key=await issued(server, name=name, **wanted))
    asked = [
        program.ask("GET", "/api/chats"),
        program.ask("POST", "/api/auth/guest", {}),
        program.ask("POST", "/api/auth/signup", {"name": f"of-{name}", "password": PASSWORD}),
    ]
    if refusal is None:
        assert [answer.status for answer in asked] == [200, 200, 201]
    else:
        assert [answer.error for answer in asked] == [refusal] * 3
        chat = Browser(server, X_Api_Key=ADMIN).chat()
        stream = program.ask("POST", f"/api/chats/{chat}/stream", {"content": "hi", "model": "scripted"})
        assert stream.error == refusal


async def test_a_token_counts_whatever_key_is_beside_it(server: Lab) -> None:
    page = Browser(server, X_Api_Key=ADMIN)
    page.enter("signup", "beside")
    bound = await issued(server, name="bound", models=("x",))
    assert page.ask("GET", "/api/auth/me", X_Api_Key=bound).json["user"]["name"] == "beside"


async def test_an_account_opens_nothing_but_the_chat(server: Lab) -> None:
    page = Browser(server, X_Api_Key=ADMIN)
    page.enter("signup", "curious")
    page.headers.clear()
    for path in ("/platform/v1/turns", "/platform/v1/me", "/v1/models", "/metrics"):
        assert page.ask("GET", path).status == 401, path
    assert page.get("/api/chats")["chats"] == []


async def test_the_first_key_closes_what_was_open(tmp_path: Path) -> None:
    """Unsaid, strangers may sign up as long as nobody is asked for a key, and the local guest is one without keys."""
    with lab(tmp_path) as server:
        here, away = Browser(server), Browser(server, X_Forwarded_For="203.0.113.9")
        assert here.ask("GET", "/api/chats").status == 200
        assert away.ask("POST", "/api/auth/guest", {}).status == 200
        await issued(server, name="first", role="admin")
        assert here.ask("GET", "/api/chats").error == (401, "authentication", "invalid_api_key")
        assert away.ask("POST", "/api/auth/guest", {}).error == (403, "permission", "guests_refused")


async def test_a_reload_opens_and_closes_the_door_and_changes_the_rules(tmp_path: Path) -> None:
    open_, closed = '[accounts]\nsignup = "open"\n', '[accounts]\nsignup = "closed"\n'
    with lab(tmp_path, open_, reloads=True) as server:
        page = Browser(server, X_Forwarded_For="203.0.113.9")
        assert page.enter("signup", "anna")["expires_in"] == 900
        await server.reload(closed + "access_token_s = 60\nlogin_tries = 1\npassword_min_chars = 20\n")
        assert page.get("/api/auth/me")["user"]["name"] == "anna", "who is in stays in"
        stranger = Browser(server, X_Forwarded_For="203.0.113.9")
        body = {"name": "bob", "password": PASSWORD}
        assert stranger.ask("POST", "/api/auth/signup", body).error == (403, "permission", "signup_closed")
        assert page.enter("login", "anna")["expires_in"] == 60
        wrong = {"name": "anna", "password": "wrong"}
        assert [stranger.ask("POST", "/api/auth/login", wrong).status for _ in range(2)] == [401, 429]
        await server.reload(open_ + "password_min_chars = 20\n")
        assert stranger.ask("POST", "/api/auth/signup", body).error[2] == "unfit_password"
        await server.reload(open_)
        assert stranger.ask("POST", "/api/auth/signup", body).status == 201


async def test_keys_and_proxies_of_a_reload_hold_for_chats_too(tmp_path: Path) -> None:
    with lab(tmp_path, "", reloads=True) as server:
        here = Browser(server)
        assert here.ask("GET", "/api/chats").status == 200
        await server.reload('[http]\ntrusted_proxies = ["127.0.0.1"]\n')
        assert here.ask("GET", "/api/chats").error == (401, "authentication", "sign_in_required")
        await server.reload('[server]\nkeys = ["a-key-of-everybody"]\n')
        assert here.ask("GET", "/api/chats").error == (401, "authentication", "invalid_api_key")
        assert Browser(server, X_Api_Key="a-key-of-everybody").ask("GET", "/api/chats").status == 200
        await server.reload("")
        assert here.ask("GET", "/api/chats").status == 200

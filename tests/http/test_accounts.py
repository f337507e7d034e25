"""Accounts over real sockets: who is let in as whom, whose chats are whose, and what an attacker gets."""

from __future__ import annotations

import base64
import json
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import jwt
import pytest

from rivermouth.accounts.keyring import FILE
from rivermouth.accounts.passwords import AT_ONCE
from tests.chat.lab import read_frames, tokens
from tests.engine.lab import Lab, lab
from tests.http.accounting import PASSWORD, Answer, Browser
from tests.http.test_chats import until

GENEROUS = "[accounts]\nlogin_tries = 1000\naddress_tries = 1000\n"
KEYED = '[server]\nkeys = ["server-key-1"]\n'
UNKNOWN = (401, "authentication", "session_ended")
NOT_SIGNED_IN = (401, "authentication", "sign_in_required")
ROUTES = (
    ("GET", "/api/chats"),
    ("POST", "/api/chats"),
    ("GET", "/api/chats/{}"),
    ("PUT", "/api/chats/{}"),
    ("DELETE", "/api/chats/{}"),
    ("POST", "/api/chats/{}/stream"),
    ("POST", "/api/chats/{}/cancel"),
    ("GET", "/api/chats/{}/events"),
    ("GET", "/api/ai/models"),
    ("PUT", "/api/ai/model"),
    ("GET", "/api/auth/me"),
    ("DELETE", "/api/auth/me"),
)
BODIES: dict[str, Any] = {
    "/api/chats/{}": {"title": "x"},
    "/api/chats/{}/stream": {"content": "x", "model": "scripted"},
    "/api/ai/model": {"model": "auto"},
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A server on which somebody has an account."""
    with lab(tmp_path_factory.mktemp("accounts"), GENEROUS) as running:
        Browser(running).enter("signup", "somebody")
        yield running


@pytest.fixture
def browser(server: Lab) -> Browser:
    return Browser(server)


def account(server: Lab, name: str) -> Browser:
    made = Browser(server)
    made.enter("signup", name)
    return made


def me(browser: Browser) -> Any:
    return browser.get("/api/auth/me")["user"]


# -- the local guest


def test_at_ones_own_machine_nobody_need_sign_in_until_somebody_has_an_account(tmp_path: Path) -> None:
    with lab(tmp_path) as server:
        nobody, page = Browser(server), Browser(server)
        before = nobody.chat("made without a token")
        entered = page.enter("guest")
        assert entered["user"] == me(page) == me(nobody) == {"id": "guest", "name": "", "guest": True}
        assert (entered["token_type"], entered["expires_in"]) == ("Bearer", 900)
        assert [chat["id"] for chat in page.get("/api/chats")["chats"]] == [before]
        made = page.enter("signup", "Anna")
        assert made["user"] == {"id": "guest", "name": "Anna", "guest": False} == me(page)
        assert [chat["id"] for chat in page.get("/api/chats")["chats"]] == [before]
        assert nobody.ask("GET", "/api/chats").error == NOT_SIGNED_IN
        other = Browser(server).enter("guest")["user"]
        assert other["guest"]
        assert other["id"] != "guest"


def test_who_signs_up_without_a_token_is_the_local_guest_too(tmp_path: Path) -> None:
    with lab(tmp_path) as server:
        program = Browser(server)
        chat = program.chat()
        program.enter("signup", "anna")
        assert [row["id"] for row in program.get("/api/chats")["chats"]] == [chat]


def test_who_comes_through_a_proxy_is_not_at_this_machine(tmp_path: Path) -> None:
    with lab(tmp_path) as server:
        Browser(server).chat("the local guest's")
        for name, value in (("X-Forwarded-For", "203.0.113.9"), ("Via", "1.1 proxy")):
            stranger = Browser(server, **{name: value})
            assert stranger.ask("GET", "/api/chats").error == NOT_SIGNED_IN
            assert stranger.enter("guest")["user"]["id"] != "guest"
            assert stranger.get("/api/chats")["chats"] == []


@pytest.mark.parametrize("config", ['[http]\nbase_path = "/llm"\n', '[http]\ntrusted_proxies = ["127.0.0.1"]\n'])
def test_behind_a_proxy_that_the_configuration_tells_of_nobody_is_at_this_machine(tmp_path: Path, config: str) -> None:
    with lab(tmp_path, config) as server:
        stranger = Browser(server)
        base = "/llm" if "/llm" in config else ""
        assert stranger.ask("GET", f"{base}/api/chats").error == NOT_SIGNED_IN
        answer = stranger.ask("POST", f"{base}/api/auth/guest", {})
        assert answer.json["user"]["id"] != "guest"
        assert f"Path={base}/api/auth;" in answer.headers["set-cookie"]


def test_a_rebound_name_gets_nothing(tmp_path: Path) -> None:
    with lab(tmp_path) as server:
        for path in ("guest", "signup", "login", "refresh", "logout"):
            assert Browser(server, Host="evil.example").ask("POST", f"/api/auth/{path}", {}).status == 421
        assert Browser(server, Host="evil.example").ask("GET", "/api/chats").status == 421


def test_another_name_of_this_server_is_not_this_machine(tmp_path: Path) -> None:
    with lab(tmp_path, '[http]\nallowed_hosts = ["llm.example"]\n') as server:
        assert Browser(server, Host="llm.example").ask("GET", "/api/chats").error == NOT_SIGNED_IN
        assert Browser(server).ask("GET", "/api/chats").status == 200


# -- with keys


def test_with_keys_a_key_is_the_shared_guest_and_a_token_is_its_user(tmp_path: Path) -> None:
    with lab(tmp_path, KEYED) as server:
        nobody, page, program = Browser(server), Browser(server), Browser(server)
        program.token = "server-key-1"
        assert me(program) == {"id": "guest", "name": "", "guest": True}
        theirs = program.chat()
        assert nobody.ask("GET", "/api/chats").error == (401, "authentication", "invalid_api_key")
        assert Browser(server, Authorization="Bearer other").ask("GET", "/api/chats").error[2] == "invalid_api_key"
        assert nobody.ask("POST", "/api/auth/guest", {}).error == (403, "permission", "guests_refused")
        body = {"name": "anna", "password": PASSWORD}
        assert nobody.ask("POST", "/api/auth/signup", body).error == (403, "permission", "signup_closed")
        made = nobody.ask("POST", "/api/auth/signup", body, X_Api_Key="server-key-1")
        assert made.status == 201
        page.enter("login", "anna")
        hers = page.chat()
        assert [chat["id"] for chat in page.get("/api/chats")["chats"]] == [hers]
        assert [chat["id"] for chat in program.get("/api/chats")["chats"]] == [theirs]
        guest = Browser(server, X_Api_Key="server-key-1")
        kept = guest.enter("guest")["user"]["id"]
        assert kept != "guest"
        chat = guest.chat()
        assert guest.enter("signup", "carol")["user"] == {"id": kept, "name": "carol", "guest": False}
        assert [row["id"] for row in guest.get("/api/chats")["chats"]] == [chat]
        asked = page.ask("POST", "/v1/chat/completions", {"model": "scripted", "messages": []})
        assert asked.status == 401  # an account opens the chat, and no dialect


@pytest.mark.parametrize(("word", "keys", "status"), [("open", KEYED, 201), ("closed", "", 403)])
def test_signing_up_is_open_or_closed_as_the_configuration_says(
    tmp_path: Path, word: str, keys: str, status: int
) -> None:
    with lab(tmp_path, f'{keys}[accounts]\nsignup = "{word}"\n') as server:
        stranger = Browser(server, X_Forwarded_For="203.0.113.9")
        assert stranger.ask("POST", "/api/auth/signup", {"name": "anna", "password": PASSWORD}).status == status
        assert stranger.ask("POST", "/api/auth/guest", {}).status == (200 if word == "open" else 403)


def test_where_it_is_closed_the_local_guest_is_let_in_all_the_same(tmp_path: Path) -> None:
    with lab(tmp_path, '[accounts]\nsignup = "closed"\n') as server:
        assert Browser(server).enter("guest")["user"]["id"] == "guest"


# -- tokens


def forged(server: Lab, **changes: Any) -> str:
    """A token as this server signs it, of its own secret, but for these claims."""
    (key,) = json.loads((data_of(server) / FILE).read_bytes())["keys"]
    said = {"iss": "rivermouth", "iat": int(time.time()), "exp": int(time.time()) + 900, **changes}
    return jwt.encode(said, base64.urlsafe_b64decode(key["secret"]), "HS256", {"kid": key["kid"]})


def data_of(server: Lab) -> Path:
    return server.inside.services.accounts._keyring._path.parent


@pytest.mark.promise(97)
@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_every_route_wants_a_token_that_is_good(server: Lab, method: str, path: str) -> None:
    """Refused before anything is looked at: a chat that is not there is a 401 as well."""
    stranger = Browser(server)
    body = BODIES.get(path, {}) if method != "GET" else None
    where = path.format(999)
    assert stranger.ask(method, where, body).error == NOT_SIGNED_IN
    claims = jwt.decode(account(server, f"of {method} {path}").token or "", options={"verify_signature": False})
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in ({}, claims)]
    unsigned = base64.urlsafe_b64encode(b'{"alg":"none","typ":"JWT"}').decode().rstrip("=")
    bad = {
        "rubbish": "rubbish",
        "empty": "..",
        "unsigned": f"{unsigned}.{parts[1]}.",
        "foreign": jwt.encode(claims, b"k" * 32, "HS256", {"kid": "other"}),
        "expired": forged(server, **{**claims, "exp": int(time.time()) - 1}),
        "nobodys": forged(server, sub="nobody", sid=claims["sid"]),
        "another's": forged(server, sub=me(account(server, f"not of {method} {path}"))["id"], sid=claims["sid"]),
        "no session's": forged(server, sub=claims["sub"], sid="0" * 64),
    }
    for name, token in bad.items():
        stranger.token = token
        answer = stranger.ask(method, where, body)
        assert answer.status == 401, name
        assert answer.error[1] == "authentication"
    stranger.token = forged(server, **claims)  # and so the forgery itself is a good one
    assert stranger.ask(method, where, body).status != 401


@pytest.mark.promise(97)
@pytest.mark.parametrize(("method", "path"), [route for route in ROUTES if "{}" in route[1]])
def test_a_strangers_chat_is_not_found(server: Lab, method: str, path: str) -> None:
    anna, bob = account(server, f"a {method}{path}"), account(server, f"b {method}{path}")
    chat = anna.chat("Mine")
    answer = bob.ask(method, path.format(chat), BODIES.get(path, {}) if method != "GET" else None)
    assert answer.error == (404, "not_found", "chat_not_found")
    assert anna.get(f"/api/chats/{chat}")["chat"]["title"] == "Mine"
    assert bob.get("/api/chats")["chats"] == bob.get("/api/chats?q=Mine")["chats"] == []


def test_each_has_a_choice_of_model_of_its_own(server: Lab) -> None:
    anna, bob = account(server, "chooser"), account(server, "no chooser")
    assert anna.ask("PUT", "/api/ai/model", {"model": "groq"}).status == 200
    assert anna.get("/api/ai/models")["selected"] == "groq"
    assert bob.get("/api/ai/models")["selected"] == "auto"


# -- the cookie


def test_the_cookie_is_the_pages_alone(server: Lab, browser: Browser) -> None:
    answer = browser.ask("POST", "/api/auth/guest", {})
    parts = answer.headers["set-cookie"].split("; ")
    assert parts[1:] == ["Path=/api/auth", "Max-Age=2592000", "HttpOnly", "SameSite=Strict"]
    assert answer.headers["cache-control"] == "no-store"
    assert browser.cookie is not None
    assert browser.cookie.partition("=")[2] not in answer.body.decode()
    assert Browser(server).ask("GET", "/api/chats", Cookie=browser.cookie).error == NOT_SIGNED_IN
    assert Browser(server).ask("GET", "/api/auth/me", Cookie=browser.cookie).error == NOT_SIGNED_IN


def test_the_cookie_is_for_tls_alone_where_the_page_came_by_tls(server: Lab) -> None:
    page = Browser(server, Origin=f"https://127.0.0.1:{server.port}")
    assert page.ask("POST", "/api/auth/guest", {}).headers["set-cookie"].endswith("; Secure")


@pytest.mark.parametrize(("peer", "secure"), [("127.0.0.1", True), ("192.0.2.1", False)])
def test_what_a_proxy_says_of_tls_is_believed_of_a_trusted_one(tmp_path: Path, peer: str, secure: bool) -> None:
    with lab(tmp_path, f'[http]\ntrusted_proxies = ["{peer}"]\n') as server:
        page = Browser(server, X_Forwarded_Proto="https")
        assert page.ask("POST", "/api/auth/guest", {}).headers["set-cookie"].endswith("; Secure") is secure


def test_a_token_is_renewed_by_the_cookie_which_changes_with_each_use(browser: Browser) -> None:
    first = browser.enter("guest")
    cookies = {browser.cookie}
    for _ in range(3):
        again = browser.enter("refresh")
        assert again["user"] == first["user"]
        assert me(browser) == first["user"]
        cookies.add(browser.cookie)
    assert len(cookies) == 4


def test_two_tabs_that_renew_at_once_both_go_on(server: Lab, browser: Browser) -> None:
    browser.enter("guest")
    tab = Browser(server)
    tab.cookie = browser.cookie
    browser.enter("refresh")
    tab.enter("refresh")
    assert tab.cookie == browser.cookie
    browser.enter("refresh")
    assert me(tab) == me(browser)


def test_a_stolen_cookie_that_is_used_after_its_owner_ends_the_session_of_both(server: Lab, browser: Browser) -> None:
    browser.enter("guest")
    thief = Browser(server)
    thief.cookie = browser.cookie
    browser.enter("refresh")
    browser.enter("refresh")
    assert thief.ask("POST", "/api/auth/refresh", {}).error == UNKNOWN
    assert browser.ask("POST", "/api/auth/refresh", {}).error == UNKNOWN
    assert browser.ask("GET", "/api/auth/me").error == UNKNOWN


@pytest.mark.parametrize("origin", ["http://localhost:3000", "app://evil", "https://evil.example", "null"])
@pytest.mark.parametrize("route", ["refresh", "logout"])
def test_no_other_page_can_use_the_cookie_even_one_that_may_call(server: Lab, route: str, origin: str) -> None:
    page = Browser(server)
    page.enter("guest")
    assert page.ask("POST", f"/api/auth/{route}", {}, Origin=origin).status == 403
    assert page.ask("POST", f"/api/auth/{route}", {}, Sec_Fetch_Site="same-site").status == 403
    assert "set-cookie" not in page.ask("POST", "/api/auth/guest", {}, Origin="http://localhost:3000").headers
    own = f"http://127.0.0.1:{server.port}"
    assert page.ask("POST", "/api/auth/refresh", {}, Origin=own, Sec_Fetch_Site="same-origin").status == 200


def test_who_signs_out_is_out_at_once(server: Lab) -> None:
    page = account(server, "leaver")
    other = Browser(server)
    other.enter("login", "leaver")
    old = page.cookie
    assert page.ask("POST", "/api/auth/logout", {}).status == 204
    assert "Max-Age=0" in page.set_cookie
    assert page.ask("GET", "/api/chats").error == UNKNOWN
    page.cookie = old
    assert page.ask("POST", "/api/auth/refresh", {}).error == UNKNOWN
    assert page.ask("POST", "/api/auth/logout", {}).status == 204
    assert me(other)["name"] == "leaver"


# -- names and passwords


def test_a_guest_signs_up_in_the_middle_of_an_answer_and_no_word_is_lost(server: Lab, browser: Browser) -> None:
    guest = browser.enter("guest")["user"]
    chat = browser.chat()
    connection, stream = browser.open("POST", f"/api/chats/{chat}/stream", {"content": "x", "model": "scripted-slow"})
    head = until(stream, b'"event":"token"')
    made = browser.enter("signup", "midway")["user"]
    assert made == {"id": guest["id"], "name": "midway", "guest": False}
    head += until(stream, b'"event":"token"')
    connection.close()
    seen = [frame for frame in read_frames(head) if "#" in frame]
    connection, stream = browser.open("GET", f"/api/chats/{chat}/events?after={seen[-1]['#']}")
    rest = until(stream, b'"event":"token"')
    assert browser.ask("POST", f"/api/chats/{chat}/cancel", {}).json == {"cancelled": True}
    rest += until(stream, b'"event":"cancelled"')
    connection.close()
    whole = browser.get(f"/api/chats/{chat}")
    assert tokens(seen) + tokens(read_frames(rest)) == whole["messages"][-1]["content"] != ""


def test_bad_names_and_passwords_say_what_is_wrong(browser: Browser) -> None:
    def asked(body: Any, route: str = "signup") -> tuple[int, str, str | None]:
        return browser.ask("POST", f"/api/auth/{route}", body).error

    assert asked({"name": "", "password": PASSWORD}) == (400, "invalid_request", "unfit_name")
    assert asked({"name": "x" * 65, "password": PASSWORD}) == (400, "invalid_request", "unfit_name")
    assert asked({"name": "x", "password": "short"}) == (400, "invalid_request", "unfit_password")
    assert asked({"name": "x", "password": "p" * 257}) == (400, "invalid_request", "unfit_password")
    assert asked({"name": "x", "password": "p" * 257}, "login") == (400, "invalid_request", "unfit_password")
    assert asked({"name": "SomeBody", "password": PASSWORD}) == (409, "invalid_request", "name_taken")
    for body in ({}, {"name": "x"}, {"name": 5, "password": PASSWORD}, [], b"{", b"\xff", b""):
        assert asked(body)[:2] == (400, "invalid_request")
        assert asked(body, "login")[:2] == (400, "invalid_request")
    for route in ("signup", "login", "guest", "refresh", "logout"):
        assert browser.ask("POST", f"/api/auth/{route}", b"x" * 100_000).status in (200, 401, 413, 204)
    assert asked({"name": "x", "password": "p" * 20_000})[:2] == (413, "too_large")
    assert browser.ask("GET", "/api/auth/login").status == 405
    assert browser.ask("POST", "/api/auth/other", {}).status == 404


def test_a_wrong_name_and_a_wrong_password_are_one_answer(browser: Browser) -> None:
    def login(name: str) -> Answer:
        return browser.ask("POST", "/api/auth/login", {"name": name, "password": "wrong horse"})

    one, other = login("somebody"), login("nobody at all")
    assert one.error == (401, "authentication", "wrong_password")
    assert one.body == other.body
    assert set(one.headers) == set(other.headers)


def test_of_many_who_want_one_name_one_gets_it(server: Lab) -> None:
    answers = at_once(
        12, lambda n: Browser(server).ask("POST", "/api/auth/signup", {"name": "wanted", "password": f"password {n}"})
    )
    assert sorted(answer.status for answer in answers) == [201, *[409] * 11]


def test_a_flood_of_logins_takes_the_memory_of_two_and_leaves_everybody_else_alone(server: Lab) -> None:
    account(server, "flooded")
    before = server.on_loop(server.inside.services.accounts.statistics)
    credentials = {"name": "flooded", "password": "wrong horse"}
    answers = at_once(50, lambda n: Browser(server).ask("POST", "/api/auth/login", credentials))
    assert {answer.status for answer in answers} == {401}
    after = server.on_loop(server.inside.services.accounts.statistics)
    assert 1 <= after["at_once"] <= AT_ONCE
    assert (after["inside"], after["refused"]) == (0, before["refused"])


def test_who_tries_too_often_has_to_wait(tmp_path: Path) -> None:
    with lab(tmp_path, "[accounts]\nlogin_tries = 2\n") as server:
        browser = account(server, "anna")
        wrong = {"name": "anna", "password": "wrong horse"}
        statuses = [browser.ask("POST", "/api/auth/login", wrong).status for _ in range(2)]
        assert statuses == [401, 401]
        answer = browser.ask("POST", "/api/auth/login", {"name": "ANNA", "password": PASSWORD})
        assert answer.error == (429, "rate_limited", "too_many_tries")
        assert 1 <= int(answer.headers["retry-after"]) <= 150
        assert browser.get("/api/auth/me")


def test_an_address_behind_a_trusted_proxy_is_counted_and_not_the_proxys(tmp_path: Path) -> None:
    config = '[http]\ntrusted_proxies = ["127.0.0.0/8"]\n[accounts]\naddress_tries = 2\n'
    with lab(tmp_path, config) as server:
        first = Browser(server, X_Forwarded_For="192.0.2.1, 203.0.113.1")
        second = Browser(server, X_Forwarded_For="192.0.2.1, 203.0.113.2")
        assert [first.ask("POST", "/api/auth/guest", {}).status for _ in range(3)] == [200, 200, 429]
        assert second.ask("POST", "/api/auth/guest", {}).status == 200


def at_once(many: int, ask: Any) -> list[Any]:
    """The answers of so many clients, each in a thread."""
    answers: list[Any] = []
    threads = [threading.Thread(target=lambda n=n: answers.append(ask(n)), daemon=True) for n in range(many)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(answers) == many
    return answers


# -- leaving for good


WORDS = ("zyzzyva", "quokkaesque")
"""Words of which no other has the beginning, so an index that has them has them in one piece."""


def traces(database: Path, *needles: str) -> set[str]:
    """Which of these stand anywhere in any table, those of the search and of SQLite's own included."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as raw:
        names = [row[0] for row in raw.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        held = b""
        for name in names:
            for row in raw.execute(f'SELECT * FROM "{name}"'):
                for cell in row:
                    held += cell if isinstance(cell, bytes) else str(cell).encode()
    return {needle for needle in needles if needle.encode() in held}


@pytest.mark.promise(97)
def test_who_is_deleted_leaves_no_row_and_no_word(server: Lab) -> None:
    database = data_of(server) / "rivermouth.db"
    anna, bob = account(server, "Deleted-Person"), account(server, "stays")
    user = me(anna)["id"]
    his = bob.chat("brushturkey")
    chats = [anna.chat(f"About {WORDS[0]}") for _ in range(2)]
    assert anna.ask("PUT", "/api/ai/model", {"model": "scripted"}).status == 200
    said = {"content": f"tell me of {WORDS[1]}", "model": "scripted"}
    assert anna.ask("POST", f"/api/chats/{chats[0]}/stream", said).status == 200
    connection, stream = anna.open(
        "POST", f"/api/chats/{chats[1]}/stream", {"content": WORDS[1], "model": "scripted-slow"}
    )
    head = until(stream, b'"event":"token"')
    following, events = anna.open("GET", f"/api/chats/{chats[1]}/events")
    caught_up = until(events, b'"event":"caught_up"')
    needles = (user, "Deleted-Person", "deleted-person", *WORDS)
    assert traces(database, *needles) == set(needles)

    assert anna.ask("DELETE", "/api/auth/me").status == 204
    assert "Max-Age=0" in anna.set_cookie
    rest = stream.read()
    assert read_frames(head + rest)[-1]["event"] == "cancelled"  # it was stopped, not forgotten
    events.read()
    assert caught_up
    connection.close()
    following.close()
    assert traces(database, *needles) == set()
    live = server.on_loop(lambda: [o.chat.id for o in server.inside.services.chat.worker.owners.values()])
    assert not set(live) & set(chats)
    assert anna.ask("GET", "/api/chats").error == UNKNOWN
    assert anna.ask("POST", "/api/auth/refresh", {}).error == UNKNOWN
    login = {"name": "deleted-person", "password": PASSWORD}
    assert Browser(server).ask("POST", "/api/auth/login", login).error[2] == "wrong_password"
    assert [chat["id"] for chat in bob.get("/api/chats?q=brush")["chats"]] == [his]
    assert account(server, "Deleted-Person").get("/api/chats")["chats"] == []


def test_the_words_of_the_deleted_are_not_in_the_file_either(tmp_path: Path) -> None:
    """Nor in the log that is written ahead of it, when nobody is in the way."""
    with lab(tmp_path) as server:
        anna = account(server, "Deleted-Person")
        chat = anna.chat(f"About {WORDS[0]}")
        said = {"content": f"tell me of {WORDS[1]}", "model": "scripted"}
        assert anna.ask("POST", f"/api/chats/{chat}/stream", said).status == 200
        files = [data_of(server) / name for name in ("rivermouth.db", "rivermouth.db-wal")]
        assert all(word.encode() in b"".join(path.read_bytes() for path in files) for word in WORDS)
        assert anna.ask("DELETE", "/api/auth/me").status == 204
        held = b"".join(path.read_bytes() for path in files)
        assert [word for word in (*WORDS, "Deleted-Person") if word.encode() in held] == []


def test_nothing_secret_is_logged(tmp_path: Path) -> None:
    with lab(tmp_path) as server:
        browser = account(server, "anna")
        browser.enter("login", "anna")
        browser.enter("refresh")
        browser.ask("POST", "/api/auth/login", {"name": "anna", "password": "wrong horse"})
        browser.ask("GET", "/api/chats", Authorization=f"Bearer {browser.token}x")
        said = repr(server.log)
        assert browser.token is not None
        assert browser.cookie is not None
        secrets = (browser.token, browser.cookie.partition("=")[2], PASSWORD, "wrong horse")
        assert [secret for secret in secrets if secret in said] == []
        browser.ask("DELETE", "/api/auth/me")
        assert "account.deleted" in repr(server.log)

"""Keys over HTTP: made, shown, changed, rotated, revoked; and everything of it in the log of changes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.engine.client import asking
from tests.engine.lab import lab
from tests.engine.words import OPENAI, talk
from tests.platform_api.office import Office

pytestmark = pytest.mark.anyio

KEYS = "/platform/v1/keys"


async def made(place: Office, name: str, **more: Any) -> dict[str, Any]:
    status, document = await place.ask("POST", KEYS, "admin", {"name": name, **more})
    assert status == 201, document
    return document  # type: ignore[no-any-return]


async def opens(place: Office, secret: str) -> bool:
    return (await place.ask("GET", "/platform/v1/me", secret))[0] == 200


async def test_a_key_is_made_and_its_secret_is_told_once(place: Office):
    later = (datetime.now(UTC) + timedelta(days=1)).replace(microsecond=0)
    issued = await made(
        place,
        "carol",
        role="auditor",
        scopes=["generate"],
        models=["gpt-*"],
        policy="europe",
        user="carol@example.org",
        limits={"requests_per_minute": 5},
        budget={"amount": 1.5, "currency": "EUR"},
        expires_at=later.isoformat(),
    )
    key, secret = issued["key"], issued["secret"]
    assert secret.startswith(key["prefix"])
    assert len(secret) > len(key["prefix"]) + 20
    assert datetime.fromisoformat(key["expires_at"]) == later
    assert (key["name"], key["role"], key["status"], key["created_by"]) == ("carol", "auditor", "active", "key:ann")
    assert await opens(place, secret)
    for path in (KEYS, f"{KEYS}/carol", f"{KEYS}/{key['id']}", "/platform/v1/changes"):
        _, _, data = await place.raw("GET", path)
        assert secret.encode() not in data
    shown = await place.get(f"{KEYS}/{key['id']}")
    assert {**shown, "last_used_at": None} == {**key, "last_used_at": None}


async def test_a_key_is_changed_rotated_and_revoked(place: Office):
    issued = await made(place, "dora", models=["gpt-x"])
    path = f"{KEYS}/{issued['key']['id']}"
    status, key = await place.ask("PATCH", path, "admin", {"models": None, "user": "dora@example.org"})
    assert (status, key["models"], key["user"], key["version"]) == (200, None, "dora@example.org", 2)
    status, again = await place.ask("PATCH", path, "admin", {})
    assert (again["models"], again["user"]) == (None, "dora@example.org")
    status, rotated = await place.ask("POST", f"{path}/rotate", "admin", {"grace_s": 600})
    assert status == 200
    assert await opens(place, issued["secret"])
    assert await opens(place, rotated["secret"])
    status, rotated = await place.ask("POST", f"{path}/rotate", "admin", {"grace_s": 0})
    assert not await opens(place, issued["secret"])
    assert await opens(place, rotated["secret"])
    status, key = await place.ask("POST", f"{path}/revoke", "admin")
    assert (status, key["status"]) == (200, "revoked")
    assert not await opens(place, rotated["secret"])
    assert (await place.ask("DELETE", path))[0] == 200, "revoking again changes nothing"
    status, document = await place.ask("PATCH", path, "admin", {"user": None})
    assert (status, document["error"]["code"]) == (409, "key_revoked")
    assert "dora" not in {k["name"] for k in (await place.get(f"{KEYS}?revoked=false"))["data"]}
    entries = (await place.get(f"/platform/v1/changes?target={issued['key']['id']}"))["data"]
    assert [e["action"] for e in entries] == [
        "key.revoked",
        "key.rotated",
        "key.rotated",
        "key.changed",
        "key.changed",
        "key.created",
    ]
    assert {e["who"] for e in entries} == {"key:ann"}
    first = entries[-1]["after"]
    assert first["created_at"] == issued["key"]["created_at"]
    assert not [name for entry in entries for name in {**(entry["before"] or {}), **entry["after"]} if "_ns" in name]
    change = entries[4]
    assert (change["before"]["models"], change["after"]["models"]) == (["gpt-x"], None)


async def test_the_log_is_read_in_pages(place: Office):
    for number in range(3):
        await made(place, f"paged-{number}")
    met, after = [], ""
    while True:
        page = await place.get(f"/platform/v1/changes?limit=2{after}")
        met += [entry["id"] for entry in page["data"]]
        if page["next"] is None:
            break
        after = f"&after={page['next']}"
    assert met == sorted(set(met), key=int, reverse=True)
    assert len(met) >= 3


@pytest.mark.parametrize(
    ("body", "status", "param", "code"),
    [
        ({}, 400, None, None),
        ({"name": "bob"}, 409, None, "key_name_taken"),
        ({"name": "spaces are none"}, 400, "name", None),
        ({"name": "x", "role": "king"}, 400, "role", None),
        ({"name": "x", "policy": "none-such"}, 400, "policy", "unknown_policy"),
        ({"name": "x", "budget": {"amount": -1, "currency": "EUR"}}, 400, "budget.amount", None),
        ({"name": "x", "expires_at": "2001-01-01T00:00:00Z"}, 400, "expires_at", None),
        ({"name": "x", "expires_at": "2101-01-01T00:00:00"}, 400, "expires_at", None),
        ({"name": "x", "colour": "blue"}, 400, "colour", None),
    ],
)
async def test_a_key_that_cannot_be_is_refused(
    place: Office, body: dict[str, Any], status: int, param: str | None, code: str | None
):
    found, document = await place.ask("POST", KEYS, "admin", body)
    error = document["error"]
    assert (found, error["param"], error["code"]) == (status, param, code), error


async def test_a_key_of_the_configuration_is_shown_and_not_changed(place: Office):
    key = await place.get(f"{KEYS}/bob")
    assert (key["id"], key["source"], key["prefix"], key["budget"]["currency"]) == ("config:bob", "config", None, "EUR")
    for method, path in (("PATCH", "bob"), ("DELETE", "bob"), ("POST", "bob/rotate"), ("POST", "bob/revoke")):
        body = {} if method == "PATCH" else None
        status, document = await place.ask(method, f"{KEYS}/{path}", "admin", body)
        assert (status, document["error"]["code"]) == (409, "key_configured")


async def test_what_is_taken_of_limits_and_budgets_is_told(place: Office):
    answer = await place.call("user")
    cost = (await place.get(f"/platform/v1/calls/{answer.call_id}"))["cost"]
    (budget,) = (await place.get("/platform/v1/budgets", "user"))["data"]
    assert (budget["kind"], budget["name"], budget["currency"], budget["known"]) == ("key", "bob", "EUR", True)
    assert budget["spent"] >= cost["amount"] > 0
    assert budget["spent"] + budget["reserved"] + budget["left"] == pytest.approx(budget["amount"])
    assert datetime.fromisoformat(budget["until"]) - datetime.fromisoformat(budget["since"]) <= timedelta(hours=25)
    (limit,) = (await place.get("/platform/v1/limits", "user"))["data"]
    assert limit["limits"]["requests_per_minute"] == 1000
    assert limit["running"] == 0


async def test_the_first_key_of_an_open_server_is_an_admins(tmp_path: Path):
    """Or nobody could make another one but by hand."""
    with lab(tmp_path) as server:
        place = Office(server)
        status, document = await place.ask("POST", KEYS, None, {"name": "bob"})
        assert (status, document["error"]["code"]) == (409, "first_key_no_admin")
        status, issued = await place.ask("POST", KEYS, None, {"name": "ann", "role": "admin"})
        assert status == 201
        assert (await place.ask("GET", KEYS, None))[0] == 401
        assert (await place.ask("POST", KEYS, issued["secret"], {"name": "bob"}))[0] == 201
        async with asking(server.port, OPENAI.path, talk("scripted", stream=False)) as answer:
            assert answer.status == 401


@pytest.mark.parametrize(
    ("path", "body", "param", "says"),
    [
        (KEYS, {"name": "x y"}, "name", "a key's name has up to 64 letters"),
        (KEYS, {"name": "x", "role": "boss"}, "role", "expected one of user, auditor, admin, not 'boss'"),
        (KEYS, {"name": "x", "budget": {"amount": 5, "currency": "euro"}}, "budget.currency", "three capital letters"),
        (KEYS, {"name": "x", "scopes": ["sing"]}, "scopes[0]", "expected one of generate, embed"),
        ("/platform/v1/usage?group_by=colour", None, "group_by", "expected one of day, model"),
        ("/platform/v1/calls?status=odd", None, "status", "expected one of open, "),
    ],
)
async def test_what_cannot_be_is_said_with_what_can(place: Office, path: str, body: Any, param: str, says: str):
    status, document = await place.ask("GET" if body is None else "POST", path, "admin", body)
    error = document["error"]
    assert (status, error["param"]) == (400, param)
    assert says in error["message"]

"""Who may ask what: every route, every role.  And what every route has in common."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from litestar.handlers import HTTPRouteHandler

from rivermouth.http.api.platform.app import OPEN, SUBJECTS
from rivermouth.http.api.platform.desk import Desk
from rivermouth.http.api.platform.exports import CSV, LINES
from tests.engine.client import asking
from tests.engine.lab import lab
from tests.platform_api.office import Office

pytestmark = pytest.mark.anyio

ROLES: Final = ("user", "auditor", "admin")
LEAST: Final[dict[str, str]] = {
    "GET /platform/v1/budgets": "user",
    "GET /platform/v1/calls": "user",
    "GET /platform/v1/calls.csv": "user",
    "GET /platform/v1/calls.jsonl": "user",
    "GET /platform/v1/calls/{call_id:str}": "user",
    "GET /platform/v1/changes": "auditor",
    "GET /platform/v1/endpoints": "auditor",
    "GET /platform/v1/keys": "auditor",
    "GET /platform/v1/keys/{key_id:str}": "auditor",
    "GET /platform/v1/limits": "user",
    "GET /platform/v1/me": "user",
    "GET /platform/v1/models": "user",
    "GET /platform/v1/policies": "auditor",
    "GET /platform/v1/queues": "user",
    "GET /platform/v1/turns": "auditor",
    "GET /platform/v1/usage": "user",
    "GET /platform/v1/usage.csv": "user",
    "GET /platform/v1/usage.jsonl": "user",
    "POST /platform/v1/calls/{call_id:str}/cancel": "user",
    "POST /platform/v1/erasures": "admin",
    "POST /platform/v1/keys": "admin",
    "POST /platform/v1/keys/{key_id:str}/revoke": "admin",
    "POST /platform/v1/keys/{key_id:str}/rotate": "admin",
    "POST /platform/v1/policies/dry-run": "user",
    "PATCH /platform/v1/keys/{key_id:str}": "admin",
    "DELETE /platform/v1/keys/{key_id:str}": "admin",
    "DELETE /platform/v1/keys/{key_id:str}/data": "admin",
    "DELETE /platform/v1/users/{user:str}/data": "admin",
}
"""Every route -> the least role that may use it."""

BODIES: Final[dict[str, Any]] = {
    "POST /platform/v1/erasures": {"user": "nothing-of-that-name"},
    "POST /platform/v1/keys": {"name": "made-by-a-test"},
    "POST /platform/v1/policies/dry-run": {"model": "gpt-x"},
    "PATCH /platform/v1/keys/{key_id:str}": {},
}
READS: Final = [route for route in LEAST if route.startswith("GET ")]


def handlers() -> Iterator[HTTPRouteHandler]:
    desk = Desk(**dict.fromkeys(Desk.__struct_fields__))
    for subject in SUBJECTS:
        yield from subject.routes(desk)


def filled(route: str) -> tuple[str, str]:
    method, _, path = route.partition(" ")
    for name in ("call_id", "key_id", "user"):
        path = path.replace(f"{{{name}:str}}", "nothing-of-that-name")
    return method, path


def test_every_route_is_in_the_table():
    served = {f"{method} {path}" for h in handlers() for method in h.http_methods for path in h.paths}
    assert served == set(LEAST)


@pytest.mark.parametrize("route", LEAST)
async def test_a_route_takes_those_who_may(place: Office, route: str):
    method, path = filled(route)
    body = BODIES.get(route)
    status, document = await place.ask(method, path, None, body)
    assert (status, document["error"]["code"]) == (401, "invalid_api_key")
    assert (await place.ask(method, path, "no-key-of-anybody", body))[0] == 401
    for role in ROLES:
        status, headers, data = await place.raw(method, path, role, body)
        if ROLES.index(role) < ROLES.index(LEAST[route]):
            assert status == 403
            assert json.loads(data)["error"]["code"] == "role_missing"
        else:
            assert status not in (401, 403), data
            assert status < 500
        assert "www-authenticate" not in headers


async def test_whoever_has_no_key_is_told_where_one_goes(place: Office):
    _, headers, _ = await place.raw("GET", "/platform/v1/calls", None)
    assert headers["www-authenticate"] == "Bearer"


async def test_a_user_sees_nothing_of_others(place: Office):
    mine, other = await place.call("user"), await place.call("other")
    assert {c["key_name"] for c in (await place.get("/platform/v1/calls", "user"))["data"]} == {"bob"}
    assert (await place.ask("GET", f"/platform/v1/calls/{mine.call_id}", "user"))[0] == 200
    assert (await place.ask("GET", f"/platform/v1/calls/{other.call_id}", "user"))[0] == 404
    assert (await place.ask("GET", "/platform/v1/calls?key_name=eve", "user"))[0] == 403
    assert {b["name"] for b in (await place.get("/platform/v1/budgets", "user"))["data"]} == {"bob"}
    assert (await place.get("/platform/v1/budgets", "other"))["data"] == []
    assert [entry["key"] for entry in (await place.get("/platform/v1/limits", "user"))["data"]] == ["bob"]
    seen = {c["key_name"] for c in (await place.get("/platform/v1/calls", "auditor"))["data"]}
    assert seen >= {"bob", "eve"}


async def test_everybody_is_told_who_they_are(place: Office):
    assert await place.get("/platform/v1/me", "user") == {
        "key_name": "bob",
        "role": "user",
        "scopes": None,
        "models": ["gpt-*", "scripted*"],
        "policies": ["europe"],
        "user": "bob@example.org",
    }


# -- what all have in common


@pytest.mark.promise(77)
@pytest.mark.parametrize("route", READS)
async def test_an_answer_is_one_document(place: Office, route: str):
    call = await place.call()
    path = filled(route)[1].replace("/calls/nothing-of-that-name", f"/calls/{call.call_id}")
    status, headers, data = await place.raw("GET", path.replace("nothing-of-that-name", "bob"))
    assert status == 200
    assert headers["cache-control"] == "no-store"
    assert headers["x-content-type-options"] == "nosniff"
    if path.endswith((".csv", ".jsonl")):
        assert headers["content-type"].partition(";")[0] == (CSV if path.endswith(".csv") else LINES)
        return
    assert headers["content-type"] == "application/json"
    assert int(headers["content-length"]) == len(data), "whole, and not in pieces"
    assert isinstance(json.loads(data), dict)


@pytest.mark.promise(78)
@pytest.mark.parametrize("route", LEAST)
async def test_a_wish_to_stream_is_an_error(place: Office, route: str):
    method, path = filled(route)
    status, document = await place.ask(method, f"{path}?stream=true", "admin", BODIES.get(route))
    assert (status, document["error"]["param"]) == (400, "stream")
    if route in BODIES:
        status, document = await place.ask(method, path, "admin", {**BODIES[route], "stream": True})
        assert (status, document["error"]["param"]) == (400, "stream")
        assert "stream" in document["error"]["message"]


@pytest.mark.parametrize("route", [r for r in READS if "calls/" not in r and "/keys/" not in r and "." not in r[16:]])
async def test_a_list_has_its_data_and_what_comes_next(place: Office, route: str):
    document = await place.get(filled(route)[1])
    if route not in ("GET /platform/v1/me", "GET /platform/v1/queues", "GET /platform/v1/turns"):
        assert isinstance(document["data"], list)
        assert document["next"] is None or isinstance(document["next"], str)


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/platform/v1/nothing", 404, "unknown_url"),
        ("PUT", "/platform/v1/calls", 405, "method_not_allowed"),
        ("TRACE", "/platform/v1/calls", 405, "method_not_allowed"),
    ],
)
async def test_what_is_not_here_is_an_error_in_the_same_shape(
    place: Office, method: str, path: str, status: int, code: str
):
    found, headers, data = await place.raw(method, path)
    error = json.loads(data)["error"]
    assert (found, error["code"], set(error)) == (status, code, {"message", "type", "param", "code"})
    assert ("allow" in headers) == (status == 405)
    assert status == 405 or f"{method} {path}" in error["message"]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"model": 3}', b'"\xff"', b"null", b"[" * 5000])
async def test_a_body_that_is_none_is_refused(place: Office, body: bytes):
    status, document = await place.ask("POST", "/platform/v1/policies/dry-run", "admin", body)
    assert (status, document["error"]["type"]) == (400, "invalid_request_error")


async def test_a_body_has_a_limit(place: Office):
    status, document = await place.ask("POST", "/platform/v1/policies/dry-run", "admin", b" " * (1024 * 1024 + 1))
    assert status == 413
    assert set(document["error"]) == {"message", "type", "param", "code"}
    assert (document["error"]["type"], document["error"]["code"]) == ("invalid_request_error", "request_too_large")


async def test_an_open_server_on_this_machine_asks_nobody_but_a_page_from_elsewhere(tmp_path: Path):
    with lab(tmp_path) as server:
        place = Office(server)
        assert (await place.get("/platform/v1/me", None))["role"] == "admin"
        assert (await place.get("/platform/v1/keys", None))["data"] == []
        async with asking(
            server.port, "/platform/v1/keys", None, {"origin": "https://x.example"}, method="GET"
        ) as answer:
            assert answer.status == 403


async def test_the_description_needs_no_key(place: Office):
    for path in OPEN:
        assert (await place.raw("GET", path, None))[0] == 200

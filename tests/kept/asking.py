"""A client of kept responses on bare sockets, and what a test reads of their events."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from typing import Any, Final

from rivermouth.store.port import CallRecord, Status
from tests.engine.client import asking, calling
from tests.engine.lab import Lab, until
from tests.engine.place import Place
from tests.engine.words import document, events
from tests.fakes import JSON, Asked

PATH: Final = "/v1/responses"
OVER: Final = frozenset({"completed", "failed", "cancelled", "incomplete"})

Headers = Mapping[str, str]


def wanted(model: str = "up/m", text: str = "hi", **more: Any) -> dict[str, Any]:
    """A request."""
    return {"model": model, "input": text, **more}


async def ask(
    server: Lab, method: str, path: str = "", body: Any = None, headers: Headers | None = None
) -> tuple[int, Any]:
    """Status and document."""
    async with asking(server.port, PATH + path, body, headers, method=method) as answer:
        return answer.status, await answer.json()


async def got(server: Lab, response_id: str, headers: Headers | None = None) -> Any:
    """The response."""
    status, found = await ask(server, "GET", f"/{response_id}", headers=headers)
    assert status == 200, found
    return found


async def read(server: Lab, response_id: str, more: str = "", headers: Headers | None = None) -> bytes:
    """Its events, to their end."""
    path = f"{PATH}/{response_id}?stream=true{more}"
    async with asking(server.port, path, None, headers, method="GET") as answer:
        assert answer.status == 200, await answer.rest()
        return await answer.rest()


async def ended(server: Lab, response_id: str, headers: Headers | None = None) -> Any:
    """The response, once it has an end."""
    while (found := await got(server, response_id, headers))["status"] not in OVER:
        assert found["status"] == "in_progress"
    return found


async def assert_missing(server: Lab, response_id: str, headers: Headers | None = None) -> None:
    """Whatever is asked of it, it is not there."""
    for method, more in (
        ("GET", ""),
        ("GET", "?stream=true"),
        ("GET", "/input_items"),
        ("POST", "/cancel"),
        ("DELETE", ""),
    ):
        status, found = await ask(server, method, f"/{response_id}{more}", headers=headers)
        assert (status, found["error"]["code"]) == (404, "response_not_found"), (method, more, found)
        assert found["error"]["type"] == "invalid_request_error"
    status, found = await ask(server, "POST", body=wanted(previous_response_id=response_id), headers=headers)
    assert (status, found["error"]["param"]) == (400, "previous_response_id")
    assert found["error"]["code"] == "previous_response_not_found"


async def made(place: Place, says: str = "one", headers: Headers | None = None, **more: Any) -> tuple[Any, Any]:
    """A whole response, and what its upstream was asked for it."""
    async with calling(place.server.port, PATH, wanted(**more), headers) as client:
        asked = await place.asked()
        await asked.answer(200, JSON, document(says))
        answer = await client.answer()
        found = await answer.json()
    assert (answer.status, found["status"]) == (200, "completed"), found
    return found, json.loads(asked.body)


async def begun(place: Place, headers: Headers | None = None, **more: Any) -> tuple[Any, Asked]:
    """A response in the background, and its upstream, which has been asked."""
    status, found = await ask(place.server, "POST", body=wanted(background=True, **more), headers=headers)
    assert status == 200, found
    assert (found["status"], found["background"], found["output"]) == ("in_progress", True, [])
    return found, await place.asked()


def told(body: bytes) -> list[Any]:
    """The events."""
    found = events(body)
    assert all(name == event["type"] for name, event in found)
    return [event for _, event in found]


def text_of(response: Any) -> str:
    return "".join(p.get("text", "") for item in response["output"] for p in item.get("content", ()))


class Before:
    """How much there was when the test that runs began: its server may have served others."""

    records = 0
    rows = 0


async def fresh(place: Place) -> Place:
    """Nothing of the tests before is in the way of this one."""
    place.clear()
    await place.server.idle()
    Before.records = Before.rows = 0
    Before.records, Before.rows = len(records(place.server)), rows(place.server)
    return place


async def over(server: Lab) -> list[Status]:
    """How the calls of this test ended, the newest first, once all have."""
    await server.idle()
    await until(lambda: all(r.status is not Status.OPEN for r in records(server)), "every record is final")
    return [record.status for record in records(server)]


def records(server: Lab) -> list[CallRecord]:
    """Those of this test, the newest first."""
    every = server.records()
    return every[: len(every) - Before.records]


def rows(server: Lab) -> int:
    """How many more answers the database has."""
    with sqlite3.connect(server.data_path / "rivermouth.db") as raw:
        count = raw.execute("SELECT count(*) FROM kept_answers").fetchone()[0]
    raw.close()
    return int(count) - Before.rows

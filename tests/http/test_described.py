"""The OpenAPI document of the chat application: every route is in it, and everybody may read it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from rivermouth.http.api.described import PATH, SHAPES
from rivermouth.http.chats import METHODS
from tests.engine.client import asking
from tests.engine.lab import Lab, lab
from tests.engine.words import PLAIN

pytestmark = pytest.mark.anyio

KEYED: Final = PLAIN + '[server]\nkeys = ["env:KEY"]\n[http]\nbase_path = "/ai"\n'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder: Path = tmp_path_factory.mktemp("described")
    with lab(folder, KEYED, env={"KEY": "rm-a-key-of-some-length"}) as made:
        yield made


async def document(server: Lab) -> Any:
    async with asking(server.port, "/ai" + PATH, None, method="GET") as answer:
        assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
        return json.loads(await answer.rest())


async def test_everybody_reads_it_where_the_server_is_mounted(server: Lab) -> None:
    assert (await document(server))["servers"] == [{"url": "/ai"}]


async def test_every_route_is_described_and_says_what_it_is_for(server: Lab) -> None:
    paths = (await document(server))["paths"]
    told = {(method.upper(), path): operation for path, item in paths.items() for method, operation in item.items()}
    assert told.keys() == SHAPES.keys()
    assert not [route for route, operation in told.items() if not operation["description"]]
    streams = {(method, f"/api/chats/{{chat_id}}/{name}") for name, method in METHODS.items()}
    assert streams <= told.keys()


async def test_every_reference_leads_somewhere(server: Lab) -> None:
    whole = await document(server)
    named = {part.partition('"')[0] for part in json.dumps(whole).split('"#/components/schemas/')[1:]}
    assert named <= whole["components"]["schemas"].keys()
    assert {"ChatView", "StreamBody", "Models", "SignedInView", "Problem"} <= named


async def test_only_who_signs_in_needs_no_token(server: Lab) -> None:
    paths = (await document(server))["paths"]
    free = {path for path, item in paths.items() for operation in item.values() if operation.get("security") == []}
    assert free == {f"/api/auth/{what}" for what in ("guest", "signup", "login", "refresh", "logout")}

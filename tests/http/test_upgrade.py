"""A request that offers another protocol is answered as what it is; its body is never a request of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise

import pytest

from tests.engine.client import connected
from tests.engine.lab import Lab, lab
from tests.engine.words import ALL, PLAIN, Speaks, talk

pytestmark = pytest.mark.anyio

OFFERS = {
    "h2c": "connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n",
    "websocket": "connection: upgrade\r\nupgrade: websocket\r\n",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with lab(tmp_path_factory.mktemp("upgrade"), PLAIN) as made:
        yield made


def request(path: str, body: bytes, offer: str) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\n{OFFERS[offer]}content-length: {len(body)}\r\n\r\n"
    return head.encode() + body


@pytest.mark.parametrize("cut", ["at once", "after the head", "in the body", "byte by byte"])
@pytest.mark.parametrize("offer", OFFERS)
@pytest.mark.parametrize("speaks", ALL, ids=lambda s: s.name)
async def test_the_offer_is_declined_and_the_request_served(server: Lab, speaks: Speaks, offer: str, cut: str) -> None:
    whole = request(speaks.path, json.dumps(talk("scripted")).encode(), offer)
    head = whole.index(b"\r\n\r\n") + 4
    cuts = {"at once": [], "after the head": [head], "in the body": [head + 9], "byte by byte": range(1, len(whole))}
    places = [0, *cuts[cut], len(whole)]
    async with connected(server.port) as client:
        for start, end in pairwise(places):
            await client.raw(whole[start:end])
        answer = await client.answer()
        assert answer.status == 200
        assert speaks.finished(await answer.rest())
        again = await client.ask("GET", "/health")
        assert again.status == 200


async def test_a_body_is_not_the_next_request(server: Lab) -> None:
    smuggled = b"GET /v1/models/SMUGGLED HTTP/1.1\r\nhost: localhost\r\n\r\n"
    async with connected(server.port) as client:
        await client.raw(request("/v1/chat/completions", smuggled, "h2c"))
        answer = await client.answer()
        assert answer.status == 400
        assert b"SMUGGLED" not in await answer.rest()
        again = await client.ask("GET", "/health")
        assert (again.status, (await again.json())["status"]) == (200, "ok")


async def test_connect_is_no_request(server: Lab) -> None:
    async with connected(server.port) as client:
        await client.raw(b"CONNECT example.org:443 HTTP/1.1\r\nhost: example.org\r\n\r\n")
        assert (await client.closed()).startswith(b"HTTP/1.1 400")

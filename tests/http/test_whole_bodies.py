"""Before the framework: it sees no body that is too long, comes too slowly, or breaks off."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from rivermouth.http.api.bodies import WholeBodies
from tests.engine.client import connected
from tests.engine.jumping import jump
from tests.engine.lab import Lab, lab, until
from tests.platform_api.office import CONFIG, KEYS

SCOPE: Any = {"path": "/platform/v1/keys", "headers": []}
LIMITS: Any = {"limit_bytes": 8, "limit_s": 30.0}
HEAD = "POST /platform/v1/keys HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 100\r\n"
AS_ADMIN = f"authorization: Bearer {KEYS['admin']}\r\n"


class Behind:
    """An application that reads what it is asked, and answers with it."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        message = await receive()
        assert not message["more_body"]
        self.bodies.append(message["body"])


def status(*parts: bytes, pause_s: float = 0.0, **more: Any) -> tuple[int | None, list[bytes]]:
    """What a client is answered that sends these parts and then nothing; and the bodies that the application got."""
    behind, sent, waiting = Behind(), [], list(parts)

    async def receive() -> Any:
        await asyncio.sleep(pause_s if waiting else 1e9)
        return {"type": "http.request", "body": waiting.pop(0), "more_body": bool(waiting) or bool(more.get("open"))}

    async def send(message: Any) -> None:
        sent.append(message)

    jump(WholeBodies(behind, **LIMITS)(SCOPE, receive, send))
    return (sent[0]["status"] if sent else None), behind.bodies


@pytest.mark.fault("F35")
def test_the_application_gets_whole_bodies_and_no_others() -> None:
    assert status(b"abc", b"", b"def") == (None, [b"abcdef"])
    assert status(b"abcdefg", b"hi") == (413, [])
    assert status(b"abc", open=True) == (408, [])
    assert status(b"a", b"b", b"c", b"d", pause_s=9.0) == (408, [])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with lab(tmp_path_factory.mktemp("bodies"), CONFIG) as made:
        yield made


@pytest.mark.anyio
async def test_a_body_that_breaks_off_is_no_fault_of_ours(server: Lab) -> None:
    async with connected(server.port) as client:
        await client.raw(f'{HEAD}{AS_ADMIN}\r\n{{"name": '.encode())
        await until(lambda: server.inside.services.editions.current.users, "the request has begun")
        client.leave()
    await until(lambda: not server.inside.services.editions.current.users, "the request is over")
    assert not [line for line in server.log if line["log_level"] in ("warning", "error")]


@pytest.mark.anyio
@pytest.mark.fault("F35")
async def test_nobody_waits_for_the_body_of_a_stranger(server: Lab) -> None:
    async with connected(server.port) as client:
        await client.raw(f'{HEAD}\r\n{{"name": '.encode())
        assert (await client.answer()).status == 401

"""F36: a client's credentials go no further than here, and a provider's key shows nowhere but in its requests."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.engine.client import asking, calling, connected
from tests.engine.lab import until
from tests.engine.words import ALL, END, OPENAI, PLAIN, ROLE, Speaks, begin, provider, says, talk
from tests.fakes import JSON, Asked, FakeUpstream
from tests.running import Running, running

pytestmark = [pytest.mark.anyio, pytest.mark.fault("F36")]

CLIENT_KEY: Final = "rm-client-key-0123456789"
PROVIDER_KEY: Final = "pk-provider-key-9876543210"
TEAM: Final = "team-secret-abcdefgh"
SECRETS: Final = (CLIENT_KEY, PROVIDER_KEY, TEAM)
THEIRS: Final = {
    "authorization": f"Bearer {CLIENT_KEY}",
    "x-api-key": CLIENT_KEY,
    "cookie": f"session={CLIENT_KEY}",
    "x-goog-api-key": CLIENT_KEY,
    "openai-organization": "org-of-the-client",
    "x-forwarded-for": "203.0.113.9",
    "user-agent": "client-sdk/1",
    "x-stainless-os": "Linux",
    "anthropic-beta": "of-the-client",
    "traceparent": "00-11111111111111111111111111111111-2222222222222222-01",
}


@pytest.fixture(scope="module")
async def upstream() -> AsyncIterator[FakeUpstream]:
    async with FakeUpstream() as made:
        yield made


@pytest.fixture(scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory, upstream: FakeUpstream) -> AsyncIterator[Running]:
    """A process of its own: its log is all that it says."""
    key = 'api_key = "env:LAB_KEY"\nheaders = { "X-Team" = "env:TEAM" }\n'
    config = PLAIN + '[server]\nkeys = ["env:OUR_KEY"]\n'
    config += provider("lab", upstream.url, more=key) + provider("claude", upstream.url, dialect="anthropic", more=key)
    env = {"LAB_KEY": PROVIDER_KEY, "TEAM": TEAM, "OUR_KEY": CLIENT_KEY}
    with running(tmp_path_factory.mktemp("f36"), config, env=env) as made:
        yield made


def shows_no_secret(text: str, *, but: tuple[str, ...] = ()) -> None:
    assert not [secret for secret in SECRETS if secret not in but and secret in text], text


@pytest.mark.parametrize("wanted", ["lab/m", "claude/m"])
@pytest.mark.parametrize("speaks", ALL, ids=lambda s: s.name)
async def test_an_upstream_sees_its_own_key_and_nothing_of_the_clients(
    server: Running, upstream: FakeUpstream, speaks: Speaks, wanted: str
) -> None:
    async with calling(server.port, f"{speaks.path}?key={CLIENT_KEY}", talk(wanted), THEIRS) as client:
        asked = await upstream.asked()
        await asked.answer(500, JSON, b"{}")
        await (await client.answer()).rest()
    sent = str((asked.path, asked.headers, asked.body))
    shows_no_secret(sent, but=(PROVIDER_KEY, TEAM))
    assert PROVIDER_KEY in sent
    assert asked.headers["x-team"] == TEAM
    foreign = {v for k, v in THEIRS.items() if k != "anthropic-beta"}
    assert not foreign & set(asked.headers.values())
    passed = asked.headers.get("anthropic-beta")
    assert passed in (
        (None, THEIRS["anthropic-beta"]) if speaks.name == "anthropic" and wanted == "claude/m" else (None,)
    )


def echoing() -> bytes:
    """An error in which an upstream repeats what it was sent."""
    said = f"Incorrect API key provided: {PROVIDER_KEY}. Header X-Team: {TEAM}."
    return json.dumps({"error": {"message": said, "type": "invalid_request_error", "code": "invalid_api_key"}}).encode()


async def in_a_refusal(asked: Asked) -> None:
    await asked.answer(401, JSON, echoing())


async def in_a_server_error(asked: Asked) -> None:
    await asked.answer(500, JSON, echoing())


async def in_a_page(asked: Asked) -> None:
    await asked.answer(502, "text/html", f"<html>{PROVIDER_KEY}</html>".encode())


async def in_the_stream(asked: Asked) -> None:
    await begin(asked, ROLE, says("well"), b"data: " + echoing() + b"\n\n")


async def in_rubbish(asked: Asked) -> None:
    await begin(asked, b"data: {" + PROVIDER_KEY.encode() + b"\n\n")


async def in_the_head(asked: Asked) -> None:
    await asked.raw(f"HTTP/1.1 200 {PROVIDER_KEY}\r\n{PROVIDER_KEY}\r\n\r\n".encode())


@pytest.mark.parametrize("echoes", [in_a_refusal, in_a_server_error, in_a_page, in_the_stream, in_rubbish, in_the_head])
@pytest.mark.parametrize("speaks", ALL, ids=lambda s: s.name)
async def test_a_key_that_an_upstream_repeats_reaches_nobody(
    server: Running, upstream: FakeUpstream, speaks: Speaks, echoes: Any
) -> None:
    """Not the client, not the log, not the record."""
    key = {"authorization": f"Bearer {CLIENT_KEY}"}
    async with calling(server.port, speaks.path, talk("lab/m"), key) as client:
        await echoes(await upstream.asked())
        answer = await client.answer()
        body = (await answer.rest()).decode()
    shows_no_secret(str(answer.pairs) + body)
    await until(lambda: any(answer.call_id in line for line in server.log), "the log tells of it")


async def test_neither_log_nor_store_nor_metrics_has_ever_seen_one(server: Running, upstream: FakeUpstream) -> None:
    """After one of everything: a good call, a wrong key, a malformed request, what there is to ask."""
    key = {"authorization": f"Bearer {CLIENT_KEY}"}
    async with calling(server.port, OPENAI.path, talk("lab/m"), key) as client:
        asked = await upstream.asked()
        await begin(asked, ROLE, says("well"))
        await asked.end(END)
        assert OPENAI.finished(await (await client.answer()).rest())
    async with asking(server.port, OPENAI.path, talk("lab/m"), {"authorization": f"Bearer {CLIENT_KEY}x"}) as refused:
        assert refused.status == 401
        shows_no_secret(str(refused.pairs) + (await refused.rest()).decode())
    async with asking(server.port, OPENAI.path, b"{" + CLIENT_KEY.encode(), key) as refused:
        assert refused.status == 400
    async with connected(server.port) as client:
        await client.raw(f"GET /{CLIENT_KEY} HTTP/9.9\r\n\r\n".encode())
        await client.closed()
    for path in ("/metrics", "/health", "/schema/openapi.json"):
        async with asking(server.port, path, None, key, method="GET") as answer:
            shows_no_secret((await answer.rest()).decode())
    shows_no_secret("".join(server.log))
    for file in Path(server.data).rglob("*"):
        if file.is_file():
            shows_no_secret(file.read_bytes().decode("latin-1"))

"""The list of models of a v2 upstream, over a loopback socket: it is the older protocol's, beside the base_url."""

from __future__ import annotations

import pytest

from rivermouth.dialects.cohere_v2 import DIALECT
from rivermouth.providers.http import HttpProvider, HttpTarget
from tests.fakes import JSON, Asked, FakeUpstream

pytestmark = pytest.mark.anyio


async def test_models_are_listed_by_the_older_protocol() -> None:
    async def script(asked: Asked) -> None:
        await asked.head(200, JSON)
        await asked.send(b'{"models":[{"name":"command-a","endpoints":["chat"]}]}')
        await asked.end()

    async with FakeUpstream(script) as fake:
        provider = HttpProvider(
            HttpTarget(name="cohere", dialect=DIALECT, base_url=f"{fake.url}/v2", api_key="k-123456")
        )
        try:
            assert [m.id for m in await provider.models()] == ["command-a"]
        finally:
            await provider.close()
        assert (fake.requests[0].method, fake.requests[0].path) == ("GET", "/v1/models?page_size=1000")
        assert fake.requests[0].headers["authorization"] == "Bearer k-123456"

"""A server with people of every role, and how each asks it.

async with office(folder) as place:
    status, document = await place.ask("GET", "/platform/v1/calls", "auditor")
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from tests.engine.client import Answer, asking
from tests.engine.lab import Lab, lab
from tests.engine.words import OPENAI, PLAIN, talk

KEYS: Final = {
    "admin": "key-of-ann-the-admin",
    "auditor": "key-of-abe-the-auditor",
    "user": "key-of-bob-a-user",
    "other": "key-of-eve-a-user",
}
NAMES: Final = {"admin": "ann", "auditor": "abe", "user": "bob", "other": "eve"}
CONFIG: Final = (
    PLAIN
    + """
[records]
text = "all"

[keys.ann]
key = "key-of-ann-the-admin"
role = "admin"
[keys.abe]
key = "key-of-abe-the-auditor"
role = "auditor"
[keys.bob]
key = "key-of-bob-a-user"
user = "bob@example.org"
policy = "europe"
models = ["gpt-*", "scripted*"]
limits = { requests_per_minute = 1000 }
budget = { amount = 5.0, currency = "EUR", period = "day", zone = "Europe/Berlin", unpriced = "free" }
[keys.eve]
key = "key-of-eve-a-user"

[endpoints.lab-eu]
provider = "scripted"
model = "scripted"
version = "2026-11"
region = "eu-west"
sovereignty = "resident"
retention = "none"
price = { input = 2.5, output = 10.0, currency = "EUR" }
[endpoints.lab-us]
provider = "scripted"
model = "scripted-slow"
region = "us-east"
price = { input = 0.5, output = 1.0, currency = "USD" }
[endpoints.quiet]
provider = "scripted"
model = "scripted-think"
region = "eu-north"
records_text = false

[models.gpt-x]
endpoints = ["lab-eu", "lab-us"]
[models.gpt-us]
endpoints = ["lab-us"]
[models.gpt-quiet]
endpoints = ["quiet"]

[policies.europe]
regions = ["eu-*"]
[policies.secret]
regions = ["eu-*"]
records_text = false
"""
)


class Office:
    """The server, and everybody's way to it."""

    def __init__(self, server: Lab) -> None:
        self.server = server

    async def ask(self, method: str, path: str, who: str | None = "admin", body: Any = None) -> tuple[int, Any]:
        """Status and document."""
        status, _, data = await self.raw(method, path, who, body)
        return status, json.loads(data)

    async def raw(
        self, method: str, path: str, who: str | None = "admin", body: Any = None
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Status, headers and bytes.  who: a role, or a key itself; None: without a key."""
        headers = {"authorization": f"Bearer {KEYS.get(who, who)}"} if who is not None else {}
        if body is not None:
            headers["content-type"] = "application/json"
        async with asking(self.server.port, path, body, headers, method=method) as answer:
            return answer.status, answer.headers, await answer.rest()

    async def get(self, path: str, who: str | None = "admin") -> Any:
        """The document of what must be there."""
        status, document = await self.ask("GET", path, who)
        assert status == 200, document
        return document

    async def call(
        self, who: str = "user", model: str = "gpt-x", path: str = OPENAI.path, body: Any = None, **more: Any
    ) -> Answer:
        """A call that has ended, with its record."""
        asked = body if body is not None else talk(model, **{"stream": False, **more})
        async with asking(self.server.port, path, asked, {"authorization": f"Bearer {KEYS[who]}"}) as answer:
            await answer.rest()
        await self.server.record(answer.call_id)
        return answer


@asynccontextmanager
async def office(folder: Path, config: str = CONFIG) -> AsyncIterator[Office]:
    with lab(folder, config) as server:
        yield Office(server)

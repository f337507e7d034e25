"""A call that its client leaves and comes back to: what goes on, what ends, and what is still there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from rivermouth.store.port import Status
from tests.engine.client import Answer, asking, calling
from tests.engine.lab import Lab, until
from tests.engine.place import Place, placed
from tests.engine.words import ALL, END, OPENAI, PLAIN, ROLE, Speaks, begin, provider, says, talk
from tests.fakes import Asked

pytestmark = pytest.mark.anyio

ASKED: Final = {"x-rivermouth-resumable": "1"}


def config(url: str, more: str = "") -> str:
    return PLAIN + provider("up", url) + more


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with placed(tmp_path, config) as place:
        yield place


@asynccontextmanager
async def streaming(place: Place, speaks: Speaks = OPENAI, wish: str = "1") -> AsyncIterator[tuple[Answer, Asked]]:
    """Both sides of a resumable stream whose first word has reached its client, which leaves at the end."""
    headers = {"x-rivermouth-resumable": wish}
    async with calling(place.server.port, speaks.path, talk("up/m"), headers) as client:
        asked = await place.asked()
        await begin(asked, ROLE, says("one"))
        answer = await client.answer()
        await answer.until(b"one")
        yield answer, asked


def address(answer: Answer) -> str:
    return answer.headers["x-rivermouth-resume"]


async def read(server: Lab, path: str, headers: dict[str, str] | None = None) -> Answer:
    async with asking(server.port, path, None, headers, method="GET") as answer:
        await answer.rest()
    return answer


async def unread(server: Lab) -> None:
    """Returns when no log has a reader."""
    await until(lambda: server.on_loop(lambda: server.inside.services.logged.statistics().readers == 0), "nobody reads")


@pytest.mark.parametrize("speaks", ALL, ids=lambda s: s.name)
async def test_a_client_that_leaves_and_comes_back_has_the_whole_answer(place: Place, speaks: Speaks) -> None:
    async with streaming(place, speaks) as (first, asked):
        pass
    await unread(place.server)
    await asked.send(says(" two"))
    before = first.body
    path = f"{address(first)}?after={len(before)}"
    async with asking(place.server.port, path, None, method="GET") as second:
        await second.until(b"two")
        await asked.send(says(" three"))
        await asked.end(END)
        body = before + await second.rest()
    assert speaks.text(body) == "one two three"
    assert speaks.finished(body)
    drop = {"date", "transfer-encoding"}
    assert {k: v for k, v in second.headers.items() if k not in drop} == {
        k: v for k, v in first.headers.items() if k not in drop
    }
    assert (await read(place.server, address(first))).body == body
    record = await place.server.record(first.call_id)
    assert record.status is Status.COMPLETED
    assert len(place.server.records()) == 1

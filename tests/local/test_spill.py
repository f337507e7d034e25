"""A local queue that is full: the next endpoint of the name is asked at once, where the configuration names one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import msgspec
import pytest

from rivermouth.local.machine.places import SlotLease
from rivermouth.local.machine.router import WITHIN, Route
from rivermouth.routing.attempts import BACKOFF_S
from tests.engine.client import asking
from tests.engine.lab import DEADLINE_S, Lab
from tests.engine.place import Place, placed
from tests.engine.words import DONE, OPENAI, PLAIN, begin, chunk, provider, says, talk
from tests.fakes import Asked
from tests.local.asking import install

pytestmark = pytest.mark.anyio

CHAT: Final = "/v1/chat/completions"
MODELS: Final = """
[local]
max_active = 4
max_waiting = 0
[models.both]
endpoints = ["local/loop", "up/m"]
[models.alone]
endpoints = ["local/loop"]
"""


async def cloud(asked: Asked) -> None:
    """An upstream that always answers."""
    await begin(asked, says("from the cloud"), chunk({}, "stop"), DONE)
    await asked.end()


@pytest.fixture(scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory, files: dict[str, Path]) -> AsyncIterator[Place]:
    def config(url: str) -> str:
        return PLAIN + MODELS + provider("up", url)

    async with placed(tmp_path_factory.mktemp("spill"), config, cloud) as made:
        install(made.server.inside.services.local.registry, "loop", files["loop"])
        yield made


@contextmanager
def full(server: Lab) -> Iterator[None]:
    """Every slot of the model is taken."""
    local = server.inside.services.local

    async def lease() -> SlotLease:
        return await local.pool.lease(local.registry.get("loop"), Route("CPU", "CPU", WITHIN))

    with ExitStack() as held:
        for _ in range(4):
            taken = asyncio.run_coroutine_threadsafe(lease(), server.inside.loop).result(DEADLINE_S)
            held.callback(server.on_loop, taken.close)
        yield


async def test_with_room_the_model_on_this_machine_answers(place: Place) -> None:
    async with asking(place.server.port, CHAT, talk("both", max_tokens=2)) as answer:
        assert OPENAI.text(await answer.rest()) == "Hello from"
        assert answer.headers["x-npu-proxy-device"] == "CPU"
    assert place.upstream.requests == []


@pytest.mark.parametrize("wait_s", [0.0, None])
async def test_a_full_queue_spills_at_once_where_the_configuration_says_so(place: Place, wait_s: float | None) -> None:
    """Refused at the door, and, with a place to wait in, after the wait."""
    pool = place.server.inside.services.local.pool
    before = pool.limits
    if wait_s is not None:
        pool.limits = msgspec.structs.replace(before, max_waiting=1, wait_s=wait_s)
    try:
        with full(place.server):
            async with asking(place.server.port, CHAT, talk("both")) as answer:
                assert OPENAI.text(await answer.rest()) == "from the cloud"
                assert not any(name.startswith("x-npu-proxy") for name in answer.headers)
    finally:
        pool.limits = before
    record = await place.server.record(answer.call_id)
    first, second = record.attempts
    assert (first.provider, first.kind, second.provider, second.outcome) == ("local", "overloaded", "up", "completed")
    assert second.started_ns - (first.ended_ns or 0) < BACKOFF_S * 1e9


@pytest.mark.parametrize("name", ["alone", "local/loop", "loop"])
async def test_and_never_otherwise(place: Place, name: str) -> None:
    before = len(place.upstream.requests)
    with full(place.server):
        async with asking(place.server.port, CHAT, talk(name)) as answer:
            assert answer.status == 503
            assert int(answer.headers["retry-after"]) > 0
            assert "waiting" in OPENAI.refused(await answer.json())
    assert len(place.upstream.requests) == before

"""The slot of a call through the whole server: whatever becomes of the call, it is given back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest

from rivermouth.local.machine.pool import Limits, SlotLease
from rivermouth.local.machine.router import WITHIN, Route
from rivermouth.routing.attempts import BACKOFF_MAX_S
from rivermouth.store.port import Status
from tests.engine.client import connected
from tests.engine.lab import DEADLINE_S, Lab, lab, until
from tests.engine.words import talk
from tests.local.asking import install

pytestmark = pytest.mark.anyio

CHAT: Final = "/v1/chat/completions"
SLOTS: Final = 4


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, files: dict[str, Path]) -> Iterator[Lab]:
    with lab(tmp_path_factory.mktemp("lease"), f"[local]\nmax_active = {SLOTS}\n", scripted=False) as made:
        install(made.inside.services.local.registry, "loop", files["loop"])
        yield made


def slots(server: Lab) -> tuple[int, int]:
    """Calls that have a slot, and calls that wait for one."""
    statistics = server.on_loop(server.inside.services.local.pool.statistics)
    return statistics["active"], statistics["waiting"]


@contextmanager
def all_taken(server: Lab, *, wait_s: float = 60.0) -> Iterator[None]:
    """No slot is free, and a call waits so long for one."""
    local = server.inside.services.local

    async def lease() -> SlotLease:
        return await local.pool.lease(local.registry.get("loop"), Route("CPU", "CPU", WITHIN))

    with ExitStack() as held:
        for _ in range(SLOTS):
            taken = asyncio.run_coroutine_threadsafe(lease(), server.inside.loop).result(DEADLINE_S)
            held.callback(server.on_loop, taken.close)
        limits, local.pool.limits = local.pool.limits, Limits(wait_s=wait_s)
        held.callback(setattr, local.pool, "limits", limits)
        yield
        assert slots(server)[0] == SLOTS


@pytest.mark.promise(33)
async def test_an_end_and_a_client_that_leaves_free_the_slot(server: Lab) -> None:
    async with connected(server.port) as client:
        await (await client.ask("POST", CHAT, talk("loop", max_completion_tokens=3))).rest()
        await server.idle()
        assert slots(server) == (0, 0)
        await (await client.ask("POST", CHAT, talk("loop", max_tokens=2000))).until(b"Hello")
        assert slots(server) == (1, 0)
        client.leave()
    await server.idle()
    assert slots(server) == (0, 0)


async def test_what_is_refused_after_the_load_frees_the_slot(server: Lab) -> None:
    async with connected(server.port) as client:
        answer = await client.ask("POST", CHAT, talk("loop", n=2))
        assert answer.status == 400
        assert (await answer.json())["error"]["param"] == "n"
    assert slots(server) == (0, 0)


async def test_who_waits_is_answered_when_a_slot_is_free(server: Lab) -> None:
    async with connected(server.port) as client:
        with all_taken(server):
            await client.send("POST", CHAT, talk("loop", stream=False, max_tokens=2))
            await until(lambda: slots(server) == (SLOTS, 1), "the call waits")
        answer = await client.answer()
        assert (await answer.json())["choices"][0]["message"]["content"] == "Hello from"
    await server.idle()
    assert slots(server) == (0, 0)


@pytest.mark.promise(33)
async def test_who_leaves_while_waiting_leaves_the_queue(server: Lab) -> None:
    with all_taken(server):
        async with connected(server.port) as client:
            await client.send("POST", CHAT, talk("loop"))
            await until(lambda: slots(server) == (SLOTS, 1), "the call waits")
            client.leave()
        await server.idle()
        assert slots(server) == (SLOTS, 0)
        assert (await server.last()).status is Status.CANCELLED


async def test_who_has_waited_too_long_is_told_when_to_come_back(server: Lab) -> None:
    """Once: the same queue is not joined again for the same call."""
    with all_taken(server, wait_s=0.0):
        async with connected(server.port) as client:
            answer = await client.ask("POST", CHAT, talk("loop"))
            assert answer.status == 503
            assert float(answer.headers["retry-after"]) > BACKOFF_MAX_S
            record = await server.record(answer.call_id)
            assert [attempt.kind for attempt in record.attempts] == ["overloaded"]

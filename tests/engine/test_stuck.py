"""A model that does not come back when it is told to stop: its caller does not wait for it, its record does."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from typing import Final

import pytest

from rivermouth.dialects.anthropic.tables import TRY_AGAIN
from rivermouth.ir.errors import Kind
from rivermouth.store.port import Outcome, Status
from tests.engine import bots
from tests.engine.client import asking, connected
from tests.engine.lab import Lab, lab, until
from tests.engine.words import ALL, OPENAI, PLAIN, Speaks, talk

pytestmark = pytest.mark.anyio

IDLE_S: Final = 0.2
PROMPT_S: Final = 2.0
"""Far below what the server waits for a model that is told to stop."""

CONFIG: Final = f"""{PLAIN}
[providers.stuck]
python = "tests.engine.bots:stuck"
[providers.stuck.timeouts]
idle_s = {IDLE_S}
[providers.patient]
python = "tests.engine.bots:stuck"
[models.rescued]
endpoints = ["stuck/m", "scripted/scripted"]
"""


@pytest.fixture
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Lab]:
    with lab(tmp_path_factory.mktemp("stuck"), CONFIG) as made:
        yield made
        bots.HELD.set()


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    bots.fresh()
    yield
    bots.HELD.set()


@pytest.mark.fault("F34", "F31")
@pytest.mark.parametrize("speaks", ALL, ids=lambda s: s.name)
async def test_a_clock_ends_the_answer_when_it_runs_out_and_not_later(server: Lab, speaks: Speaks) -> None:
    began = time.monotonic()
    async with asking(server.port, speaks.path, talk("stuck/m")) as answer:
        body = await answer.rest()
    assert time.monotonic() - began < PROMPT_S
    assert speaks.failed(body).removesuffix(f"; {TRY_AGAIN}") == f"no token for {IDLE_S} s"
    assert server.inflight() == 1, "it still holds its thread, and the record waits for that"
    bots.HELD.set()
    record = await server.record(answer.call_id)
    assert (record.status, record.kind) == (Status.FAILED, Kind.TIMEOUT)
    assert bots.CLOSED.is_set()


@pytest.mark.fault("F31")
async def test_a_client_that_left_is_forgotten_when_the_model_confirms(server: Lab) -> None:
    async with connected(server.port) as client:
        await client.send("POST", OPENAI.path, talk("patient/m"))
        answer = await client.answer()
        await answer.until(b"well")
        await until(bots.HERE.is_set, "the generator holds its thread")
        client.leave()
    await until(lambda: server.connections() == 0, "the client's side is closed")
    bots.HELD.set()
    record = await server.record(answer.call_id)
    assert (record.status, record.cancelled_by) == (Status.CANCELLED, "client")
    assert [a.outcome for a in record.attempts] == [Outcome.CANCELLED]


async def test_the_end_of_the_server_is_told_at_once(server: Lab) -> None:
    async with asking(server.port, OPENAI.path, talk("patient/m")) as answer:
        await answer.until(b"well")
        await until(bots.HERE.is_set, "the generator holds its thread")
        began = time.monotonic()
        server.stop()
        server.stop()
        body = await answer.rest()
        assert time.monotonic() - began < PROMPT_S
        assert OPENAI.failed(body) == "the server is shutting down"
        bots.HELD.set()
    record = await server.record(answer.call_id)
    assert (record.status, record.cancelled_by) == (Status.CANCELLED, "shutdown")

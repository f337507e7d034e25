"""A call that has ended is gone: what it held waits for no collector, which may come hundreds of long prompts later."""

from __future__ import annotations

import gc
import json
from collections.abc import AsyncIterator, Iterator
from typing import Final

import pytest

from rivermouth.engine.call import Call
from rivermouth.ir.request import Request
from tests.engine.client import connected
from tests.engine.lab import until
from tests.engine.place import Place, placed
from tests.engine.words import ALL, DONE, OPENAI, PLAIN, Speaks, chunk, document, model, provider, refusal, talk
from tests.fakes import JSON, SSE, Asked

pytestmark = pytest.mark.anyio

CALLS: Final = 3
LIMITED: Final = """
[limits]
requests_per_minute = 100000
[policies.here]
regions = ["here"]
budget = { amount = 1000, currency = "EUR" }
[endpoints.up-m]
provider = "up"
model = "m"
region = "here"
price = { input = 1, output = 1, currency = "EUR" }
"""
WANTED: Final = '[models.priced]\nendpoints = ["up-m"]\npolicy = "here"\n'


async def _answering(asked: Asked) -> None:
    """As the name of the provider says: up answers, broken refuses, stuck says one word and no more."""
    if asked.method == "GET":
        await asked.answer(404, JSON, refusal("there is no list"))
    elif asked.path.startswith("/broken"):
        await asked.answer(500, JSON, refusal("burst"))
    elif json.loads(asked.body).get("stream"):
        await asked.head(200, SSE)
        await asked.send(chunk({"role": "assistant", "content": "word"}))
        if asked.path.startswith("/stuck"):
            await asked.gone()
            return
        await asked.end(chunk({}, "stop") + DONE)
    else:
        await asked.answer(200, JSON, document("word"))


@pytest.fixture(scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    def config(url: str) -> str:
        names = ("up", "broken", "stuck")
        return PLAIN + "".join(provider(name, url) for name in names) + model("pair", "broken", "up") + LIMITED + WANTED

    async with placed(tmp_path_factory.mktemp("leftovers"), config, _answering) as made:
        yield made


@pytest.fixture
def before() -> Iterator[int]:
    """Without the collector from here on; those that were there already are other tests'."""
    gc.collect()
    gc.disable()
    yield alive()
    gc.enable()


def alive() -> int:
    """Calls and their requests that are still somewhere."""
    return sum(type(one) in (Call, Request) for one in gc.get_objects())


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "document"])
@pytest.mark.parametrize("speaks", ALL, ids=lambda s: s.name)
async def test_nothing_of_an_answered_call_is_left(place: Place, before: int, speaks: Speaks, stream: bool) -> None:
    for wanted in ("up/m", "priced", "pair", "broken/m", "nobody/m"):
        async with connected(place.server.port) as client:
            for _ in range(CALLS):
                await (await client.ask("POST", speaks.path, talk(wanted, stream=stream))).rest()
            await place.server.idle()
        await until(lambda: place.server.connections() == 0, "the client has gone")
        assert alive() <= before, wanted


@pytest.mark.fault("F31")
async def test_nothing_of_a_call_is_left_whose_client_went(place: Place, before: int) -> None:
    for _ in range(CALLS):
        async with connected(place.server.port) as client:
            await client.send("POST", OPENAI.path, talk("stuck/m"))
            await (await client.answer()).until(b"word")
            client.leave()
        await place.server.idle()
    await until(lambda: place.server.connections() == 0, "the clients have gone")
    assert alive() <= before

"""More tries at what can heal, and a rest for what keeps failing."""

from __future__ import annotations

from pathlib import Path

import pytest

from rivermouth.ir.errors import Kind
from rivermouth.store.port import Outcome, Status
from tests.engine.client import calling
from tests.engine.place import Place, placed
from tests.engine.words import END, OPENAI, ROLE, begin, document, model, provider, refusal, says, talk
from tests.fakes import JSON, Asked

pytestmark = pytest.mark.anyio


def retrying(url: str) -> str:
    pair = provider("first", url) + provider("second", url)
    return "[resilience]\nretries = 2\ncooldown = false\n" + pair + model("pair", "first", "second")


def resting(url: str) -> str:
    pair = provider("first", url) + provider("second", url)
    return "[resilience]\nretries = 0\ncooldown = true\n" + pair + model("pair", "first", "second")


async def answers(asked: Asked) -> None:
    await begin(asked, ROLE, says("fine"))
    await asked.end(END)


async def busy(asked: Asked, wait: str = "0") -> None:
    await asked.answer(503, JSON, refusal("busy"), retry_after=wait)


@pytest.mark.fault("F17", "F30")
async def test_the_same_endpoint_is_asked_again_and_each_try_is_recorded(tmp_path: Path) -> None:
    async with placed(tmp_path, retrying) as place:
        async with calling(place.server.port, OPENAI.path, talk("first/m")) as client:
            await busy(await place.asked())
            await busy(await place.asked())
            await answers(await place.asked())
            answer = await client.answer()
            assert OPENAI.text(await answer.rest()) == "fine"
        record = await place.server.record(answer.call_id)
        assert record.status is Status.COMPLETED
        assert [(a.number, a.outcome) for a in record.attempts] == [
            (1, Outcome.FAILED),
            (2, Outcome.FAILED),
            (3, Outcome.COMPLETED),
        ]


async def test_so_many_times_and_no_more(tmp_path: Path) -> None:
    async with placed(tmp_path, retrying) as place:
        async with calling(place.server.port, OPENAI.path, talk("first/m")) as client:
            for _ in range(3):
                await busy(await place.asked())
            answer = await client.answer()
            assert (answer.status, answer.headers["retry-after"]) == (503, "0")
        record = await place.server.record(answer.call_id)
        assert [a.kind for a in record.attempts] == [Kind.OVERLOADED] * 3
        assert len(place.upstream.requests) == 3


async def test_first_everybody_once_then_those_that_may_have_healed(tmp_path: Path) -> None:
    async with placed(tmp_path, retrying) as place:
        async with calling(place.server.port, OPENAI.path, talk("pair", stream=False)) as client:
            order = []
            for reply in (busy, busy, busy):
                asked = await place.asked()
                order.append(asked.path.split("/")[1])
                await reply(asked)
            asked = await place.asked()
            order.append(asked.path.split("/")[1])
            await asked.answer(200, JSON, document("fine"))
            answer = await client.answer()
            assert OPENAI.whole(await answer.json()) == "fine"
        assert order == ["first", "second", "first", "second"]


async def test_what_asks_for_a_long_wait_is_not_waited_for(tmp_path: Path) -> None:
    async with placed(tmp_path, retrying) as place:
        async with calling(place.server.port, OPENAI.path, talk("first/m")) as client:
            await busy(await place.asked(), "3600")
            answer = await client.answer()
            assert (answer.status, answer.headers["retry-after"]) == (503, "3600")
        assert len(place.upstream.requests) == 1


async def asked_first(place: Place) -> str:
    """Which provider the next call goes to; it answers well."""
    async with calling(place.server.port, OPENAI.path, talk("pair")) as client:
        asked = await place.asked()
        await answers(asked)
        answer = await client.answer()
        assert OPENAI.text(await answer.rest()) == "fine"
    record = await place.server.record(answer.call_id)
    assert [d.candidate for d in record.decisions] == ["first/m", "second/m"]
    assert len(record.attempts) == 1
    return asked.path.split("/")[1]


async def test_an_endpoint_that_asked_for_rest_is_left_alone(tmp_path: Path) -> None:
    async with placed(tmp_path, resting) as place:
        async with calling(place.server.port, OPENAI.path, talk("pair")) as client:
            await busy(await place.asked(), "60")
            await answers(await place.asked())
            assert OPENAI.text(await (await client.answer()).rest()) == "fine"
        assert await asked_first(place) == "second"


async def test_so_is_one_that_failed_three_times_in_a_row(tmp_path: Path) -> None:
    async with placed(tmp_path, resting) as place:
        for _ in range(3):
            async with calling(place.server.port, OPENAI.path, talk("pair")) as client:
                asked = await place.asked()
                assert asked.path.startswith("/first/")
                await asked.answer(500, JSON, refusal("no"))
                await answers(await place.asked())
                assert OPENAI.text(await (await client.answer()).rest()) == "fine"
        assert await asked_first(place) == "second"


async def test_where_nobody_else_is_it_is_asked_all_the_same(tmp_path: Path) -> None:
    async with placed(tmp_path, resting) as place:
        for _ in range(2):
            async with calling(place.server.port, OPENAI.path, talk("first/m")) as client:
                await busy(await place.asked(), "60")
                assert (await client.answer()).status == 503

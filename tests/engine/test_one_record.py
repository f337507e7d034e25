"""Sixty calls at once, of every kind and with every end: each has exactly one record, and it says how it ended."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

import pytest

from rivermouth.ir.errors import Kind
from rivermouth.store.port import CallRecord, Outcome, Status
from tests.engine.client import Answer, Client, connected
from tests.engine.lab import until
from tests.engine.place import placed
from tests.engine.words import (
    ALL,
    END,
    IN_BAND,
    OPENAI,
    PLAIN,
    ROLE,
    Speaks,
    begin,
    document,
    model,
    provider,
    refusal,
    says,
    talk,
)
from tests.fakes import JSON, Asked

pytestmark = pytest.mark.anyio

CALLS: Final = 60
SEED: Final = 20261129


async def upstream(asked: Asked) -> None:
    """Does what the model's name says."""
    if asked.method == "GET":
        await asked.answer(200, JSON, b'{"object":"list","data":[]}')
        return
    request = json.loads(asked.body)
    match asked.path.split("/")[1]:
        case "well" if request.get("stream"):
            await begin(asked, ROLE, says("hel"), says("lo"))
            await asked.end(END)
        case "well":
            await asked.answer(200, JSON, document("hello"))
        case "refusing":
            await asked.answer(500, JSON, refusal("no"))
        case "cutting":
            await begin(asked, ROLE, says("hel"))
            asked.cut()
        case "empty":
            await begin(asked, ROLE)
            await asked.end(END)
        case "bursting":
            await begin(asked, ROLE, says("hel"), IN_BAND)
        case "stalling":
            await begin(asked, ROLE)
        case "waiting" | "slow":
            await begin(asked, ROLE, says("hel"))


def config(url: str) -> str:
    names = ("well", "refusing", "cutting", "empty", "bursting", "waiting")
    clocks = provider("stalling", url, first_token_s=0.3) + provider("slow", url, idle_s=0.3)
    return PLAIN + "".join(provider(n, url) for n in names) + clocks + model("rescued", "refusing", "well")


async def to_the_end(client: Client) -> Answer:
    answer = await client.answer()
    await answer.rest()
    return answer


async def at_once(client: Client) -> None:
    client.leave()


async def after_a_word(client: Client) -> Answer:
    answer = await client.answer()
    await answer.until(b"hel")
    client.leave()
    return answer


class Case(NamedTuple):
    """One kind of call: whom it asks, how long its client stays, and how its record must read."""

    wanted: str
    status: Status
    kind: Kind | None = None
    stays: Callable[[Client], Awaitable[Answer | None]] = to_the_end
    stream: bool = True
    attempts: tuple[Outcome, ...] = (Outcome.COMPLETED,)


FAILED: Final = (Outcome.FAILED,)
CASES: Final = (
    Case("well/m", Status.COMPLETED),
    Case("well/m", Status.COMPLETED, stream=False),
    Case("scripted", Status.COMPLETED),
    Case("rescued", Status.COMPLETED, attempts=(Outcome.FAILED, Outcome.COMPLETED)),
    Case("refusing/m", Status.FAILED, Kind.UPSTREAM, attempts=FAILED),
    Case("cutting/m", Status.FAILED, Kind.TRUNCATED, attempts=FAILED),
    Case("empty/m", Status.FAILED, Kind.UPSTREAM, attempts=FAILED),
    Case("bursting/m", Status.FAILED, Kind.UPSTREAM, attempts=FAILED),
    Case("stalling/m", Status.FAILED, Kind.TIMEOUT, attempts=FAILED),
    Case("slow/m", Status.FAILED, Kind.TIMEOUT, attempts=FAILED),
    Case("scripted-error", Status.FAILED, Kind.UPSTREAM, attempts=FAILED),
    Case("scripted-empty", Status.FAILED, Kind.UPSTREAM, stream=False, attempts=FAILED),
    Case("nobody", Status.FAILED, Kind.NOT_FOUND, attempts=()),
    Case("waiting/m", Status.CANCELLED, stays=after_a_word, attempts=(Outcome.CANCELLED,)),
    Case("scripted-slow", Status.CANCELLED, stays=at_once, attempts=(Outcome.CANCELLED,)),
)


async def call(port: int, case: Case, speaks: Speaks, name: str) -> str | None:
    """Makes the call; its id, if its client stayed long enough to see it."""
    async with connected(port) as client:
        body = talk(case.wanted, stream=case.stream)
        await client.send("POST", speaks.path, body, {"x-request-id": name})
        answer = await case.stays(client)
        return answer.call_id if answer is not None else None


@pytest.mark.fault("F16", "F30", "F32")
@pytest.mark.promise(73, 74, 75)
async def test_every_call_has_exactly_one_record(tmp_path_factory: pytest.TempPathFactory) -> None:
    draw = random.Random(SEED)
    cases = [*CASES, *draw.choices(CASES, k=CALLS - len(CASES))]
    draw.shuffle(cases)
    async with placed(tmp_path_factory.mktemp("mix"), config, upstream) as place:
        server = place.server
        named = [(f"mix-{n}", case, draw.choice(ALL)) for n, case in enumerate(cases)]
        ids = await asyncio.gather(*(call(server.port, case, speaks, name) for name, case, speaks in named))
        await server.idle()
        await until(lambda: len(ended(server.records())) == CALLS, "every call has its end")
        records = {r.client_request_id: r for r in server.records()}
        assert len(records) == len(server.records()) == CALLS
        for (name, case, speaks), call_id in zip(named, ids, strict=True):
            record = records[name]
            assert call_id in (None, record.id)
            assert (record.status, record.kind) == (case.status, case.kind), case
            if case.stays is not at_once:
                assert tuple(a.outcome for a in record.attempts) == case.attempts, case
            assert (record.dialect, record.model_asked) == (speaks.name, case.wanted)
        counted = Counter(str(case.status) for case in cases)
        assert metered(server.inside.services.metrics.render()) == counted


def ended(records: list[CallRecord]) -> list[CallRecord]:
    return [r for r in records if r.status is not Status.OPEN]


def metered(page: bytes) -> Counter[str]:
    """Calls by status, as the metrics count them."""
    found: Counter[str] = Counter()
    for line in page.decode().splitlines():
        if line.startswith("rivermouth_calls_total{"):
            labels, _, count = line.rpartition(" ")
            found[labels.partition('status="')[2].partition('"')[0]] += int(float(count))
    return found


@pytest.mark.fault("F30")
async def test_what_is_no_call_has_no_record(tmp_path_factory: pytest.TempPathFactory) -> None:
    async with (
        placed(tmp_path_factory.mktemp("none"), config, upstream) as place,
        connected(place.server.port) as client,
    ):
        assert (await to_the_end_of(client, "POST", OPENAI.path, b"{")).status == 400
        assert (await to_the_end_of(client, "GET", "/v1/models")).status == 200
        assert (await to_the_end_of(client, "GET", "/v1/nothing")).status == 404
        assert place.server.records() == []


async def to_the_end_of(client: Client, method: str, path: str, body: bytes | None = None) -> Answer:
    await client.send(method, path, body)
    return await to_the_end(client)

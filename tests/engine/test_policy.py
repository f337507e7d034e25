"""Policy on real sockets: what fallback may not widen, what a call costs, and what its record says of both.

A world of endpoints, policies, keys and model names is drawn from a seed.  The upstream notes who was asked for whom,
and an oracle that knows nothing of the product's rules judges it.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from rivermouth.ir.errors import Kind
from rivermouth.store.port import CallRecord, Status
from tests.engine.client import Client, connected
from tests.engine.lab import until
from tests.engine.place import placed
from tests.engine.words import (
    ALL,
    END,
    OPENAI,
    ROLE,
    begin,
    chunk,
    data,
    document,
    events,
    provider,
    refusal,
    says,
    talk,
)
from tests.fakes import JSON, Asked

pytestmark = pytest.mark.anyio

SEED: Final = 20261130
CALLS: Final = 80
REGIONS: Final = ("eu-west", "eu-north", "us-east", None)
RETENTIONS: Final = {"none": 0, "30d": 30, "1y": 365, "for ever": None, None: None}
ENDS: Final = ("well", "well", "refusing", "cutting", "empty", "leaving", "leaving")


class World(NamedTuple):
    """What was drawn.  Facts by endpoint, rules by policy, policy by key and by model; models' endpoints."""

    endpoints: dict[str, dict[str, Any]]
    policies: dict[str, dict[str, Any]]
    keys: dict[str, str | None]
    models: dict[str, tuple[list[str], str | None]]

    def toml(self, url: str) -> str:
        out = [f"[resilience]\nretries = 1\ncooldown = false\n{provider('up', url)}"]
        for name, facts in self.endpoints.items():
            out.append(f"[endpoints.{name}]\nprovider = 'up'\nmodel = '{name}'\n{_table(facts)}")
        for name, rules in self.policies.items():
            out.append(f"[policies.{name}]\n{_table(rules)}")
        for name, policy in self.keys.items():
            out.append(f"[keys.{name}]\nkey = 'key-{name}'\n{_table({'policy': policy})}")
        for name, (endpoints, policy) in self.models.items():
            out.append(f"[models.{name}]\n{_table({'endpoints': endpoints, 'policy': policy})}")
        return "\n".join(out)

    def allows(self, policy: str | None, endpoint: str) -> bool:
        """The oracle."""
        if policy is None:
            return True
        rules, facts = self.policies[policy], self.endpoints[endpoint]
        if "regions" in rules and not (facts["region"] or "-").startswith(rules["regions"][0].rstrip("*")):
            return False
        if "retention_max" in rules:
            kept = RETENTIONS[facts["retention"]]
            if kept is None or kept > (0 if rules["retention_max"] == "none" else 30):
                return False
        if "price_max" in rules:
            return facts["price"] is not None and facts["price"]["input"] <= rules["price_max"]["input"]
        return True


def _table(facts: dict[str, Any]) -> str:
    return "".join(f"{name} = {_value(value)}\n" for name, value in facts.items() if value is not None)


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{k} = {_value(v)}" for k, v in value.items()) + " }"
    return json.dumps(value)


def drawn(draw: random.Random) -> World:
    endpoints = {
        f"e{n}-{draw.choice(ENDS)}": {
            "region": draw.choice(REGIONS),
            "retention": draw.choice([*RETENTIONS]),
            "price": draw.choice([None, price(draw), price(draw)]),
        }
        for n in range(14)
    }
    rules = [
        {"regions": ["eu-*"]},
        {"retention_max": "30d"},
        {"retention_max": "none", "order": "price"},
        {"price_max": {"input": 4.0, "output": 100.0, "currency": "EUR"}, "order": "weighted"},
        {"regions": ["us-*"], "order": "least_busy"},
        {"regions": ["eu-*"], "retention_max": "30d", "fallback": False},
    ]
    policies = {f"p{n}": rule for n, rule in enumerate(rules)}
    keys = {f"k{n}": draw.choice([None] * 8 + [*policies]) for n in range(6)}
    models = {
        f"m{n}": (draw.sample(list(endpoints), draw.randint(1, 5)), draw.choice([None] * 12 + [*policies]))
        for n in range(20)
    }
    return World(endpoints, policies, keys, models)


def price(draw: random.Random) -> dict[str, Any]:
    return {"input": float(draw.randint(1, 9)), "output": float(draw.randint(1, 30)), "currency": "EUR", "per": 1000}


USAGE: Final = {"prompt_tokens": 30, "completion_tokens": 7, "total_tokens": 37}


class Witness:
    """The upstream: it notes for whom which endpoint was asked, and does what the endpoint's name says."""

    def __init__(self) -> None:
        self.asked: dict[str, list[str]] = {}
        self._silent: dict[str, asyncio.Event] = {}

    def silent(self, name: str) -> asyncio.Event:
        """Set when that call has come to an endpoint that says no more: its client leaves then."""
        return self._silent.setdefault(name, asyncio.Event())

    async def __call__(self, asked: Asked) -> None:
        if asked.method == "GET":
            await asked.answer(200, JSON, b'{"object":"list","data":[]}')
            return
        request = json.loads(asked.body)
        name = request["messages"][0]["content"]
        if isinstance(name, list):
            name = name[0]["text"]
        self.asked.setdefault(name, []).append(request["model"])
        match request["model"].partition("-")[2]:
            case "well" if request.get("stream"):
                usage = data(
                    {
                        "id": "up",
                        "object": "chat.completion.chunk",
                        "created": 1,
                        "model": "m",
                        "choices": [],
                        "usage": USAGE,
                    }
                )
                await begin(asked, ROLE, says("hel"), says("lo"), chunk({}, "stop"), usage)
                await asked.end(b"data: [DONE]\n\n")
            case "well":
                await asked.answer(200, JSON, document("hello"))
            case "refusing":
                await asked.answer(503, JSON, refusal("no"), retry_after="0")
            case "cutting":
                await begin(asked, ROLE, says("hel"))
                asked.cut()
            case "empty":
                await begin(asked, ROLE)
                await asked.end(END)
            case "leaving":
                if request.get("stream"):
                    await begin(asked, ROLE, says("hel"))
                self.silent(name).set()


class Made(NamedTuple):
    """One call as its client knows it; status: None where it left."""

    name: str
    status: int | None
    body: bytes
    policies: tuple[str | None, ...]
    model: str


async def made(port: int, world: World, witness: Witness, draw: random.Random, number: int) -> Made:
    model = draw.choice([*world.models, *(f"up/{e}" for e in list(world.endpoints)[:5])])
    key, speaks, stream = draw.choice([*world.keys]), draw.choice(ALL), draw.random() < 0.7
    asked = draw.choice([None] * 15 + [*world.policies])
    name = f"call-{number}"
    headers = {"authorization": f"Bearer key-{key}", "x-request-id": name}
    if asked is not None:
        headers["x-rivermouth-policy"] = asked
    body = {**talk(model, stream=stream), "messages": [{"role": "user", "content": name}]}
    policies = (asked, world.keys[key], world.models[model][1] if model in world.models else None)
    async with connected(port) as client:
        await client.send("POST", speaks.path, body, headers)
        whole = asyncio.create_task(_whole(client))
        silent = asyncio.create_task(witness.silent(name).wait())
        await asyncio.wait({whole, silent}, return_when=asyncio.FIRST_COMPLETED)
        silent.cancel()
        if not whole.done():
            whole.cancel()
            client.leave()
            return Made(name, None, b"", policies, model)
        status, answer = await whole
        return Made(name, status, answer, policies, model)


async def _whole(client: Client) -> tuple[int, bytes]:
    answer = await client.answer()
    return answer.status, await answer.rest()


@pytest.mark.promise(57, 66, 68)
@pytest.mark.fault("F30")
async def test_no_attempt_leaves_the_policy_and_money_tokens_and_records_agree(tmp_path: Path) -> None:
    draw, witness = random.Random(SEED), Witness()
    world = drawn(draw)
    async with placed(tmp_path, world.toml, witness) as place:
        port = place.server.port
        calls = await asyncio.gather(*(made(port, world, witness, random.Random(SEED + n), n) for n in range(CALLS)))
        await place.server.idle()
        await until(lambda: all(r.status is not Status.OPEN for r in place.server.records()), "every call has its end")
        records = {r.client_request_id: r for r in place.server.records()}
        sums = place.server._store.usage()
    assert len(records) == CALLS
    seen: Counter[str] = Counter()
    for call in calls:
        record = records[call.name]
        candidates = world.models[call.model][0] if call.model in world.models else [call.model.removeprefix("up/")]
        allowed = {e for e in candidates if all(world.allows(p, e) for p in call.policies)}
        asked = witness.asked.get(call.name, [])
        assert set(asked) <= allowed, (call, asked)
        assert {d.candidate for d in record.decisions} == set(candidates)
        assert {d.candidate for d in record.decisions if d.allowed} <= allowed
        assert [a.endpoint_id for a in record.attempts] == asked[: len(record.attempts)]
        if not allowed:
            assert (call.status, record.kind, asked) == (403, Kind.PERMISSION, [])
            assert all(e.encode() in call.body for e in candidates), "each candidate is named"
            seen["refused"] += 1
        else:
            seen[str(record.status)] += 1
        _check_money(world, record)
    assert min(seen["refused"], seen["completed"], seen["failed"], seen["cancelled"]) >= 5, seen
    for field in ("input_tokens", "output_tokens", "price_nano"):
        assert sum(getattr(u, field) for u in sums) == sum(getattr(r, field) or 0 for r in records.values()), field
    assert Counter({str(s): 0 for s in Status} | {}) + Counter(
        {str(u.status): sum(v.calls for v in sums if v.status is u.status) for u in sums}
    ) == Counter(str(r.status) for r in records.values())


def _check_money(world: World, record: CallRecord) -> None:
    """Attempts times prices is the cost; what was counted here is flagged so."""
    owed, estimated = None, False
    for attempt in record.attempts:
        per = world.endpoints[attempt.endpoint_id]["price"]
        if per is None or attempt.input_tokens is None or attempt.output_tokens is None:
            assert attempt.price_nano is None
            continue
        spent = attempt.input_tokens * per["input"] + attempt.output_tokens * per["output"]
        assert attempt.price_nano == round(spent * 1_000_000)
        owed, estimated = (owed or 0) + attempt.price_nano, estimated or attempt.estimated
    assert record.price_nano == owed
    assert record.price_estimated == estimated
    if record.status is Status.CANCELLED and owed is not None:
        assert estimated


EU: Final = """
[resilience]
retries = 0
[endpoints.us]
provider = "first"
model = "m"
region = "us-east"
[endpoints.eu]
provider = "second"
model = "m"
region = "eu-west"
price = { input = 1.0, output = 2.0, currency = "EUR", per = 1000 }
[models.m]
endpoints = ["us", "eu"]
[policies.eu-only]
regions = ["eu-*"]
[policies.cheap]
price_max = { input = 0.5, output = 0.5, currency = "EUR", per = 1000 }
"""


def two(url: str) -> str:
    return EU + provider("first", url) + provider("second", url)


async def test_a_request_narrows_by_a_header_and_a_name_that_is_none_is_refused(tmp_path: Path) -> None:
    async with placed(tmp_path, two) as place, connected(place.server.port) as client:
        await client.send("POST", OPENAI.path, talk("m", stream=False), {"x-rivermouth-policy": "eu-only"})
        asked = await place.asked()
        assert asked.path.startswith("/second/")
        await asked.answer(200, JSON, document("hello"))
        block = (await (await client.answer()).json())["llmeu"]
        assert (block["policy_id"], block["endpoint_id"]) == ("eu-only", "eu")
        await client.send("POST", OPENAI.path, talk("m"), {"x-rivermouth-policy": "eu-only, chep"})
        answer = await client.answer()
        assert answer.status == 400
        assert (await answer.json())["error"] == {
            "message": "no policy is called 'chep'; there are: eu-only, cheap",
            "type": "invalid_request_error",
            "param": "x-rivermouth-policy",
            "code": "unknown_policy",
        }
        await client.send("POST", OPENAI.path, talk("m"), {"x-rivermouth-policy": "eu-only,cheap"})
        answer = await client.answer()
        assert answer.status == 403
        assert "eu: policy cheap: its price for input is above the ceiling" in (await answer.json())["error"]["message"]


@pytest.mark.parametrize("speaks", ALL, ids=lambda s: s.name)
async def test_fallback_does_not_leave_the_policy_however_the_allowed_fail(tmp_path: Path, speaks: Any) -> None:
    async with placed(tmp_path, two) as place, connected(place.server.port) as client:
        await client.send("POST", speaks.path, talk("m"), {"x-rivermouth-policy": "eu-only"})
        await (await place.asked()).answer(500, JSON, refusal("no"))
        answer = await client.answer()
        assert answer.status in (500, 502)
        record = await place.server.record(answer.call_id)
        assert [a.endpoint_id for a in record.attempts] == ["eu"]
        assert [(d.candidate, d.allowed) for d in record.decisions] == [("us", False), ("eu", True)]
        assert [r.path.split("/")[1] for r in place.upstream.requests] == ["second"]


@pytest.mark.promise(60, 70)
async def test_the_block_is_the_same_in_a_stream_in_a_reply_and_in_the_record(tmp_path: Path) -> None:
    async with placed(tmp_path, two) as place, connected(place.server.port) as client:
        usage = {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}
        spent = data(
            {"id": "up", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [], "usage": usage}
        )
        await client.send("POST", OPENAI.path, talk("m"), {"x-rivermouth-policy": "eu-only"})
        asked = await place.asked()
        await begin(asked, ROLE, says("hello"), chunk({}, "stop"), spent)
        await asked.end(b"data: [DONE]\n\n")
        answer = await client.answer()
        body = await answer.rest()
        streamed = next(e["llmeu"] for _, e in events(body) if e != "[DONE]" and "llmeu" in e)
        record = await place.server.record(answer.call_id)
        await client.send("POST", OPENAI.path, talk("m", stream=False), {"x-rivermouth-policy": "eu-only"})
        await (await place.asked()).answer(200, JSON, document("hello"))
        whole = (await (await client.answer()).json())["llmeu"]
    assert {**streamed, "trace_id": ""} == {**whole, "trace_id": ""}
    assert list(streamed) == list(whole)
    assert streamed["cost"] == {"amount": 0.013, "currency": "EUR", "basis": "measured"}
    assert (record.price_nano, record.price_estimated, record.policy_id) == (13_000_000, False, "eu-only")
    assert (record.region, record.sovereignty, record.retention, record.model_version) == ("eu-west", None, None, None)

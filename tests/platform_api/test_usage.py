"""Sums over HTTP: of the records and of nothing else, whatever became of the calls."""

from __future__ import annotations

import asyncio
import json
import re
import urllib.request
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rivermouth.config.zones import zone_of
from rivermouth.http.api.platform.days import days
from rivermouth.store.port import NANO
from tests.engine.client import asking
from tests.engine.lab import lab
from tests.engine.words import OPENAI, talk
from tests.platform_api.office import CONFIG, KEYS, Office
from tests.running import running

pytestmark = pytest.mark.anyio

ANYWHERE: Final = re.sub("(?m)^(policy|budget) = .*$", "", CONFIG)
"""The same people, without the rules that keep one of them from half of the endpoints."""
GROUPS: Final = ("day", "model", "key", "provider", "endpoint", "policy", "status")
ZONES: Final = ("UTC", "Europe/Berlin", "America/Sao_Paulo", "Asia/Kathmandu", "Pacific/Apia", "Australia/Lord_Howe")


# -- days


@given(st.sampled_from(ZONES), st.integers(0, 4_000_000_000), st.integers(1, 400 * 86_400))
@example("Europe/Berlin", int(datetime(2026, 3, 28, tzinfo=UTC).timestamp()), 3 * 86_400)
@example("Pacific/Apia", int(datetime(2011, 12, 28, tzinfo=UTC).timestamp()), 5 * 86_400)
def test_days_cover_a_time_without_gap_or_overlap(zone: str, since_s: int, length_s: int):
    found = days(since_s * NANO, (since_s + length_s) * NANO, zone_of(zone))
    assert found[0].since_ns <= since_s * NANO < found[0].until_ns
    assert found[-1].since_ns < (since_s + length_s) * NANO <= found[-1].until_ns
    for one, next_ in pairwise(found):
        assert one.until_ns == next_.since_ns
        assert one.name < next_.name
    for day in found:
        local = datetime.fromtimestamp(day.since_ns / NANO, UTC).astimezone(zone_of(zone))
        assert local.date().isoformat() == day.name


def test_a_day_of_a_change_of_clocks_is_as_long_as_it_is():
    spring = datetime(2026, 3, 29, 12, tzinfo=UTC).timestamp()
    (day,) = days(int(spring) * NANO, int(spring) * NANO + 1, zone_of("Europe/Berlin"))
    assert (day.until_ns - day.since_ns) / NANO == 23 * 3600
    assert days(5, 5, UTC) == []


# -- sums


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A server after calls of every kind."""

    async def calls(place: Office) -> None:
        await place.call()
        await place.call("other", stream=True)
        await place.call(model="gpt-us", max_tokens=3)
        await place.call(model="gpt-none")
        await place.call("other", model="gpt-us", stream=True, max_tokens=3)
        await place.call(model="scripted-error", stream=True)
        for who in ("admin", "other"):
            headers = {"authorization": f"Bearer {KEYS[who]}"}
            async with asking(place.server.port, OPENAI.path, talk("scripted-slow"), headers) as answer:
                await answer.until(b"content")
            await place.server.record(answer.call_id)

    with lab(tmp_path_factory.mktemp("busy"), ANYWHERE) as server:
        place = Office(server)
        asyncio.run(calls(place))
        yield place


async def every_call(place: Office) -> list[dict[str, Any]]:
    _, _, data = await place.raw("GET", "/platform/v1/calls.jsonl")
    return [json.loads(line) for line in data.splitlines()]


@pytest.mark.promise(74, 75)
@pytest.mark.parametrize("by", [*((g,) for g in GROUPS), ("model", "key", "status"), GROUPS], ids=",".join)
async def test_the_sums_are_those_of_the_records(busy: Office, by: tuple[str, ...]):
    calls = await every_call(busy)
    query = "&".join(f"group_by={group}" for group in by)
    usage = await busy.get(f"/platform/v1/usage?{query}")
    for row in (*usage["data"], usage["total"]):
        mine = [c for c in calls if all(value_of(c, g) == wanted for g, wanted in row["group"].items())]
        assert row["calls"] == {"total": len(mine), **statuses(mine)}
        assert row["tokens"]["output"] == sum(c["tokens"]["output"] or 0 for c in mine)
        assert row["tokens"]["input"] == sum(c["tokens"]["input"] or 0 for c in mine)
        assert row["tokens"]["estimated_calls"] == sum(c["tokens"]["estimated"] for c in mine)
        assert {m["currency"]: round(m["amount"] * NANO) for m in row["cost"]} == spent(mine)
        assert row["unpriced_calls"] == sum(c["cost"] is None for c in mine)
    assert sum(row["calls"]["total"] for row in usage["data"]) == usage["total"]["calls"]["total"] == len(calls)
    assert usage["next"] is None


@pytest.mark.promise(74, 75)
async def test_a_cancelled_call_is_counted_as_one(busy: Office):
    (row,) = (await busy.get("/platform/v1/usage?group_by=status&status=cancelled"))["data"]
    assert row["group"] == {"status": "cancelled"}
    assert (row["calls"]["cancelled"], row["calls"]["completed"]) == (2, 0)
    assert row["tokens"]["output"] > 0
    assert row["tokens"]["estimated_calls"] == 2
    assert row["cost"][0]["basis"] == "estimated"


async def test_a_day_is_one_of_the_zone(busy: Office):
    now = datetime.now(UTC)
    for zone in ZONES:
        usage = await busy.get(f"/platform/v1/usage?zone={quote(zone)}")
        here = {now.astimezone(zone_of(zone)).date(), (now - timedelta(minutes=1)).astimezone(zone_of(zone)).date()}
        assert {row["group"]["day"] for row in usage["data"]} <= {day.isoformat() for day in here}
        assert usage["zone"] == zone


@pytest.mark.parametrize(
    ("query", "param", "code"),
    [
        ("zone=Mars", "zone", "unknown_zone"),
        ("group_by=colour", "group_by", None),
        ("since=1999-01-01T00:00:00Z", "since", None),
        ("stream=true", "stream", None),
    ],
)
async def test_what_cannot_be_summed_is_refused(busy: Office, query: str, param: str, code: str | None):
    status, document = await busy.ask("GET", f"/platform/v1/usage?{query}")
    assert (status, document["error"]["code"]) == (400, code)
    assert document["error"]["param"].startswith(param)


async def test_a_user_sees_what_its_key_used(busy: Office):
    own = await busy.get("/platform/v1/usage?group_by=key", "user")
    assert [row["group"] for row in own["data"]] == [{"key": "bob"}]
    status, document = await busy.ask("GET", "/platform/v1/usage?key_name=eve", "user")
    assert (status, document["error"]["code"]) == (403, "role_missing")


def value_of(call: dict[str, Any], group: str) -> str | None:
    match group:
        case "day":
            return call["started_at"][:10]
        case "model":
            served = call["provider"] and call["model_used"]
            return f"{call['provider']}/{call['model_used']}" if served else call["model"]
        case "key":
            return call["key_name"]
        case "endpoint" | "policy":
            return call[f"{group}_id"]
        case _:
            return call[group]


def statuses(calls: list[dict[str, Any]]) -> dict[str, int]:
    counted = Counter(c["status"] for c in calls)
    return {name: counted[name] for name in ("completed", "failed", "cancelled", "interrupted", "open")}


def spent(calls: list[dict[str, Any]]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for call in calls:
        if call["cost"] is not None:
            found[call["cost"]["currency"]] += round(call["cost"]["amount"] * NANO)
    return dict(found)


# -- kill -9


@pytest.mark.promise(73, 74, 75)
@pytest.mark.timeout(60)
def test_the_sums_are_those_of_the_records_after_a_kill(tmp_path: Path):
    """A completed call, one that its client left, and one that the server did not live to end."""
    with running(tmp_path, ANYWHERE) as server:
        whole = _open(server.url, talk("gpt-x", stream=False))
        assert whole.status == 200
        whole.read()
        left = _open(server.url, talk("scripted-slow"))
        left.readline()
        left.close()
        cut = _open(server.url, talk("scripted-slow"))
        cut.readline()
        server.kill()
        cut.close()
    with running(tmp_path, ANYWHERE) as server:
        lines = _open(server.url, path="/platform/v1/calls.jsonl").read().splitlines()
        calls = [json.loads(line) for line in lines]
        usage = json.loads(_open(server.url, path="/platform/v1/usage").read())
    assert {c["status"] for c in calls} == {"completed", "cancelled", "interrupted"}
    assert usage["total"]["calls"] == {"total": 3, **statuses(calls)}
    assert usage["total"]["tokens"]["output"] == sum(c["tokens"]["output"] or 0 for c in calls)
    assert {m["currency"]: round(m["amount"] * NANO) for m in usage["total"]["cost"]} == spent(calls)
    assert usage["total"]["tokens"]["at_least_calls"] == 1


def _open(url: str, body: Any = None, path: str = OPENAI.path) -> Any:
    headers = {"authorization": f"Bearer {KEYS['admin']}", "content-type": "application/json"}
    data = json.dumps(body).encode() if body is not None else None
    return urllib.request.urlopen(urllib.request.Request(url + path, data, headers), timeout=20)

"""What calls can be sent to, and what policies would decide: the same that they decide for a call."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.client import asking
from tests.engine.words import OPENAI, talk
from tests.platform_api.office import KEYS, Office

pytestmark = pytest.mark.anyio

DRY_RUN = "/platform/v1/policies/dry-run"


async def test_models_are_those_that_one_may_ask_for(place: Office):
    every = {m["id"]: m for m in (await place.get("/platform/v1/models"))["data"]}
    assert every["gpt-x"] == {
        "id": "gpt-x",
        "owner": "rivermouth",
        "endpoints": ["lab-eu", "lab-us"],
        "policy": None,
        "order": "listed",
    }
    own = {m["id"] for m in (await place.get("/platform/v1/models", "user"))["data"]}
    assert own == {name for name in every if name.startswith(("gpt-", "scripted"))}


async def test_endpoints_say_what_is_known_of_them(place: Office):
    found = {e["id"]: e for e in (await place.get("/platform/v1/endpoints", "auditor"))["data"]}
    assert found["lab-eu"] == {
        "id": "lab-eu",
        "provider": "scripted",
        "model": "scripted",
        "version": "2026-11",
        "region": "eu-west",
        "sovereignty": "resident",
        "retention": "none",
        "price": {
            "input": 2.5,
            "output": 10.0,
            "cached_input": None,
            "currency": "EUR",
            "per": 1_000_000,
            "since": None,
        },
        "capabilities": None,
        "context_tokens": None,
        "records_text": True,
        "models": ["gpt-x"],
        "breaker": "closed",
        "running": 0,
    }
    assert set(found) == {"lab-eu", "lab-us", "quiet"}


async def test_an_endpoint_says_what_runs_there(place: Office):
    headers = {"authorization": f"Bearer {KEYS['other']}"}
    async with asking(place.server.port, OPENAI.path, talk("gpt-us"), headers) as answer:
        await answer.until(b"content")
        found = {e["id"]: e["running"] for e in (await place.get("/platform/v1/endpoints"))["data"]}
        assert found == {"lab-eu": 0, "lab-us": 1, "quiet": 0}
    await place.server.idle()


async def test_a_breaker_is_told(place: Office):
    def breaks() -> None:
        from rivermouth.ir.errors import ApiError, Kind

        health = place.server.inside.services.maker._health
        assert health is not None
        health._enabled = True
        for _ in range(3):
            health.failed("quiet", ApiError(Kind.UPSTREAM, "burst"), place.server.inside.loop.time())

    place.server.on_loop(breaks)
    found = {e["id"]: e["breaker"] for e in (await place.get("/platform/v1/endpoints"))["data"]}
    assert found == {"lab-eu": "closed", "lab-us": "closed", "quiet": "open"}


async def test_policies_are_told_with_what_they_are_bound_to(place: Office):
    europe, secret = (await place.get("/platform/v1/policies"))["data"]
    assert europe.pop("keys")[0] == "bob"
    assert [europe, secret] == [
        {"id": "europe", "rules": {"regions": ["eu-*"]}, "always": False, "models": []},
        {
            "id": "secret",
            "rules": {"regions": ["eu-*"], "records_text": False},
            "always": False,
            "models": [],
            "keys": [],
        },
    ]


CASES: dict[str, tuple[str, dict[str, Any], list[tuple[str, bool, str, int | None]]]] = {
    "all": (
        "other",
        {"model": "gpt-x"},
        [("lab-eu", True, "configured, 1 of 2", 1), ("lab-us", True, "configured, 2 of 2", 2)],
    ),
    "the key's policy": (
        "user",
        {"model": "gpt-x"},
        [
            ("lab-eu", True, "configured, 1 of 2", 1),
            ("lab-us", False, "policy europe: its region is us-east, not eu-*", None),
        ],
    ),
    "another key's": (
        "admin",
        {"model": "gpt-us", "key": "bob"},
        [("lab-us", False, "policy europe: its region is us-east, not eu-*", None)],
    ),
    "one asked for": (
        "other",
        {"model": "gpt-us", "policies": ["secret"]},
        [("lab-us", False, "policy secret: its region is us-east, not eu-*", None)],
    ),
}


@pytest.mark.parametrize(("who", "question", "wanted"), CASES.values(), ids=CASES.keys())
async def test_a_dry_run_tells_every_candidate_and_why(
    place: Office, who: str, question: dict[str, Any], wanted: list[tuple[str, bool, str, int | None]]
):
    status, told = await place.ask("POST", DRY_RUN, who, question)
    assert status == 200
    assert [(c["endpoint_id"], c["allowed"], c["reason"], c["place"]) for c in told["candidates"]] == wanted
    assert told["allowed"] == any(allowed for _, allowed, _, _ in wanted)
    assert (told["code"] is None) == told["allowed"]


@pytest.mark.parametrize("model", ["gpt-x", "gpt-us", "gpt-quiet", "scripted/scripted-slow", "scripted"])
@pytest.mark.parametrize("policies", [[], ["secret"], ["europe", "secret"]], ids=",".join)
@pytest.mark.parametrize("who", ["user", "other"])
async def test_a_dry_run_decides_as_a_call_would(place: Office, who: str, policies: list[str], model: str):
    """The reasons are those in the record of the call, word by word; and nothing but the call leaves a record."""
    before = len(place.server.records())
    status, told = await place.ask("POST", DRY_RUN, who, {"model": model, "policies": policies})
    assert status == 200
    assert len(place.server.records()) == before
    headers = {"authorization": f"Bearer {KEYS[who]}"}
    if policies:
        headers["x-rivermouth-policy"] = ",".join(policies)
    body = talk(model, stream=False, max_tokens=2)
    async with asking(place.server.port, OPENAI.path, body, headers) as answer:
        document = await answer.json()
    await place.server.record(answer.call_id)
    call = await place.get(f"/platform/v1/calls/{answer.call_id}")
    priced = document.get("error", {}).get("code") == "price_refused"  # a budget's reason, which is no policy's
    if not priced:
        assert told["allowed"] == (answer.status == 200)
        assert [(c["endpoint_id"], c["allowed"], c["reason"]) for c in told["candidates"]] == [
            (c["endpoint_id"], c["allowed"], c["reason"]) for c in call["candidates"]
        ]
        if answer.status == 200:
            assert call["endpoint_id"] == next(c["endpoint_id"] for c in told["candidates"] if c["place"] == 1)
        else:
            assert told["message"] == document["error"]["message"]


@pytest.mark.parametrize(
    ("question", "status", "code"),
    [
        ({"model": "no-such-model"}, 404, "model_not_found"),
        ({"model": "gpt-x", "policies": ["none-such"]}, 400, "unknown_policy"),
        ({"model": "gpt-x", "key": "nobody"}, 404, "key_not_found"),
        ({"model": ""}, 400, None),
        ({"model": "gpt-x", "capabilities": ["flying"]}, 400, None),
    ],
)
async def test_a_question_about_nothing_is_an_error(
    place: Office, question: dict[str, Any], status: int, code: str | None
):
    found, document = await place.ask("POST", DRY_RUN, "admin", question)
    assert (found, document["error"]["code"]) == (status, code)


async def test_a_user_asks_about_itself(place: Office):
    assert (await place.ask("POST", DRY_RUN, "user", {"model": "gpt-x", "key": "bob"}))[0] == 200
    status, document = await place.ask("POST", DRY_RUN, "user", {"model": "gpt-x", "key": "eve"})
    assert (status, document["error"]["code"]) == (403, "role_missing")


async def test_a_model_that_is_not_the_keys_is_nobodys(place: Office):
    status, told = await place.ask("POST", DRY_RUN, "admin", {"model": "scripted/scripted", "key": "bob"})
    assert (status, told["allowed"]) == (200, True)
    status, told = await place.ask("POST", DRY_RUN, "user", {"model": "local/none"})
    assert (status, told["allowed"], told["code"]) == (200, False, "model_not_allowed")
    assert {c["place"] for c in told["candidates"]} == {None}

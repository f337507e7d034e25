"""Calls as documents: in pages, one with everything, its routing block to the byte, its text where that is kept."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any, Final

import pytest

from rivermouth.engine.transcript import ANSWER_CAP_CHARS, PROMPT_CAP_CHARS
from tests.engine.words import ANTHROPIC, OLLAMA, OPENAI, talk
from tests.platform_api.office import Office

pytestmark = pytest.mark.anyio

USER: Final = [{"role": "user", "content": "hello there"}]
DIALECTS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "openai_chat": (OPENAI.path, talk("gpt-x", stream=False)),
    "anthropic": (ANTHROPIC.path, talk("gpt-x", stream=False)),
    "ollama": (OLLAMA.path, talk("gpt-x", stream=False)),
    "gemini": (
        "/v1beta/models/gpt-x:generateContent",
        {"contents": [{"role": "user", "parts": [{"text": "hello there"}]}]},
    ),
    "cohere_v2": ("/cohere/v2/chat", {"model": "gpt-x", "messages": USER}),
    "cohere_v1": ("/cohere/v1/chat", {"model": "gpt-x", "message": "hello there"}),
    "tgi": ("/tgi/v1/chat/completions", {"model": "gpt-x", "messages": USER, "stream": False}),
    "bedrock_invoke": (
        "/bedrock/model/gpt-x/invoke",
        {"anthropic_version": "bedrock-2023-05-31", "max_tokens": 50, "messages": USER},
    ),
    "bedrock_converse": (
        "/bedrock/model/gpt-x/converse",
        {"messages": [{"role": "user", "content": [{"text": "hello there"}]}]},
    ),
}


def block(body: bytes, name: bytes) -> bytes:
    """The object of that name, as it stands there."""
    found = re.search(rb'"%b":(\{.*?"cost":(?:null|\{.*?\})\})' % name, body)
    assert found is not None, body
    return found[1]


@pytest.mark.promise(60, 61, 62, 63, 64, 65, 66, 67, 68, 69, 70)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_the_routing_block_is_that_of_the_answer_to_the_byte(place: Office, stream: bool):
    answer = await place.call(stream=stream)
    status, _, document = await place.raw("GET", f"/platform/v1/calls/{answer.call_id}", "user")
    assert status == 200
    told = block(document, b"routing")
    assert told == block(answer.body, b"llmeu")
    assert json.loads(told) == {
        "trace_id": answer.call_id,
        "model_used": "scripted",
        "model_version": "2026-11",
        "provider": "scripted",
        "endpoint_id": "lab-eu",
        "inference_region": "eu-west",
        "sovereignty_class": "resident",
        "policy_id": "europe",
        "retention": "none",
        "cost": json.loads(told)["cost"],
    }
    assert json.loads(told)["cost"] == json.loads(document)["cost"]


@pytest.mark.parametrize(("path", "body"), DIALECTS.values(), ids=DIALECTS.keys())
async def test_the_block_is_there_by_trace_id_for_every_dialect(place: Office, path: str, body: dict[str, Any]):
    answer = await place.call(path=path, body=body)
    assert answer.status == 200, answer.body
    document = await place.get(f"/platform/v1/calls/{answer.call_id}", "user")
    routing = document["routing"]
    assert (routing["trace_id"], routing["endpoint_id"], routing["policy_id"]) == (answer.call_id, "lab-eu", "europe")
    assert routing["cost"] == document["cost"] != None  # noqa: E711 - a comparison of three
    assert document["dialect"] in DIALECTS or document["dialect"] == "openai_chat"


async def test_a_call_has_every_candidate_and_every_attempt(place: Office):
    answer = await place.call()
    document = await place.get(f"/platform/v1/calls/{answer.call_id}")
    assert document["candidates"] == [
        {"endpoint_id": "lab-eu", "allowed": True, "reason": "configured, 1 of 2"},
        {
            "endpoint_id": "lab-us",
            "allowed": False,
            "reason": "policy europe: its region is us-east, not eu-*",
        },
    ]
    (attempt,) = document["attempts"]
    assert (attempt["endpoint_id"], attempt["outcome"], attempt["cost"]) == ("lab-eu", "completed", document["cost"])
    assert document["tokens"]["output"] == attempt["tokens"]["output"] > 0
    assert document["timings"]["total_ms"] >= document["timings"]["first_token_ms"] > 0
    began, ended = (datetime.fromisoformat(document[name]) for name in ("started_at", "ended_at"))
    assert began.tzinfo is not None
    assert began < ended <= datetime.now(UTC)
    assert document["started_at"].endswith("Z")


async def test_a_refused_call_is_a_call(place: Office):
    answer = await place.call(model="gpt-us")
    assert answer.status == 403
    document = await place.get(f"/platform/v1/calls/{answer.call_id}", "user")
    assert (document["status"], document["kind"], document["routing"], document["text"]) == (
        "failed",
        "permission",
        None,
        None,
    )
    assert [c["allowed"] for c in document["candidates"]] == [False]


async def test_an_unknown_call_is_an_error_in_the_shape_of_all(place: Office):
    status, document = await place.ask("GET", "/platform/v1/calls/nothing")
    assert status == 404
    assert document == {
        "error": {
            "message": "there is no call 'nothing'",
            "type": "invalid_request_error",
            "param": None,
            "code": "call_not_found",
        }
    }


async def test_pages_lead_to_every_call_once(place: Office):
    mine = {(await place.call("other")).call_id for _ in range(5)}
    met: list[str] = []
    after = ""
    while True:
        page = await place.get(f"/platform/v1/calls?limit=2&key_name=eve{after}")
        assert len(page["data"]) <= 2
        met += [call["id"] for call in page["data"]]
        if page["next"] is None:
            break
        after = f"&after={page['next']}"
    assert set(met) >= mine
    assert len(met) == len(set(met))
    assert [call["started_at"] for call in (await place.get("/platform/v1/calls"))["data"]] == sorted(
        (call["started_at"] for call in (await place.get("/platform/v1/calls"))["data"]), reverse=True
    )


@pytest.mark.parametrize(
    "query",
    [
        "status=failed&kind=permission",
        "model=gpt-us",
        "key_name=bob",
        "since=2999-01-01T00:00:00Z",
        "until=2000-01-01T00:00:00%2B01:00",
        "provider=scripted&endpoint=lab-eu&policy=europe",
    ],
)
async def test_a_filter_leaves_what_it_says(place: Office, query: str):
    await place.call()
    await place.call(model="gpt-us")
    fields = {"model": "model", "key_name": "key_name", "status": "status", "kind": "kind", "provider": "provider"}
    asked = dict(part.split("=") for part in query.split("&"))
    found = (await place.get(f"/platform/v1/calls?{query}"))["data"]
    assert bool(found) == ("since" not in asked and "until" not in asked)
    for call in found:
        assert all(call[fields[name]] == value for name, value in asked.items() if name in fields)


@pytest.mark.parametrize(
    ("query", "param", "code"),
    [
        ("colour=blue", "colour", "unknown_parameter"),
        ("key=sk-something", "key", None),
        ("limit=0", "limit", None),
        ("limit=501", "limit", None),
        ("limit=1&limit=2", "limit", "repeated_parameter"),
        ("status=lost", "status", None),
        ("since=yesterday", "since", None),
        ("since=2026-01-01T00:00:00", "since", None),
        ("after=here", "after", None),
        ("model=", "model", None),
    ],
)
async def test_what_is_no_filter_is_refused(place: Office, query: str, param: str, code: str | None):
    status, document = await place.ask("GET", f"/platform/v1/calls?{query}")
    assert (status, document["error"]["param"], document["error"]["code"]) == (400, param, code)
    assert "sk-something" not in document["error"]["message"]


# -- texts


async def test_what_was_said_is_kept_beside_the_record(place: Office):
    body = talk("gpt-x", stream=True, user="frank@example.org")
    body["messages"].insert(0, {"role": "system", "content": "be brief"})
    answer = await place.call(body=body)
    document = await place.get(f"/platform/v1/calls/{answer.call_id}")
    assert document["text"] == {
        "prompt": [{"role": "system", "text": "be brief"}, {"role": "user", "text": "hi"}],
        "answer": OPENAI.text(answer.body),
        "cut": False,
        "errors": [],
    }
    assert re.fullmatch(r"[0-9a-f]{32}", document["end_user"])
    listed = (await place.get("/platform/v1/calls?limit=1"))["data"]
    assert "text" not in listed[0]


async def test_secrets_are_not_in_it(place: Office):
    said = "my key is key-of-ann-the-admin and sk-abcdef123456789"
    answer = await place.call(body={**talk("gpt-x", stream=False), "messages": [{"role": "user", "content": said}]})
    assert b"key-of-ann" in answer.body, "the scripted model quotes what it is told"
    text = (await place.get(f"/platform/v1/calls/{answer.call_id}"))["text"]
    assert text["prompt"] == [{"role": "user", "text": "my key is *** and ***"}]
    assert "key-of-ann" not in text["answer"]
    assert "***" in text["answer"]


async def test_it_is_bounded(place: Office):
    long = "word " * (PROMPT_CAP_CHARS // 4)
    answer = await place.call(body={**talk("gpt-x", stream=False), "messages": [{"role": "user", "content": long}]})
    text = (await place.get(f"/platform/v1/calls/{answer.call_id}"))["text"]
    assert text["cut"] is True
    assert sum(len(said["text"]) for said in text["prompt"]) == PROMPT_CAP_CHARS
    assert len(text["answer"]) <= ANSWER_CAP_CHARS


@pytest.mark.parametrize(
    ("model", "headers"),
    [("gpt-quiet", {}), ("gpt-x", {"x-rivermouth-policy": "secret"})],
    ids=["an endpoint", "a policy of the request"],
)
async def test_a_rule_against_texts_wins(place: Office, model: str, headers: dict[str, str]):
    from tests.engine.client import asking

    headers = {**headers, "authorization": "Bearer key-of-bob-a-user"}
    async with asking(place.server.port, OPENAI.path, talk(model, stream=False), headers) as answer:
        await answer.rest()
        assert answer.status == 200
    await place.server.record(answer.call_id)
    assert (await place.get(f"/platform/v1/calls/{answer.call_id}"))["text"] is None


async def test_what_is_said_in_a_chat_is_in_the_chat_and_nowhere_else(place: Office):
    """Who deletes a chat must not find it in the records."""
    _, made = await place.ask("POST", "/api/chats", "admin", {})
    before = {call["id"] for call in (await place.get("/platform/v1/calls"))["data"]}
    body = {"content": "a mellifluous quokka", "model": "scripted"}
    status, _, data = await place.raw("POST", f"/api/chats/{made['chatId']}/stream", "admin", body)
    assert status == 200
    assert b"quokka" in data
    await place.server.idle()
    (new,) = [c for c in (await place.get("/platform/v1/calls"))["data"] if c["id"] not in before]
    await place.server.record(new["id"])
    call = await place.get(f"/platform/v1/calls/{new['id']}")
    assert (call["status"], call["text"]) == ("completed", None)
    assert call["tokens"]["output"] > 0

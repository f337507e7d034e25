"""Kept responses over sockets: had again, gone on from, listed, deleted, and whose they are."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from rivermouth.store.port import Status
from tests.engine.client import asking, calling
from tests.engine.lab import until
from tests.engine.place import Place, gone, placed
from tests.engine.words import END, IN_BAND, PLAIN, ROLE, begin, document, provider, refusal, says
from tests.fakes import JSON
from tests.kept.asking import (
    PATH,
    Before,
    ask,
    assert_missing,
    fresh,
    got,
    made,
    over,
    read,
    records,
    rows,
    text_of,
    told,
    wanted,
)

pytestmark = pytest.mark.anyio

KEYS: Final = '[keys.anna]\nkey = "rm-anna-has-this-key"\n[keys.bob]\nkey = "rm-bob-has-this-other"\n'
ANNA: Final = {"authorization": "Bearer rm-anna-has-this-key"}
BOB: Final = {"authorization": "Bearer rm-bob-has-this-other"}


def config(url: str, more: str = "") -> str:
    return PLAIN + more + provider("up", url) + provider("other", url, dialect="anthropic")


def same(url: str) -> str:
    """The upstream speaks Responses too."""
    return PLAIN + provider("up", url, dialect="openai_responses")


@pytest.fixture(scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    async with placed(tmp_path_factory.mktemp("kept"), config) as place:
        yield place


@pytest.fixture
async def place(shared: Place) -> Place:
    return await fresh(shared)


@pytest.fixture(autouse=True)
def from_nothing() -> Iterator[None]:
    """Whoever makes a server of its own begins with none of these."""
    yield
    Before.records = Before.rows = 0


async def test_a_response_is_had_again_as_it_was_until_it_is_deleted(place: Place) -> None:
    response, _ = await made(place)
    assert (response["store"], response["background"], text_of(response)) == (True, False, "one")
    assert await got(place.server, response["id"]) == response
    assert await ask(place.server, "DELETE", f"/{response['id']}") == (
        200,
        {"id": response["id"], "object": "response", "deleted": True},
    )
    await assert_missing(place.server, response["id"])
    assert rows(place.server) == 0
    assert await over(place.server) == [Status.COMPLETED]


async def test_one_that_is_not_to_be_stored_is_not_there(place: Place) -> None:
    response, _ = await made(place, store=False)
    assert response["store"] is False
    await assert_missing(place.server, response["id"])
    assert rows(place.server) == 0


@pytest.mark.parametrize("name", ["resp_1", "x", "resp_%2E%2E%2Fetc", "resp_" + "9" * 4000])
async def test_what_never_was_is_not_there(place: Place, name: str) -> None:
    await assert_missing(place.server, name)


async def test_a_stream_is_kept_before_its_last_event_is_sent(place: Place) -> None:
    async with calling(place.server.port, PATH, wanted(stream=True)) as client:
        asked = await place.asked()
        await begin(asked, ROLE, says("one"))
        answer = await client.answer()
        await answer.until(b'"one"')
        response_id = told(answer.body)[0]["response"]["id"]
        running = await got(place.server, response_id)
        assert (running["status"], running["output"]) == ("in_progress", [])
        status, refused = await ask(place.server, "POST", f"/{response_id}/cancel")
        assert (status, refused["error"]["param"]) == (400, "background")
        status, refused = await ask(place.server, "GET", f"/{response_id}?stream=true")
        assert (status, refused["error"]["param"]) == (400, "stream")
        assert rows(place.server) == 0
        await asked.send(says(" two"))
        await asked.end(END)
        events = told(await answer.rest())
        assert await got(place.server, response_id) == events[-1]["response"]
    again = told(await read(place.server, response_id))
    assert (again[0]["response"]["output"], again[-1]) == ([], events[-1])
    assert told(await read(place.server, response_id, "&starting_after=3")) == [events[-1]]


async def test_a_stream_that_fails_is_kept_as_failed(place: Place) -> None:
    async with calling(place.server.port, PATH, wanted(stream=True)) as client:
        asked = await place.asked()
        await begin(asked, ROLE, says("one"))
        answer = await client.answer()
        await answer.until(b'"one"')
        await asked.end(IN_BAND)
        last = told(await answer.rest())[-1]
    response = await got(place.server, last["response"]["id"])
    assert response == last["response"]
    assert (response["status"], text_of(response)) == ("failed", "one")


async def test_a_stream_that_its_client_leaves_is_kept_as_cancelled(place: Place) -> None:
    async with calling(place.server.port, PATH, wanted(stream=True)) as client:
        asked = await place.asked()
        await begin(asked, ROLE, says("one"))
        answer = await client.answer()
        await answer.until(b'"one"')
        response_id = told(answer.body)[0]["response"]["id"]
    await gone(asked)
    record = await place.server.record(answer.call_id)
    assert (record.status, record.cancelled_by) == (Status.CANCELLED, "client")
    await until(lambda: rows(place.server), "it is stored")
    response = await got(place.server, response_id)
    assert (response["status"], response["error"], text_of(response)) == ("cancelled", None, "one")


async def test_an_error_is_no_response(place: Place) -> None:
    async with calling(place.server.port, PATH, wanted()) as client:
        await (await place.asked()).answer(500, JSON, refusal("burst"))
        answer = await client.answer()
        assert answer.status == 502
        await assert_missing(place.server, f"resp_{answer.call_id}")
    assert rows(place.server) == 0


# -- going on


async def test_a_talk_goes_on_from_a_response_through_two_dialects_upstreams(place: Place) -> None:
    first, _ = await made(place, "one", text="first", instructions="be brief")
    async with calling(
        place.server.port, PATH, wanted("other/m", "second", previous_response_id=first["id"], stream=True)
    ) as client:
        asked = await place.asked()
        body = json.loads(asked.body)
        await asked.head(200, "text/event-stream")
        for name, more in ANTHROPIC:
            await asked.send(f"event: {name}\ndata: {json.dumps({'type': name, **more})}\n\n".encode())
        await asked.end()
        second = told(await (await client.answer()).rest())[-1]["response"]
    assert second["previous_response_id"] == first["id"]
    talk = [(m["role"], "".join(p["text"] for p in m["content"])) for m in body["messages"]]
    assert talk == [("user", "first"), ("assistant", "one"), ("user", "second")]
    assert "system" not in body
    third, asked_third = await made(place, "three", text="third", previous_response_id=second["id"], instructions="new")
    talk = [(m["role"], m["content"]) for m in asked_third["messages"]]
    assert talk == [
        ("system", "new"),
        ("user", "first"),
        ("assistant", "one"),
        ("user", "second"),
        ("assistant", "two"),
        ("user", "third"),
    ]
    status, listed = await ask(place.server, "GET", f"/{third['id']}/input_items?order=asc")
    assert status == 200
    said = [(i["role"], i["content"][0]["text"]) for i in listed["data"]]
    assert said == [(r, t) for r, t in talk if r != "system"]
    assert listed["has_more"] is False
    await ask(place.server, "DELETE", f"/{second['id']}")
    status, refused = await ask(place.server, "POST", body=wanted(previous_response_id=third["id"]))
    assert (status, refused["error"]["code"]) == (400, "previous_response_not_found")
    _, listed = await ask(place.server, "GET", f"/{third['id']}/input_items")
    assert [i["content"][0]["text"] for i in listed["data"]] == ["third"]


ANTHROPIC: Final[list[tuple[str, dict[str, Any]]]] = [
    ("message_start", {"message": {"id": "m", "role": "assistant", "content": [], "usage": {"input_tokens": 1}}}),
    ("content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}}),
    ("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": "two"}}),
    ("content_block_stop", {"index": 0}),
    ("message_delta", {"delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}}),
    ("message_stop", {}),
]


async def test_calls_and_sealed_thoughts_go_on_too(place: Place) -> None:
    """What the model must have back unread is kept, and goes to the model that had it."""
    tools = [{"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}]
    async with calling(place.server.port, PATH, wanted("other/m", "first", tools=tools, stream=True)) as client:
        asked = await place.asked()
        await asked.head(200, "text/event-stream")
        for name, more in (ANTHROPIC[0], *THINKS, *ANTHROPIC[-2:]):
            await asked.send(f"event: {name}\ndata: {json.dumps({'type': name, **more})}\n\n".encode())
        await asked.end()
        first = told(await (await client.answer()).rest())[-1]["response"]
    assert [item["type"] for item in first["output"]] == ["reasoning", "function_call"]
    result = [{"type": "function_call_output", "call_id": "toolu_1", "output": "the sea"}]
    body = wanted("other/m", result, previous_response_id=first["id"], tools=tools, stream=True)  # type: ignore[arg-type]
    async with calling(place.server.port, PATH, body):
        sent = json.loads((await place.asked()).body)["messages"]
    assert sent[1]["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": "sealed"},
        {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}},
    ]
    assert sent[2]["content"][0]["tool_use_id"] == "toolu_1"


THINKS: Final[list[tuple[str, dict[str, Any]]]] = [
    ("content_block_start", {"index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}}),
    ("content_block_delta", {"index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}}),
    ("content_block_delta", {"index": 0, "delta": {"type": "signature_delta", "signature": "sealed"}}),
    ("content_block_stop", {"index": 0}),
    (
        "content_block_start",
        {"index": 1, "content_block": {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}},
    ),
    ("content_block_stop", {"index": 1}),
]


async def test_an_upstream_of_the_same_protocol_gets_the_whole_talk(tmp_path: Path) -> None:
    """It keeps nothing, and its items are found by the ids that it gave them."""
    said = {"id": "msg_theirs", "type": "message", "status": "completed", "role": "assistant"}
    said |= {"content": [{"type": "output_text", "text": "one", "annotations": []}]}
    reply = {"id": "resp_theirs", "object": "response", "status": "completed", "output": [said], "usage": None}
    async with placed(tmp_path, same) as place:
        found = []
        for more in ({}, {"previous_response_id": 0}, {"input": [{"type": "item_reference", "id": "msg_theirs"}]}):
            more = {name: found[0]["id"] if value == 0 else value for name, value in more.items()}
            async with calling(place.server.port, PATH, {**wanted(text="more", unheard="of"), **more}) as client:
                asked = await place.asked()
                sent = json.loads(asked.body)
                await asked.answer(200, JSON, json.dumps(reply).encode())
                found.append(await (await client.answer()).json())
            assert (sent["store"], sent["unheard"]) == (False, "of")
            assert "previous_response_id" not in sent
            assert (found[-1]["id"] != "resp_theirs", found[-1]["store"]) == (True, True)
            if "previous_response_id" in more:
                assert [item.get("id") for item in sent["input"]] == [None, "msg_theirs", None]
                assert found[-1]["previous_response_id"] == found[0]["id"]
            if "input" in more:
                assert sent["input"] == [said]
        assert await got(place.server, found[1]["id"]) == found[1]


async def test_what_goes_on_need_not_be_stored_itself(place: Place) -> None:
    first, _ = await made(place, "one", text="first")
    second, asked = await made(place, "two", text="second", previous_response_id=first["id"], store=False)
    assert [m["content"] for m in asked["messages"]] == ["first", "one", "second"]
    assert (second["store"], second["previous_response_id"]) == (False, first["id"])
    await assert_missing(place.server, second["id"])


@pytest.mark.fault("F34")
async def test_a_short_request_behind_a_long_talk_is_walked_as_a_long_one(place: Place) -> None:
    first, _ = await made(place, text="x" * 300_000)
    for previous, long in ((None, False), (first["id"], True)):
        async with calling(place.server.port, PATH, wanted(previous_response_id=previous)) as client:
            asked = await place.asked()
            (call,) = place.server.on_loop(lambda: list(place.server.inside.services.inflight()))
            assert call.long is long
            await asked.answer(200, JSON, document("two"))
            assert (await client.answer()).status == 200
        await place.server.idle()


async def test_an_item_is_known_by_its_id(place: Place) -> None:
    """As SDKs for agents send it: what the model said is named and not repeated."""
    first, _ = await made(place, "one", text="first")
    _, items = await ask(place.server, "GET", f"/{first['id']}/input_items")
    talk = [
        {"type": "item_reference", "id": items["data"][0]["id"]},
        {"type": "item_reference", "id": first["output"][0]["id"]},
        {"role": "user", "content": "second"},
    ]
    second, asked = await made(place, "two", text=talk)
    assert [(m["role"], m["content"]) for m in asked["messages"]] == [
        ("user", "first"),
        ("assistant", "one"),
        ("user", "second"),
    ]
    _, asked = await made(place, "three", text="third", previous_response_id=second["id"])
    assert [m["content"] for m in asked["messages"]] == ["first", "one", "second", "two", "third"]
    body = wanted(text=[{"type": "item_reference", "id": "msg_unknown_0"}])
    status, refused = await ask(place.server, "POST", body=body)
    assert (status, refused["error"]["param"], refused["error"]["code"]) == (400, "input[0]", "item_not_found")


async def test_tokens_are_counted_with_what_goes_before(place: Place) -> None:
    first, _ = await made(place, "one", text="many words of the first turn, and more of them")
    counted = []
    for more in ({}, {"previous_response_id": first["id"]}):
        status, found = await ask(place.server, "POST", "/input_tokens", wanted(**more))
        assert status == 200
        counted.append(found["input_tokens"])
    assert counted[1] > counted[0] + 5


async def test_what_needs_more_than_is_kept_here_is_refused(place: Place) -> None:
    for more, param in (
        ({"conversation": "conv_1"}, "conversation"),
        ({"previous_response_id": "resp_1", "conversation": {"id": "conv_1"}}, "conversation"),
        ({"background": True, "store": False}, "background"),
    ):
        status, refused = await ask(place.server, "POST", body=wanted(**more))
        assert (status, refused["error"]["param"]) == (400, param)
    assert records(place.server) == []


async def test_a_talk_is_no_longer_than_a_body_may_be(tmp_path: Path) -> None:
    async with placed(tmp_path, lambda url: config(url, "[http]\nbody_limit_bytes = 4000\n")) as place:
        first, _ = await made(place, text="1" * 1500)
        second, asked = await made(place, text="2" * 1500, previous_response_id=first["id"])
        assert [len(m["content"]) for m in asked["messages"]] == [1500, 3, 1500]
        for text in ("3", "3" * 3000):
            previous = second if text == "3" else first
            body = wanted(text=text, previous_response_id=previous["id"])
            status, refused = await ask(place.server, "POST", body=body)
            assert (status, refused["error"]["code"]) == (400, "previous_response_too_long")
        assert len(records(place.server)) == 2


# -- whose it is


async def test_one_whose_time_has_come_is_not_there(place: Place) -> None:
    response, _ = await made(place)
    with sqlite3.connect(place.server.data_path / "rivermouth.db") as raw:
        raw.execute("UPDATE kept_answers SET expires_ns = created_ns WHERE id = ?", [response["id"]])
    raw.close()
    await assert_missing(place.server, response["id"])
    assert rows(place.server) == 1
    await place.server.run(place.server.inside.services.janitor.purge())
    assert rows(place.server) == 0


async def test_a_response_is_its_keys_alone(tmp_path: Path) -> None:
    async with placed(tmp_path, lambda url: config(url, KEYS)) as place:
        response, _ = await made(place, headers=ANNA)
        await assert_missing(place.server, response["id"], BOB)
        item = {"type": "item_reference", "id": response["output"][0]["id"]}
        status, refused = await ask(place.server, "POST", body=wanted(text=[item]), headers=BOB)
        assert (status, refused["error"]["code"]) == (400, "item_not_found")
        assert await got(place.server, response["id"], ANNA) == response
        status, _ = await ask(place.server, "GET", f"/{response['id']}")
        assert status == 401


async def test_only_what_a_route_has_is_taken(place: Place) -> None:
    response, _ = await made(place)
    for method, path in (("PUT", ""), ("PATCH", ""), ("GET", "/cancel"), ("POST", "/input_items"), ("POST", "")):
        async with asking(place.server.port, f"{PATH}/{response['id']}{path}", b"{}", method=method) as answer:
            assert answer.status in (404, 405), (method, path)
    for more in (
        "?starting_after=x",
        "?stream=true&starting_after=-1",
        "?stream=true&starting_after=1&starting_after=2",
    ):
        status, found = await ask(place.server, "GET", f"/{response['id']}{more}")
        if "stream=true" in more:
            assert (status, found["error"]["param"]) == (400, "starting_after")
    status, found = await ask(place.server, "DELETE", f"/{response['id']}?stream=true")
    assert (status, found["error"]["param"]) == (400, "stream")
    assert await got(place.server, response["id"]) == response

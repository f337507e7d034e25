"""Responses in the background: answered at once, read by anybody who may, cancelled, and over with their server."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from rivermouth.store.kept.port import KeptAnswer
from rivermouth.store.port import CallRecord, Status, StoreError
from rivermouth.store.sqlite import SqliteCallStore
from tests.engine.client import asking, calling
from tests.engine.lab import lab, until
from tests.engine.place import Place, gone, placed
from tests.engine.words import END, IN_BAND, PLAIN, ROLE, begin, provider, refusal, says
from tests.fakes import JSON, FakeUpstream
from tests.kept.asking import (
    PATH,
    Before,
    ask,
    assert_missing,
    begun,
    ended,
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


def config(url: str, more: str = "") -> str:
    return PLAIN + more + "[policies.nobody]\nproviders = []\n" + provider("up", url)


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


async def test_it_goes_on_without_anybody_and_is_there_when_it_has_ended(place: Place) -> None:
    response, asked = await begun(place)
    assert rows(place.server) == 1
    await begin(asked, ROLE, says("one"))
    running = await got(place.server, response["id"])
    assert running == response
    status, refused = await ask(place.server, "POST", body=wanted(previous_response_id=response["id"]))
    assert (status, refused["error"]["code"]) == (400, "previous_response_in_progress")
    await asked.send(says(" two"))
    await asked.end(END)
    done = await ended(place.server, response["id"])
    assert (done["status"], text_of(done), done["background"]) == ("completed", "one two", True)
    await place.server.idle()
    record = await place.server.record(response["id"].removeprefix("resp_"))
    assert (record.status, len(records(place.server)), rows(place.server)) == (Status.COMPLETED, 1, 1)
    _, then = await made(place, "three", text="more", previous_response_id=response["id"])
    assert [m["content"] for m in then["messages"]] == ["hi", "one two", "more"]


async def test_the_upstream_is_asked_as_for_any_other_call(place: Place) -> None:
    response, asked = await begun(place, metadata={"a": "b"}, stream=False, max_output_tokens=7)
    body = json.loads(asked.body)
    assert (body["stream"], body["max_tokens"]) == (True, 7)
    assert not {"background", "store", "previous_response_id"} & body.keys()
    assert (response["metadata"], response["max_output_tokens"]) == ({"a": "b"}, 7)
    await begin(asked, ROLE, says("x"))
    await asked.end(END)
    await ended(place.server, response["id"])


async def test_every_number_gives_the_rest_of_the_first_stream(place: Place) -> None:
    """Also while it runs, where whoever has all that there is waits for what comes."""
    async with calling(place.server.port, PATH, wanted(background=True, stream=True)) as client:
        answer = await client.answer()
        await answer.until(b"response.in_progress")
        response_id = told(answer.body)[0]["response"]["id"]
        assert (await got(place.server, response_id))["status"] == "in_progress"
        asked = await place.asked()
        await begin(asked, ROLE, says("one"))
        await answer.until(b'"one"')
        last = told(answer.body)[-1]["sequence_number"]
        path = f"{PATH}/{response_id}?stream=true&starting_after="
        async with asking(place.server.port, f"{path}{last}", None, method="GET") as second:
            status, refused = await ask(place.server, "GET", f"/{response_id}?stream=true&starting_after={last + 1}")
            assert (status, refused["error"]["param"]) == (400, "starting_after")
            await asked.send(says(" two"))
            await asked.end(END)
            whole = await answer.rest()
            assert told(await second.rest()) == told(whole)[last + 1 :]
    events = told(whole)
    assert [e["sequence_number"] for e in events] == list(range(len(events)))
    assert await read(place.server, response_id) == whole
    for after, event in enumerate(events):
        rest = await read(place.server, response_id, f"&starting_after={after}")
        assert rest == whole[len(whole) - len(rest) :]
        assert told(rest) == events[after + 1 :]
        assert event["sequence_number"] == after
    assert await got(place.server, response_id) == events[-1]["response"]


async def test_the_client_that_asked_for_it_may_leave_at_once(place: Place) -> None:
    async with calling(place.server.port, PATH, wanted(background=True, stream=True)) as client:
        answer = await client.answer()
        await answer.until(b"response.created")
        response_id = told(answer.body)[0]["response"]["id"]
    asked = await place.asked()
    await until(lambda: place.server.connections() == 0, "it has left")
    await begin(asked, ROLE, says("one"))
    await asked.end(END)
    assert text_of(await ended(place.server, response_id)) == "one"


@pytest.mark.fault("F31")
async def test_a_cancel_closes_the_upstream_within_the_second(place: Place) -> None:
    response, asked = await begun(place)
    await begin(asked, ROLE, says("one"))
    async with asking(place.server.port, f"{PATH}/{response['id']}?stream=true", None, method="GET") as answer:
        await answer.until(b'"one"')
        before = time.monotonic()
        status, cancelled = await ask(place.server, "POST", f"/{response['id']}/cancel")
        await gone(asked)
        assert time.monotonic() - before < 1
        assert (status, cancelled["status"], cancelled["error"]) == (200, "cancelled", None)
        assert text_of(cancelled) == "one"
        last = told(await answer.rest())[-1]
    assert (last["type"], last["response"]) == ("response.failed", cancelled)
    assert await ask(place.server, "POST", f"/{response['id']}/cancel") == (200, cancelled)
    assert await got(place.server, response["id"]) == cancelled
    record = await place.server.record(response["id"].removeprefix("resp_"))
    assert (record.status, record.cancelled_by) == (Status.CANCELLED, "request")
    assert len(records(place.server)) == 1


@pytest.mark.fault("F31")
async def test_it_can_be_cancelled_before_the_upstream_says_anything(place: Place) -> None:
    response, asked = await begun(place)
    status, cancelled = await ask(place.server, "POST", f"/{response['id']}/cancel", {})
    await gone(asked)
    assert (status, cancelled["status"], cancelled["output"]) == (200, "cancelled", [])
    events = told(await read(place.server, response["id"]))
    assert [e["sequence_number"] for e in events] == list(range(len(events)))
    assert [e["type"] for e in events] == ["response.created", "response.in_progress", "response.failed"]


async def test_deleting_it_ends_it(place: Place) -> None:
    response, asked = await begun(place)
    await begin(asked, ROLE, says("one"))
    status, _ = await ask(place.server, "DELETE", f"/{response['id']}")
    assert status == 200
    await gone(asked)
    await place.server.idle()
    await assert_missing(place.server, response["id"])
    assert rows(place.server) == 0
    assert await over(place.server) == [Status.CANCELLED]


async def test_what_its_upstream_says_of_a_failure_is_the_responses(place: Place) -> None:
    early, asked = await begun(place)
    await asked.answer(500, JSON, refusal("burst"))
    failed = await ended(place.server, early["id"])
    assert (failed["status"], failed["error"]["code"]) == ("failed", "server_error")
    assert "burst" in failed["error"]["message"]
    late, asked = await begun(place)
    await begin(asked, ROLE, says("one"))
    await asked.end(IN_BAND)
    failed = await ended(place.server, late["id"])
    assert (failed["status"], text_of(failed)) == ("failed", "one")
    for response in (early, late):
        events = told(await read(place.server, response["id"]))
        assert [e["sequence_number"] for e in events] == list(range(len(events)))
        assert events[-1]["response"] == await got(place.server, response["id"])
    assert await over(place.server) == [Status.FAILED] * 2


async def test_a_limit_refuses_it_before_it_is_a_response(tmp_path: Path) -> None:
    keys = '[keys.anna]\nkey = "rm-anna-has-this-key"\n[keys.anna.limits]\nrequests_per_minute = 1\n'
    anna = {"authorization": "Bearer rm-anna-has-this-key"}
    async with placed(tmp_path, lambda url: config(url, keys)) as place:
        response, asked = await begun(place, anna)
        body = wanted(background=True, stream=True)
        async with asking(place.server.port, PATH, body, anna) as answer:
            refused = await answer.json()
        assert (answer.status, refused["error"]["code"]) == (429, "rate_limit_exceeded")
        assert int(answer.headers["retry-after"]) > 0
        assert rows(place.server) == 1
        await begin(asked, ROLE, says("one"))
        await asked.end(END)
        assert text_of(await ended(place.server, response["id"], anna)) == "one"
        assert sorted(await over(place.server)) == [Status.COMPLETED, Status.FAILED]


async def test_what_cannot_be_stored_does_not_begin(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    async def full(kept: KeptAnswer, call: CallRecord | None = None) -> bool:
        raise StoreError("the disk is full", passing=True)

    with monkeypatch.context() as filled:
        filled.setattr(place.server.inside.services.kept._store, "put", full)
        status, refused = await ask(place.server, "POST", body=wanted(background=True))
    assert (status, refused["error"]["code"]) == (503, "server_is_overloaded")
    assert await over(place.server) == [Status.CANCELLED]
    assert rows(place.server) == 0, "nor is it stored when that can be done again"
    place.clear()  # it may have been asked, or not yet
    with monkeypatch.context() as filled:
        filled.setattr(place.server.inside.services.kept._store, "put", full)
        response, _ = await made(place)
    await assert_missing(place.server, response["id"])
    assert any(line["event"] == "kept.unstored" for line in place.server.log)


@pytest.mark.fault("F16", "F30")
async def test_the_record_of_its_call_is_there_before_it(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill between the two would leave a response of no call."""
    store: Any = place.server.inside.services.kept._store
    put, write = store.put, SqliteCallStore.write
    there: list[bool] = []

    async def watched(kept: KeptAnswer, call: CallRecord | None = None) -> bool:
        there.append(kept.call_id in {record.id for record in records(place.server)})
        return bool(await put(kept, call))

    def slow(store: SqliteCallStore, *rows: Any) -> int:
        time.sleep(0.1)
        return write(store, *rows)

    monkeypatch.setattr(store, "put", watched)
    monkeypatch.setattr(SqliteCallStore, "write", slow)
    response, asked = await begun(place)
    await asked.answer(500, JSON, refusal("it burst"))
    await ended(place.server, response["id"])
    assert there == [True]


@pytest.mark.fault("F16")
async def test_where_its_call_cannot_be_recorded_it_does_not_begin(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(store: SqliteCallStore, *rows: Any) -> int:
        raise StoreError("the disk is full", passing=True)

    with monkeypatch.context() as filled:
        filled.setattr(SqliteCallStore, "write", full)
        status, refused = await ask(place.server, "POST", body=wanted(background=True))
        assert (status, refused["error"]["code"]) == (503, "server_is_overloaded")
        await place.server.idle()
    await until(lambda: records(place.server), "it is recorded now")
    assert await over(place.server) == [Status.CANCELLED]
    assert rows(place.server) == 0
    place.clear()  # it may have been asked, or not yet


async def test_what_nobody_may_serve_is_an_error_at_once_and_recorded(place: Place) -> None:
    headers = {"x-rivermouth-policy": "nobody"}
    status, refused = await ask(place.server, "POST", body=wanted(background=True), headers=headers)
    assert (status, refused["error"]["code"]) == (403, "policy_refused")
    assert rows(place.server) == 0
    assert await over(place.server) == [Status.FAILED]


async def test_when_the_log_is_gone_what_the_response_says_is_said_again(tmp_path: Path) -> None:
    async with placed(tmp_path, lambda url: config(url, "[resume]\nttl_s = 0.01\n")) as place:
        response, asked = await begun(place)
        async with asking(place.server.port, f"{PATH}/{response['id']}?stream=true", None, method="GET") as answer:
            await begin(asked, ROLE, says("one"), says(" two"))
            await asked.end(END)
            first = told(await answer.rest())
        logs = place.server.inside.services.logged
        await until(lambda: place.server.on_loop(lambda: logs.statistics()[:2] == (0, 0)), "the log is gone")
        again = told(await read(place.server, response["id"]))
        assert (again[0]["type"], again[-1]) == ("response.created", first[-1])
        assert [e["delta"] for e in again if e["type"].endswith(".delta")] == ["one two"]
        assert told(await read(place.server, response["id"], "&starting_after=2")) == [first[-1]]
        number = first[-1]["sequence_number"]
        assert await read(place.server, response["id"], f"&starting_after={number}") == b""


async def test_a_log_that_is_full_forgets_its_beginning_and_nothing_waits(tmp_path: Path) -> None:
    more = "[resume]\ncall_bytes = 65536\ntotal_bytes = 131072\n"
    async with placed(tmp_path, lambda url: config(url, more)) as place:
        response, asked = await begun(place)
        await begin(asked, ROLE)
        for number in range(60):
            await asked.send(says(f"{number:4}" * 1000))
        async with asking(place.server.port, f"{PATH}/{response['id']}?stream=true", None, method="GET") as late:
            status, refused = late.status, await late.json()
        assert (status, refused["error"]["code"]) == (400, "events_gone")
        await asked.end(END)
        done = await ended(place.server, response["id"])
        assert text_of(done) == "".join(f"{number:4}" * 1000 for number in range(60))
        again = told(await read(place.server, response["id"]))
        assert again[-1]["response"] == done


async def test_without_room_for_a_log_there_is_no_background(tmp_path: Path) -> None:
    more = "[resume]\ncall_bytes = 65536\ntotal_bytes = 65536\n"
    async with placed(tmp_path, lambda url: config(url, more)) as place:
        found = [await begun(place) for _ in range(4)]
        status, refused = await ask(place.server, "POST", body=wanted(background=True))
        assert (status, refused["error"]["code"]) == (503, "server_is_overloaded")
        assert rows(place.server) == 4
        for response, asked in found:
            await ask(place.server, "POST", f"/{response['id']}/cancel")
            await gone(asked)


async def test_where_calls_do_not_outlive_connections_there_is_none(tmp_path: Path) -> None:
    async with placed(tmp_path, lambda url: config(url, "[resume]\nenabled = false\n")) as place:
        status, refused = await ask(place.server, "POST", body=wanted(background=True))
        assert (status, refused["error"]["code"]) == (400, "background_off")
        response, _ = await made(place)
        assert await got(place.server, response["id"]) == response


# -- with its server


async def test_a_drain_waits_for_it(tmp_path: Path) -> None:
    async with placed(tmp_path, lambda url: config(url, "[timeouts]\ndrain_s = 30\n")) as place:
        response, asked = await begun(place)
        await begin(asked, ROLE, says("one"))
        place.server.stop()
        await until(lambda: place.server.draining(), "the drain has begun")
        status, refused = await ask(place.server, "POST", body=wanted(background=True))
        assert (status, refused["error"]["type"]) == (503, "server_error")
        assert (await got(place.server, response["id"]))["status"] == "in_progress"
        await asked.end(says(" two") + END)
        await until(lambda: place.server.over, "the server has stopped")
    with lab(tmp_path, PLAIN) as again:
        done = await got(again, response["id"])
        assert (done["status"], text_of(done)) == ("completed", "one two")
        assert [r.status for r in again.records()] == [Status.COMPLETED]


async def test_what_a_shutdown_cuts_off_has_failed(tmp_path: Path) -> None:
    async with placed(tmp_path, lambda url: config(url, "[timeouts]\ndrain_s = 0\n")) as place:
        response, asked = await begun(place)
        await begin(asked, ROLE, says("one"))
        await until(lambda: place.server.produced() == 3, "the word is here")
        place.server.stop()
        await gone(asked)
        await until(lambda: place.server.over, "the server has stopped")
    with lab(tmp_path, PLAIN) as again:
        done = await got(again, response["id"])
        assert (done["status"], text_of(done)) == ("failed", "one")
        assert "shutting down" in done["error"]["message"]
        assert [r.cancelled_by for r in again.records()] == ["shutdown"]


async def test_it_ends_in_the_edition_in_which_it_began(tmp_path: Path) -> None:
    async with FakeUpstream() as upstream:
        with lab(tmp_path, config(upstream.url), reloads=True) as server:
            place = Place(server, upstream)
            response, asked = await begun(place)
            await begin(asked, ROLE, says("one"))
            state = await server.reload(PLAIN + '[responses]\nttl = "1d"\n')
            assert (state.problems, state.waiting) == ((), ())
            assert (await got(server, response["id"]))["status"] == "in_progress"
            await asked.send(says(" two"))
            await asked.end(END)
            done = await ended(server, response["id"])
            assert text_of(done) == "one two"
            status, refused = await ask(server, "POST", body=wanted(background=True))
            assert (status, refused["error"]["code"]) == (404, "model_not_found")
            await server.idle()  # what runs is left alone; it has an end before the store has it
            await server.reload(PLAIN + "[responses]\nstore = false\n")
            await until(lambda: rows(server) == 0, "nothing is kept any more")
            await assert_gone(server, response["id"])


async def assert_gone(server: Any, response_id: str) -> None:
    status, _ = await ask(server, "GET", f"/{response_id}")
    assert status == 404


async def test_an_upstream_of_the_same_protocol_is_passed_on_with_our_ids(tmp_path: Path) -> None:
    item = {"id": "msg_theirs", "type": "message", "status": "completed", "role": "assistant"}
    item |= {"content": [{"type": "output_text", "text": "one", "annotations": []}]}
    at = {"item_id": "msg_theirs", "output_index": 0, "content_index": 0}
    theirs = {"id": "resp_theirs", "object": "response", "created_at": 1, "status": "in_progress", "output": []}
    done = {**theirs, "status": "completed", "output": [item], "store": False, "background": False}
    said: list[dict[str, Any]] = [
        {"type": "response.created", "response": theirs},
        {"type": "response.in_progress", "response": theirs},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
        {"type": "response.content_part.added", **at, "part": {"type": "output_text", "text": "", "annotations": []}},
        {"type": "response.output_text.delta", **at, "delta": "one", "logprobs": []},
        {"type": "response.output_text.done", **at, "text": "one", "logprobs": []},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": done},
    ]
    frames = [
        f"event: {e['type']}\ndata: {json.dumps({**e, 'sequence_number': n})}\n\n".encode() for n, e in enumerate(said)
    ]
    async with placed(tmp_path, same) as place:
        response, asked = await begun(place, metadata={"a": "b"})
        sent = json.loads(asked.body)
        assert (sent["stream"], sent["store"], "background" in sent) == (True, False, False)
        await begin(asked, *frames[:5])
        path = f"{PATH}/{response['id']}?stream=true"
        async with asking(place.server.port, path, None, method="GET") as answer:
            await answer.until(b'"one"')
            await asked.end(b"".join(frames[5:]))
            events = told(await answer.rest())
        assert [e["type"] for e in events] == [e["type"] for e in said]
        assert [e["sequence_number"] for e in events] == list(range(len(said)))
        last = events[-1]["response"]
        assert (last["id"], last["store"], last["background"]) == (response["id"], True, True)
        assert last == await ended(place.server, response["id"])
        cut, asked = await begun(place)
        await begin(asked, *frames[:5])
        async with asking(place.server.port, f"{PATH}/{cut['id']}?stream=true", None, method="GET") as answer:
            await answer.until(b'"one"')
            status, cancelled = await ask(place.server, "POST", f"/{cut['id']}/cancel")
            assert (status, cancelled["status"], cancelled["id"]) == (200, "cancelled", cut["id"])
            assert told(await answer.rest())[-1]["response"] == cancelled
        await gone(asked)


async def test_many_at_once_each_have_their_own(place: Place) -> None:
    found = await asyncio.gather(
        *(ask(place.server, "POST", body=wanted(text=f"n{n}", background=True)) for n in range(8))
    )
    for _ in found:
        asked = await place.asked()
        number = json.loads(asked.body)["messages"][0]["content"]
        await begin(asked, ROLE, says(f"answer to {number}"))
        await asked.end(END)
    for number, (_, response) in enumerate(found):
        assert text_of(await ended(place.server, response["id"])) == f"answer to n{number}"
    await place.server.idle()
    assert len(records(place.server)) == 8

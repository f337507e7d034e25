"""A call that its client leaves and comes back to: what goes on, what ends, and what is still there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from rivermouth.bridge import MAX_PENDING_CHARS
from rivermouth.store.port import CallRecord, Status
from tests.engine import bots
from tests.engine.client import Answer, Cut, asking, calling, connected
from tests.engine.lab import Lab, until
from tests.engine.place import Place, gone, placed
from tests.engine.words import (
    ALL,
    DONE,
    END,
    OPENAI,
    PLAIN,
    ROLE,
    Speaks,
    begin,
    document,
    provider,
    refusal,
    says,
    talk,
)
from tests.fakes import JSON, Asked

pytestmark = pytest.mark.anyio

WISH: Final = "x-rivermouth-resumable"
ADDRESS: Final = "x-rivermouth-resume"
KEYS: Final = """
[keys.ann]
key = "key-of-ann-number-one"
[keys.bob]
key = "key-of-bob-number-two"
resumable = true
"""
ANN: Final = {"authorization": "Bearer key-of-ann-number-one"}
BOB: Final = {"authorization": "Bearer key-of-bob-number-two"}


def config(url: str, more: str = "") -> str:
    bot = '[providers.bots]\npython = "tests.engine.bots:endless"\n'
    return PLAIN + "[timeouts]\ndrain_s = 0.2\n" + bot + provider("up", url) + more


@pytest.fixture(scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    async with placed(tmp_path_factory.mktemp("resume"), config) as place:
        yield place


@asynccontextmanager
async def with_settings(folder: Path, more: str) -> AsyncIterator[Place]:
    async with placed(folder, lambda url: config(url, more)) as place:
        yield place


@asynccontextmanager
async def streaming(
    place: Place, speaks: Speaks = OPENAI, wish: str | None = "1", key: dict[str, str] | None = None
) -> AsyncIterator[tuple[Answer, Asked]]:
    """Both sides of a stream whose first word has reached its client, which leaves at the end."""
    headers = {**({WISH: wish} if wish is not None else {}), **(key or {})}
    async with calling(place.server.port, speaks.path, talk("up/m"), headers) as client:
        asked = await place.asked()
        await begin(asked, ROLE, says("one"))
        answer = await client.answer()
        await answer.until(b"one")
        yield answer, asked


async def left(place: Place, wish: str = "1", key: dict[str, str] | None = None) -> tuple[Answer, Asked]:
    """The same, of a client that has left, and nobody reads."""
    async with streaming(place, OPENAI, wish, key) as (answer, asked):
        pass
    await unread(place.server)
    return answer, asked


async def get(server: Lab, path: str, headers: dict[str, str] | None = None, method: str = "GET") -> Answer:
    """What is answered there, whole."""
    async with asking(server.port, path, None, headers, method=method) as answer:
        await answer.rest()
    return answer


async def unread(server: Lab) -> None:
    """Returns when no log has a reader."""
    await until(lambda: statistics(server).readers == 0, "nobody reads")


def statistics(server: Lab) -> Any:
    return server.on_loop(server.inside.services.logged.statistics)


def code(answer: Answer) -> tuple[int, str]:
    return answer.status, json.loads(answer.body)["error"]["code"]


async def only(server: Lab, answer: Answer) -> CallRecord:
    """The record of the call, the only one."""
    record = await server.record(answer.call_id)
    assert sum(other.id == answer.call_id for other in server.records()) == 1
    return record


@pytest.mark.parametrize("speaks", ALL, ids=lambda s: s.name)
async def test_a_client_that_leaves_and_comes_back_has_the_whole_answer(place: Place, speaks: Speaks) -> None:
    async with streaming(place, speaks) as (first, asked):
        pass
    await unread(place.server)
    await asked.send(says(" two"))
    before = first.body
    path = f"{first.headers[ADDRESS]}?after={len(before)}"
    async with asking(place.server.port, path, None, method="GET") as second:
        await second.until(b"two")
        await asked.send(says(" three"))
        await asked.end(END)
        body = before + await second.rest()
    assert speaks.text(body) == "one two three"
    assert speaks.finished(body)
    record = await only(place.server, first)
    assert (record.status, record.text_chars) == (Status.COMPLETED, len("one two three"))


async def test_a_call_that_does_not_ask_is_a_plain_one(place: Place) -> None:
    for wish in (None, "0"):
        async with streaming(place, wish=wish) as (answer, asked):
            assert ADDRESS not in answer.headers
        await gone(asked)
        assert (await only(place.server, answer)).cancelled_by == "client"
        assert code(await get(place.server, f"/resume/{answer.call_id}")) == (404, "call_not_found")


SAY_NOTHING: Final = ("", "yes", "2", "1;", "1; grace=", "1; grace=-1", "1; grace=x", "1;grace=1e9", "ids2", "1, 1")


@pytest.mark.parametrize("said", SAY_NOTHING)
async def test_a_wish_that_says_nothing_is_refused(place: Place, said: str) -> None:
    async with asking(place.server.port, OPENAI.path, talk("up/m"), {WISH: said}) as answer:
        error = (await answer.json())["error"]
    assert (answer.status, error["param"], error["code"]) == (400, WISH, "invalid_resumable")


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_an_error_is_an_answer_too(place: Place, stream: bool) -> None:
    async with calling(place.server.port, OPENAI.path, talk("up/m", stream=stream), {WISH: "1"}) as client:
        await (await place.asked()).answer(429, JSON, refusal("slow down"), retry_after="7")
        first = await client.answer()
        body = await first.rest()
    again = await get(place.server, first.headers[ADDRESS])
    assert (again.status, again.body, again.headers["retry-after"]) == (first.status, body, "7") == (429, body, "7")
    rest = await get(place.server, f"{first.headers[ADDRESS]}?after=10")
    assert (rest.status, rest.body, rest.headers["content-length"]) == (429, body[10:], str(len(body) - 10))
    assert (await only(place.server, first)).status is Status.FAILED


async def test_a_whole_reply_is_read_again(place: Place) -> None:
    async with calling(place.server.port, OPENAI.path, talk("up/m", stream=False), {WISH: "1"}) as client:
        asked = await place.asked()
        await asked.answer(200, JSON, document("all of it"))
        first = await client.answer()
        body = await first.rest()
    assert OPENAI.whole(json.loads(body)) == "all of it"
    for after in (0, 1, len(body) - 1, len(body)):
        again = await get(place.server, f"{first.headers[ADDRESS]}?after={after}")
        assert (again.status, again.headers["content-type"]) == (200, "application/json")
        assert again.body == body[after:]


async def test_embeddings_are_calls_too(place: Place) -> None:
    body = {"model": "scripted/scripted-embed", "input": "river"}
    async with asking(place.server.port, "/v1/embeddings", body, {WISH: "1"}) as first:
        data = await first.rest()
    assert (await get(place.server, first.headers[ADDRESS])).body == data


async def test_who_comes_while_nothing_is_known_waits_for_the_same_head(place: Place) -> None:
    """Two readers before the first byte; the first of them may leave, since the other knows the address."""
    async with calling(place.server.port, OPENAI.path, talk("up/m"), {WISH: "1"}) as client:
        asked = await place.asked()
        (call,) = place.server.on_loop(lambda: [c.id for c in place.server.inside.services.inflight()])
        async with calling(place.server.port, f"/resume/{call}", method="GET") as other:
            await until(lambda: statistics(place.server).readers == 2, "both read")
            client.leave()
            await until(lambda: statistics(place.server).readers == 1, "one has left")
            await begin(asked, ROLE, says("hi"))
            await asked.end(END)
            answer = await other.answer()
            assert OPENAI.text(await answer.rest()) == "hi"
    assert (await only(place.server, answer)).status is Status.COMPLETED


async def test_who_was_never_told_the_address_cannot_come_again_so_nothing_is_paid_for(place: Place) -> None:
    async with calling(place.server.port, OPENAI.path, talk("up/m"), {WISH: "1"}) as client:
        asked = await place.asked()
        client.leave()
        await gone(asked)
    record = await place.server.last()
    assert (record.status, record.cancelled_by) == (Status.CANCELLED, "client")


class TestReaders:
    async def test_a_reader_that_leaves_ends_nothing_while_another_reads(self, tmp_path: Path) -> None:
        async with with_settings(tmp_path, "[resume]\ngrace_s = 0\n") as place:
            async with streaming(place) as (first, asked):
                steady = asking(place.server.port, first.headers[ADDRESS], method="GET")
                second = await steady.__aenter__()
                await second.until(b"one")
            await until(lambda: statistics(place.server).readers == 1, "one has left")
            await asked.send(says(" two"))
            await asked.end(END)
            assert OPENAI.finished(await second.rest())
            await steady.__aexit__(None, None, None)
            assert (await only(place.server, first)).status is Status.COMPLETED

    async def test_a_reader_of_one_byte_at_a_time_keeps_nobody_waiting(self, place: Place) -> None:
        """And in the end it has all the same bytes."""
        piece = "river " * 5000
        async with streaming(place) as (first, asked), connected(place.server.port, receive_bytes=4096) as slow:
            await slow.send("GET", first.headers[ADDRESS])
            sluggish = await slow.answer()
            for _ in range(300):
                await asked.send(says(piece))
            await asked.end(END)
            body = await first.rest()
            assert place.server.blocked()
            assert await sluggish.rest() == body
        assert (await only(place.server, first)).status is Status.COMPLETED

    async def test_a_reader_that_takes_nothing_is_sent_away_in_the_end(self, tmp_path: Path) -> None:
        """Once its answer has ended nothing waits for it, and nothing is kept for it for ever."""
        async with with_settings(tmp_path, "[resume]\nttl_s = 0.2\n") as place:
            async with streaming(place) as (first, asked), connected(place.server.port, receive_bytes=4096) as deaf:
                await deaf.send("GET", first.headers[ADDRESS])
                for _ in range(400):
                    await asked.send(says("river " * 2000))
                await asked.end(END)
                assert OPENAI.finished(await first.rest())
                await until(lambda: statistics(place.server).held_bytes == 0, "nothing is held")
                with pytest.raises(Cut):
                    await (await deaf.answer()).rest()
            assert code(await get(place.server, first.headers[ADDRESS])) == (410, "log_gone")


class TestGrace:
    async def test_nobody_reads_for_so_long_and_the_call_is_cancelled(self, tmp_path: Path) -> None:
        async with with_settings(tmp_path, "[resume]\ngrace_s = 0.05\n") as place:
            first, asked = await left(place)
            await gone(asked)
            record = await only(place.server, first)
            assert (record.status, record.cancelled_by) == (Status.CANCELLED, "client")
            half = await get_cut(place.server, first.headers[ADDRESS])
            assert half == first.body, "what there was is there, without an end that it never had"

    async def test_a_client_asks_for_less_but_not_for_more(self, tmp_path: Path) -> None:
        async with with_settings(tmp_path, '[resume]\ngrace_s = "forever"\n') as place:
            first, asked = await left(place, "1; grace=0.01")
            await gone(asked)
            assert (await only(place.server, first)).cancelled_by == "client"
        async with with_settings(tmp_path, "[resume]\ngrace_s = 0\n") as place:
            first, asked = await left(place, "1; grace=600")
            await gone(asked)

    async def test_forever_is_to_its_end(self, tmp_path: Path) -> None:
        async with with_settings(tmp_path, '[resume]\ngrace_s = "forever"\n') as place:
            first, asked = await left(place)
            await asked.end(says(" two") + END)
            record = await only(place.server, first)
            assert (record.status, record.text_chars) == (Status.COMPLETED, 7)
            assert OPENAI.text((await get(place.server, first.headers[ADDRESS])).body) == "one two"

    async def test_who_comes_back_in_time_stops_the_clock(self, tmp_path: Path) -> None:
        async with with_settings(tmp_path, "[resume]\ngrace_s = 0.3\n") as place:
            first, asked = await left(place)
            async with asking(place.server.port, first.headers[ADDRESS], method="GET") as second:
                await second.until(b"one")
                await asyncio.sleep(0.5)  # longer than the grace: what is shown is that it does not run
                await asked.end(says(" two") + END)
                assert OPENAI.finished(await second.rest())
            assert (await only(place.server, first)).status is Status.COMPLETED


async def get_cut(server: Lab, path: str) -> bytes:
    """What comes there before the connection is cut."""
    async with asking(server.port, path, method="GET") as answer:
        with pytest.raises(Cut):
            await answer.rest()
    return answer.body


NO_NUMBERS: Final = ("-1", "x", "", "1.5", "0x1", "1e3", "\u0663", "1" * 19, "1&after=2", " 1", "+1", "%00", "1%0a")


class TestCursor:
    @pytest.mark.parametrize("after", NO_NUMBERS)
    async def test_what_is_no_number_of_bytes_is_refused(self, place: Place, after: str) -> None:
        first, asked = await left(place)
        again = await get(place.server, f"{first.headers[ADDRESS]}?after={quoted(after)}")
        assert code(again) == (400, "invalid_after")
        assert again.call_id == first.call_id
        asked.cut()

    async def test_nobody_has_more_than_there_is(self, place: Place) -> None:
        first, asked = await left(place)
        length = len(first.body)
        told = await get(place.server, first.headers[ADDRESS], method="HEAD")
        assert told.headers["x-rivermouth-resume-length"] == str(length)
        assert told.headers["x-rivermouth-resume-complete"] == "false"
        for after in (length + 1, 10**18 - 1):
            assert code(await get(place.server, f"{first.headers[ADDRESS]}?after={after}")) == (400, "invalid_after")
        await asked.end(END)
        await place.server.record(first.call_id)
        told = await get(place.server, first.headers[ADDRESS], method="HEAD")
        assert told.headers["x-rivermouth-resume-complete"] == "true"
        whole = (await get(place.server, first.headers[ADDRESS])).body
        assert told.headers["x-rivermouth-resume-length"] == str(len(whole))
        assert (await get(place.server, f"{first.headers[ADDRESS]}?after={len(whole)}")).body == b""

    async def test_the_header_is_newer_than_the_address(self, place: Place) -> None:
        """A browser adds it to the address that it has."""
        first, asked = await left(place)
        await asked.end(END)
        await place.server.record(first.call_id)
        address = first.headers[ADDRESS]
        whole = (await get(place.server, address)).body
        assert (await get(place.server, f"{address}?after=3", {"last-event-id": "7"})).body == whole[7:]
        assert code(await get(place.server, address, {"last-event-id": "7-1"})) == (400, "invalid_after")
        assert (await get(place.server, address, {"last-event-id": str(len(whole))})).status == 204
        assert (await get(place.server, f"{address}?after={len(whole)}")).status == 200

    @pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
    async def test_it_is_only_read(self, place: Place, method: str) -> None:
        first, asked = await left(place)
        again = await get(place.server, first.headers[ADDRESS], method=method)
        assert (again.status, again.headers["allow"]) == (405, "GET, HEAD")
        asked.cut()

    @pytest.mark.parametrize("path", ["", "x", "../v1/models", "%2e%2e", "a/b", "0" * 5000])
    async def test_an_address_that_is_none(self, place: Place, path: str) -> None:
        assert code(await get(place.server, f"/resume/{path}")) == (404, "call_not_found")


def quoted(text: str) -> str:
    return "".join(c if c.isascii() and c not in "+ " else "".join(f"%{b:02x}" for b in c.encode()) for c in text)


class TestWhose:
    async def test_it_is_there_for_its_own_key_and_for_nobody_else(self, tmp_path: Path) -> None:
        async with with_settings(tmp_path, KEYS) as place:
            first, asked = await left(place, key=ANN)
            address = first.headers[ADDRESS]
            assert code(await get(place.server, address)) == (401, "invalid_api_key")
            assert code(await get(place.server, address, BOB)) == (404, "call_not_found")
            assert (await get(place.server, address, BOB, method="HEAD")).status == 404
            await asked.end(END)
            assert (await get(place.server, address, ANN)).status == 200
            assert code(await get(place.server, f"/resume/{'0' * 32}", BOB)) == (404, "call_not_found")

    async def test_an_end_that_is_gone_is_nobody_elses_business(self, tmp_path: Path) -> None:
        async with with_settings(tmp_path, KEYS + "[resume]\nttl_s = 0.05\n") as place:
            first, asked = await left(place, key=ANN)
            await asked.end(END)
            await until(lambda: statistics(place.server)[:2] == (0, 0), "it is gone")
            assert code(await get(place.server, first.headers[ADDRESS], ANN)) == (410, "log_gone")
            assert code(await get(place.server, first.headers[ADDRESS], BOB)) == (404, "call_not_found")

    async def test_a_key_may_make_all_its_calls_resumable(self, tmp_path: Path) -> None:
        async with with_settings(tmp_path, KEYS) as place:
            async with streaming(place, wish=None, key=BOB) as (answer, asked):
                assert ADDRESS in answer.headers
            async with streaming(place, wish="0", key=BOB) as (answer, other):
                assert ADDRESS not in answer.headers
            await gone(other)
            await asked.end(END)

    async def test_a_key_of_the_database_too(self, tmp_path: Path) -> None:
        admin = '[keys.admin]\nkey = "key-of-the-admin-itself"\nrole = "admin"\n'
        async with with_settings(tmp_path, admin) as place:
            issued = {}
            for name, resumable in (("kept", True), ("plain", False)):
                body = {"name": name, "resumable": resumable}
                headers = {"authorization": "Bearer key-of-the-admin-itself", "content-type": "application/json"}
                async with asking(place.server.port, "/platform/v1/keys", body, headers) as answer:
                    made = await answer.json()
                    assert made["key"]["resumable"] is resumable
                    issued[name] = {"authorization": f"Bearer {made['secret']}"}
            async with streaming(place, wish=None, key=issued["kept"]) as (answer, asked):
                assert ADDRESS in answer.headers
            async with streaming(place, wish=None, key=issued["plain"]) as (other, _):
                assert ADDRESS not in other.headers
            assert code(await get(place.server, answer.headers[ADDRESS], issued["plain"])) == (404, "call_not_found")
            await asked.end(END)
            assert (await get(place.server, answer.headers[ADDRESS], issued["kept"])).status == 200

    async def test_a_web_page_reads_the_address(self, place: Place) -> None:
        page = {"origin": "http://localhost:3000"}
        async with asking(place.server.port, OPENAI.path, talk("scripted/scripted"), {WISH: "1", **page}) as first:
            await first.rest()
        assert ADDRESS in first.headers["access-control-expose-headers"].split(", ")
        again = await get(place.server, first.headers[ADDRESS], page)
        assert [name for name, _ in again.pairs].count("access-control-allow-origin") == 1
        assert again.headers["access-control-allow-origin"] == page["origin"]
        assert "access-control-allow-origin" not in (await get(place.server, first.headers[ADDRESS])).headers
        foreign = await get(place.server, first.headers[ADDRESS], {"origin": "https://evil.example"})
        assert foreign.status == 403


class TestRoom:
    async def test_ended_answers_make_room_the_oldest_first(self, tmp_path: Path) -> None:
        more = f"[resume]\ncall_bytes = {64 * 1024}\ntotal_bytes = {64 * 1024}\n"
        async with with_settings(tmp_path, more) as place:
            answers = []
            for _ in range(3):
                async with streaming(place) as (answer, asked):
                    for _ in range(8):
                        await asked.send(says("x" * 3000))
                    await asked.end(END)
                    await answer.rest()
                await place.server.record(answer.call_id)
                answers.append(answer)
                assert statistics(place.server).held_bytes <= 64 * 1024
            found = [(await get(place.server, a.headers[ADDRESS])).status for a in answers]
            assert found == [410, 200, 200]
            assert statistics(place.server).evicted == 1

    async def test_where_nothing_can_make_room_a_call_is_a_plain_one(self, tmp_path: Path) -> None:
        more = f"[resume]\ncall_bytes = {64 * 1024}\ntotal_bytes = {64 * 1024}\n"
        async with with_settings(tmp_path, more) as place:
            first, one = await left(place)
            for _ in range(30):
                await one.send(says("x" * 3000))
            await until(lambda: statistics(place.server).held_bytes >= 64 * 1024, "nobody reads, and the log is full")
            async with streaming(place) as (second, two):
                assert ADDRESS not in second.headers
            await gone(two)
            assert ADDRESS in first.headers
            assert statistics(place.server).refused == 1

    async def test_a_longer_answer_than_is_kept_is_whole_for_whoever_reads_it(self, tmp_path: Path) -> None:
        async with with_settings(tmp_path, f"[resume]\ncall_bytes = {64 * 1024}\n") as place:
            async with streaming(place) as (answer, asked):
                for number in range(100):
                    await asked.send(says(f"{number} " * 1000))
                await asked.end(END)
                body = await answer.rest()
            assert OPENAI.text(body) == "one" + "".join(f"{number} " * 1000 for number in range(100))
            assert code(await get(place.server, answer.headers[ADDRESS])) == (410, "log_gone")
            after = len(body) - 1000
            assert (await get(place.server, f"{answer.headers[ADDRESS]}?after={after}")).body == body[after:]

    async def test_an_endless_answer_that_nobody_reads_stops_being_made(self, tmp_path: Path) -> None:
        """The log is full, so its upstream is not read; and at the end of the grace it is closed."""
        bots.fresh()
        async with with_settings(tmp_path, f"[resume]\ncall_bytes = {64 * 1024}\ngrace_s = 2\n") as place:
            async with asking(place.server.port, OPENAI.path, talk("bots/any"), {WISH: "1; grace=0.5"}) as answer:
                await answer.until(b"word")
            await unread(place.server)
            await place.server.idle()
            assert statistics(place.server).held_bytes < 2 * MAX_PENDING_CHARS, "no more than one read brings"
            assert (await only(place.server, answer)).cancelled_by == "client"
            assert bots.CLOSED.wait(5)


class TestSettings:
    async def test_switched_off_every_call_is_plain(self, tmp_path: Path) -> None:
        async with with_settings(tmp_path, "[resume]\nenabled = false\n" + KEYS) as place:
            async with streaming(place, key=BOB) as (answer, asked):
                assert ADDRESS not in answer.headers
            await gone(asked)

    async def test_a_base_path_stands_before_the_address(self, tmp_path: Path) -> None:
        async with placed(tmp_path, lambda url: config(url, '[http]\nbase_path = "/llm"\n')) as place:
            headers, path = {WISH: "1"}, "/llm" + OPENAI.path
            async with asking(place.server.port, path, talk("scripted/scripted"), headers) as answer:
                body = await answer.rest()
            assert answer.headers[ADDRESS] == f"/llm/resume/{answer.call_id}"
            assert (await get(place.server, answer.headers[ADDRESS])).body == body
            assert (await get(place.server, f"/resume/{answer.call_id}")).status == 404


async def test_a_shutdown_ends_it_as_any_call(tmp_path: Path) -> None:
    """Whoever reads is told so, and one that nobody reads has its record too."""
    async with with_settings(tmp_path, "") as place:
        unheard, _ = await left(place)
        async with streaming(place) as (answer, _):
            place.server.stop()
            body = await answer.rest()
            assert "shutting down" in (OPENAI.failed(body) or "")
            assert DONE not in body
        await until(lambda: place.server.over, "the server has stopped")
    from tests.http.test_drain import records

    found = {record.id: record for record in records(tmp_path)}
    assert {(found[a.call_id].status, found[a.call_id].cancelled_by) for a in (unheard, answer)} == {
        (Status.CANCELLED, "shutdown")
    }
    assert len(found) == 2

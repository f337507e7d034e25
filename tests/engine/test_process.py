"""What only a process of its own can show: a kill, signals and the exit code, memory, open files."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import pytest

from rivermouth import __version__
from rivermouth.store.datadir import DataDir
from rivermouth.store.port import CallRecord, Outcome, Status
from rivermouth.store.sqlite import SqliteCallStore
from tests.engine.client import Answer, asking, calling, connected
from tests.engine.lab import until
from tests.engine.place import gone
from tests.engine.words import ALL, ANTHROPIC, END, OPENAI, PLAIN, ROLE, Speaks, begin, provider, says, talk
from tests.fakes import Asked, FakeUpstream
from tests.running import Running, running

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.timeout(60),
    pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc"),
]

MIB: Final = 1024 * 1024


def records(server: Running) -> dict[str, CallRecord]:
    """Every record by its id."""
    store = SqliteCallStore.reader(DataDir(server.data).database)
    try:
        found = store.list(10_000)
        assert len({r.id for r in found}) == len(found)
        return {r.id: r for r in found}
    finally:
        store.dispose()


async def health(port: int) -> tuple[int, Any]:
    async with asking(port, "/health", method="GET") as answer:
        return answer.status, await answer.json()


STREAMS: Final = 100


@pytest.mark.fault("F16", "F30", "F10")
async def test_a_kill_in_the_middle_of_a_hundred_streams_loses_no_call(tmp_path: Path) -> None:
    answers: list[Answer] = []
    async with AsyncExitStack() as open_:
        with running(tmp_path) as server:
            for number in range(STREAMS):
                speaks = ALL[number % 3]
                answers.append(
                    await open_.enter_async_context(
                        asking(server.port, speaks.path, talk("scripted-slow", max_tokens=600))
                    )
                )
            await until(lambda: any(r.text_chars for r in records(server).values()), "a checkpoint was written")
            server.kill()
            said = [await to_the_cut(answer) for answer in answers]
        ids = [answer.call_id for answer in answers]
        assert len(set(ids)) == STREAMS
        before = records(server)
        assert {before[i].status for i in ids} == {Status.OPEN}, "the row was there before the first byte"
        with running(tmp_path) as server:
            after = records(server)
            assert set(after) == set(ids)
            for number, (call_id, body) in enumerate(zip(ids, said, strict=True)):
                speaks, record = ALL[number % 3], after[call_id]
                assert (record.status, record.at_least, record.cancelled_by) == (Status.INTERRUPTED, True, None)
                assert record.text_chars <= len(speaks.text(body)), "it counts no more than was sent"
                assert not speaks.finished(body)
            counted = [r for r in after.values() if r.text_chars]
            assert counted
            for record in counted:
                assert record.output_tokens
                assert [(a.outcome, a.text_chars) for a in record.attempts] == [
                    (Outcome.INTERRUPTED, record.text_chars)
                ]
            status, body = await health(server.port)
            assert (status, body["inflight"]) == (200, 0)
        assert server.process.returncode == 0


async def to_the_cut(answer: Answer) -> bytes:
    """The whole frames that came before the connection was cut."""
    try:
        await answer.rest()
    except AssertionError:
        return answer.body
    raise AssertionError("a killed server does not end its streams")


@pytest.mark.fault("F14", "F15", "F16")
@pytest.mark.promise(5, 59)
async def test_a_signal_drains_and_a_second_one_hurries(tmp_path: Path) -> None:
    async with FakeUpstream() as upstream:
        with running(tmp_path, PLAIN + "[timeouts]\ndrain_s = 30\n" + provider("up", upstream.url)) as server:
            async with (
                connected(server.port) as ending,
                connected(server.port) as lasting,
                connected(server.port) as idle,
            ):
                await ending.send("POST", OPENAI.path, talk("up/m"))
                await begin(first := await upstream.asked(), ROLE, says("one"))
                await lasting.send("POST", ANTHROPIC.path, talk("up/m"))
                await begin(second := await upstream.asked(), ROLE, says("two"))
                ended, lasted = await ending.answer(), await lasting.answer()
                server.terminate()
                await until_draining(server.port)
                assert await health(server.port) == (503, {"status": "draining", "inflight": 2, "version": __version__})
                for speaks in ALL:
                    await refused(server.port, speaks)
                async with asking(server.port, "/api/version", method="GET") as answer:
                    assert answer.status == 200, "what is no call is still answered"
                await first.end(END)
                body = await ended.rest()
                assert (OPENAI.text(body), OPENAI.finished(body)) == ("one", True)
                assert server.process.poll() is None, "one call runs still"
                server.terminate()
                body = await lasted.rest()
                assert (ANTHROPIC.text(body), ANTHROPIC.finished(body)) == ("two", False)
                assert ANTHROPIC.failed(body) == "the server is shutting down"
                assert await idle.closed() == b""
                await gone(second)
            assert server.stop() == 0
            found = records(server)
            assert set(found) == {ended.call_id, lasted.call_id}
            assert found[ended.call_id].status is Status.COMPLETED
            assert (found[lasted.call_id].status, found[lasted.call_id].cancelled_by) == (Status.CANCELLED, "shutdown")


async def until_draining(port: int) -> None:
    while (await health(port))[0] == 200:
        await asyncio.sleep(0)


async def refused(port: int, speaks: Speaks) -> None:
    """A new call gets its refusal in its dialect's shape, and a word when to come again."""
    for stream in (True, False):
        async with asking(port, speaks.path, talk("up/m", stream=stream)) as answer:
            assert answer.status in (503, 529)
            assert (answer.headers["retry-after"], answer.headers["connection"]) == ("5", "close")
            assert speaks.refused(await answer.json()) == "the server is shutting down"


@pytest.fixture(scope="module")
async def upstream() -> AsyncIterator[FakeUpstream]:
    async with FakeUpstream() as made:
        yield made


@pytest.fixture(scope="module")
async def process(tmp_path_factory: pytest.TempPathFactory, upstream: FakeUpstream) -> AsyncIterator[Running]:
    with running(tmp_path_factory.mktemp("process"), PLAIN + provider("up", upstream.url)) as server:
        yield server


def resident_bytes(server: Running) -> int:
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024


def open_files(server: Running) -> int:
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


OFFERED_BYTES: Final = 200 * MIB
FRAME: Final = says("x" * 60_000)
READERS: Final = 4
ROUNDS: Final = 40


@pytest.mark.fault("F35")
async def test_readers_that_do_not_read_cost_no_memory(process: Running, upstream: FakeUpstream) -> None:
    """Each upstream offers 200 MB; all that is taken of it fits in the buffers of the system and a bound of ours."""
    async with asking(process.port, OPENAI.path, talk("scripted")) as answer:
        await answer.rest()
    assert (await health(process.port))[0] == 200, "what it imports for that is no reader's"
    before = resident_bytes(process)
    sent = [0] * READERS

    async def offer(asked: Asked, reader: int) -> None:
        await begin(asked, ROLE)
        while sent[reader] < OFFERED_BYTES:
            await asked.send(FRAME)
            sent[reader] += len(FRAME)

    async with AsyncExitStack() as open_:
        offering = []
        for reader in range(READERS):
            client = await open_.enter_async_context(connected(process.port, receive_bytes=8192))
            await client.send("POST", OPENAI.path, talk("up/m"))
            offering.append(asyncio.ensure_future(offer(await upstream.asked(), reader)))
        taken = -1
        while taken != sum(sent):
            taken = sum(sent)
            for _ in range(ROUNDS):
                assert (await health(process.port))[0] == 200
        assert not any(task.done() for task in offering), "every upstream is paused"
        assert taken < OFFERED_BYTES / 4
        grown = resident_bytes(process) - before
        assert grown < READERS * 6 * MIB, f"{grown / MIB:.1f} MiB for {taken / MIB:.1f} MiB that were taken"
    for task in offering:
        with pytest.raises(ConnectionError):
            await task


ABORTED: Final = 200
AT_ONCE: Final = 20


@pytest.mark.fault("F31", "F32")
async def test_aborted_calls_leave_no_file_open(process: Running, upstream: FakeUpstream) -> None:
    async def abort(number: int) -> None:
        async with calling(process.port, ALL[number % 3].path, talk("up/m")) as client:
            asked = await upstream.asked()
            if number % 2:
                await begin(asked, ROLE, says("word"))
            client.leave()
        await gone(asked)

    async def round_of(calls: int) -> None:
        await asyncio.gather(*(abort(number) for number in range(calls)))
        while (await health(process.port))[1]["inflight"]:
            await asyncio.sleep(0)

    await round_of(AT_ONCE)  # a thread, a file of the store: what is opened once stays
    before = open_files(process)
    for _ in range(ABORTED // AT_ONCE):
        await round_of(AT_ONCE)
    await until(lambda: open_files(process) <= before, f"{before} open files again")


@pytest.mark.fault("F36")
async def test_the_log_is_json_and_says_how_a_call_failed(process: Running, upstream: FakeUpstream) -> None:
    async with calling(process.port, OPENAI.path, talk("up/m")) as client:
        await (await upstream.asked()).answer(500, None, b"")
        answer = await client.answer()
    told = await until(lambda: [line for line in process.log if answer.call_id in line], "the log tells of it")
    line = json.loads(told[0])
    assert (line["event"], line["kind"], line["provider"]) == ("call.ended", "upstream", "up")

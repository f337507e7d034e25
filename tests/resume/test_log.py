"""The log of one answer: what its readers get is a prefix, whoever is slow; what it holds has a bound."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any, Final

import pytest

from rivermouth.log.answer import PIECE_BYTES, AnswerLog, BrokenOffError, Reader, TrimmedError
from rivermouth.log.budget import QUANTUM_BYTES, Budget

pytestmark = pytest.mark.anyio

MIB: Final = 1024 * 1024


def log_of(limit_bytes: int = MIB, total_bytes: int = 4 * MIB) -> AnswerLog:
    log = AnswerLog(Budget(total_bytes), limit_bytes)
    assert log.admit()
    log.start(200, ())
    return log


class Client:
    """A reader whose connection takes bytes at once while it is `open`."""

    def __init__(self, log: AnswerLog, after: int = 0) -> None:
        self.got = bytearray()
        self.open = True
        self.hung_up = False
        self.sent = 0
        self.room = asyncio.Event()
        self.room.set()
        self.reader = Reader(log, after, self._write, self._hang_up)

    def _write(self, data: bytes) -> bool:
        if self.open:
            self.got += data
        return self.open

    def _hang_up(self) -> None:
        self.hung_up = True

    async def read(self) -> bytes:
        """All of it; what is not written at once is sent, and waits for `room`."""
        with self.reader:
            last = False
            while not (last or self.reader.gone):
                data, last = await self.reader.next()
                self.got += data
                self.sent += len(data)
                await self.room.wait()
        return bytes(self.got)


async def turn(times: int = 3) -> None:
    """Lets whoever can go on do so."""
    for _ in range(times):
        await asyncio.sleep(0)


async def test_a_reader_at_the_tail_is_written_to_at_once() -> None:
    log = log_of()
    client = Client(log)
    reading = asyncio.ensure_future(client.read())
    await turn()
    assert log.write(b"one")
    assert client.got == b"one"
    assert log.write(b" two")
    assert client.got == b"one two"
    log.finish(b" three")
    assert client.got == b"one two", "the last bytes go with the end of the answer, which its own task brings"
    assert await reading == b"one two three"
    assert client.sent == len(b" three")


async def test_who_comes_later_gets_what_was_and_what_comes() -> None:
    log = log_of()
    log.write(b"0123456789")
    early, late = Client(log), Client(log, 7)
    both = asyncio.gather(early.read(), late.read())
    await turn()
    log.write(b"abc")
    log.finish(b"")
    assert await both == [b"0123456789abc", b"789abc"]


async def test_a_slow_reader_costs_the_others_nothing() -> None:
    log = log_of()
    slow, fast = Client(log), Client(log)
    slow.open = False
    slow.room.clear()
    both = asyncio.gather(slow.read(), fast.read())
    await turn()
    written = b"".join(b"%d," % number for number in range(20_000))
    for start in range(0, len(written), 100):
        assert log.write(written[start : start + 100])
    assert fast.got == written
    await turn()
    assert slow.sent == PIECE_BYTES or slow.sent <= 100, "one piece, for which its client has no room"
    log.finish(b"")
    slow.room.set()
    assert await both == [written, written]


@pytest.mark.parametrize("seed", range(12))
async def test_any_order_of_things_gives_each_the_rest_from_where_it_began(seed: int) -> None:
    """Writers and readers that come, stop and go on, in every order: nothing is lost, doubled or changed."""
    chance = random.Random(seed)
    log = log_of(limit_bytes=chance.choice([2 * QUANTUM_BYTES, MIB]))
    written = bytearray()
    clients: list[tuple[Client, int, asyncio.Future[bytes]]] = []

    async def write() -> None:
        for number in range(400):
            data = b"%d:%b;" % (number, bytes(chance.randrange(256) for _ in range(chance.choice([1, 9, 300]))))
            written.extend(data)
            if not log.write(data):
                await log.send(data)
            if chance.random() < 0.3:
                await turn(chance.randrange(3))
        log.finish(b"the end")
        written.extend(b"the end")

    writing = asyncio.ensure_future(write())
    while not writing.done():
        if len(clients) < 12 and log.first == 0:
            after = chance.randint(0, log.end)
            client = Client(log, after)
            clients.append((client, after, asyncio.ensure_future(client.read())))
        for client, _, _ in clients:
            client.open = chance.random() < 0.5
            (client.room.set if chance.random() < 0.7 else client.room.clear)()
        await turn(1)
    for client, after, reading in clients:
        client.room.set()
        assert await reading == written[after:]
    assert log.readers == 0


async def test_a_head_is_waited_for() -> None:
    log = AnswerLog(Budget(MIB), MIB)
    client, other = Client(log), Client(log)
    with client.reader, other.reader:
        waiting = asyncio.gather(client.reader.head(), other.reader.head())
        await turn()
        other.reader.leave()
        log.start(503, ((b"retry-after", b"5"),))
        assert await waiting == [True, False]
    assert (log.status, log.headers) == (503, ((b"retry-after", b"5"),))


async def test_a_call_without_a_proper_end_has_none_for_its_readers() -> None:
    log = log_of()
    log.write(b"half")
    client = Client(log)
    reading = asyncio.ensure_future(client.read())
    await turn()
    log.break_off()
    with pytest.raises(BrokenOffError):
        await reading
    assert client.got == b"half"
    with pytest.raises(BrokenOffError):
        await Client(log).read()


class TestBounds:
    async def test_a_full_log_forgets_what_all_have_read(self) -> None:
        log = log_of(limit_bytes=4 * QUANTUM_BYTES)
        client = Client(log)
        reading = asyncio.ensure_future(client.read())
        await turn()
        total = b""
        for number in range(100):
            data = bytes([number]) * 5000
            total += data
            assert log.write(data), "whoever is at the tail has read everything"
            assert log.held_bytes <= 4 * QUANTUM_BYTES
        log.finish(b"")
        assert await reading == total
        assert log.piece(log.first) != b""
        with pytest.raises(TrimmedError):
            log.piece(log.first - 1)

    async def test_what_somebody_has_still_to_read_is_kept_and_its_writer_waits(self) -> None:
        log = log_of(limit_bytes=4 * QUANTUM_BYTES)
        slow, fast = Client(log), Client(log)
        slow.open = False
        slow.room.clear()
        both = asyncio.gather(slow.read(), fast.read())
        await turn()
        data = b"x" * 10_000
        while log.write(data):
            await turn()
        assert log.first == 0
        sending = asyncio.ensure_future(log.send(data))
        await turn()
        assert not sending.done()
        written = log.end
        slow.room.set()
        await sending
        log.finish(b"")
        assert [len(got) for got in await both] == [written, written]

    async def test_nobody_reads_so_nothing_is_forgotten(self) -> None:
        log = log_of(limit_bytes=2 * QUANTUM_BYTES)
        while log.write(b"x" * 1000):
            pass
        sending = asyncio.ensure_future(log.send(b"y" * 1000))
        await turn()
        assert not sending.done()
        assert log.first == 0
        client = Client(log)
        reading = asyncio.ensure_future(client.read())
        await sending
        log.finish(b"")
        assert (await reading).endswith(b"x" + b"y" * 1000)

    async def test_an_end_waits_for_nobody(self) -> None:
        log = log_of(limit_bytes=2 * QUANTUM_BYTES)
        while log.write(b"x" * 1000):
            pass
        log.finish(b"the error that ends it")
        assert log.ended
        assert (await Client(log).read()).endswith(b"the error that ends it")

    async def test_a_writer_that_waits_and_is_cancelled_has_written(self) -> None:
        """What its encoder has said is there, or the next thing that it says would not fit."""
        log = log_of(limit_bytes=2 * QUANTUM_BYTES)
        while log.write(b"x" * 1000):
            pass
        sending = asyncio.ensure_future(log.send(b"y"))
        await turn()
        sending.cancel()
        await asyncio.wait({sending})
        log.finish(b"z")
        assert (await Client(log).read()).endswith(b"xyz")

    async def test_all_logs_together_hold_what_the_budget_says(self) -> None:
        budget = Budget(8 * QUANTUM_BYTES)
        logs = [AnswerLog(budget, MIB) for _ in range(8)]
        assert all(log.admit() for log in logs)
        assert not AnswerLog(budget, MIB).admit()
        clients = [Client(log) for log in logs]
        readings = [asyncio.ensure_future(client.read()) for client in clients]
        for log in logs:
            log.start(200, ())
        await turn()
        for number in range(50):
            for log in logs:
                data = bytes([number]) * 1500
                if not log.write(data):
                    await log.send(data)
            assert budget.taken_bytes <= budget.limit_bytes
        for log in logs:
            log.finish(b"")
        assert {len(await reading) for reading in readings} == {75_000}
        for log in logs:
            log.forget()
        assert budget.taken_bytes == 0

    async def test_room_that_another_log_leaves_wakes_who_waits(self) -> None:
        budget = Budget(2 * QUANTUM_BYTES)
        first, second = AnswerLog(budget, MIB), AnswerLog(budget, MIB)
        assert first.admit()
        assert second.admit()
        for log in (first, second):
            log.start(200, ())
            while log.write(b"x" * 1000):
                pass
        sending = asyncio.ensure_future(second.send(b"y" * 1000))
        await turn()
        assert not sending.done()
        first.break_off()
        first.forget()
        await sending
        assert second.end > QUANTUM_BYTES

    async def test_forgotten_is_forgotten_and_its_readers_are_sent_away(self) -> None:
        log = log_of()
        log.write(b"something")
        client = Client(log)
        client.room.clear()
        reading = asyncio.ensure_future(client.read())
        await turn()
        log.finish(b"")
        log.forget()
        client.room.set()
        await reading
        assert client.hung_up
        assert log.held_bytes == 0
        with pytest.raises(TrimmedError):
            log.piece(0)


async def test_who_watches_is_told_of_the_first_and_of_the_last() -> None:
    log = log_of()
    told: list[str] = []
    note: Callable[[str], Callable[[], Any]] = lambda word: lambda: told.append(word)  # noqa: E731
    log.attended, log.deserted = note("attended"), note("deserted")
    one, two = Client(log), Client(log)
    with one.reader:
        with two.reader:
            assert told == ["attended"]
        assert told == ["attended"]
    assert told == ["attended", "deserted"]

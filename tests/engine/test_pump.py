"""The straight way of a stream that has begun: what it takes, what it leaves to the task, what the record learns."""

from __future__ import annotations

import asyncio
import typing
from collections.abc import Callable
from typing import Final

import pytest

from rivermouth.dialects import discover
from rivermouth.engine.call import Call, Head
from rivermouth.engine.deadlines import Deadlines, Limits
from rivermouth.engine.output import output
from rivermouth.engine.pump import CHECKPOINT_S, CHECKPOINTS_PER_S, Flow, Passage
from rivermouth.engine.tally import NOTES
from rivermouth.ir.errors import ApiError
from rivermouth.ir.events import Event, Finish, PartEnd, PartKind, PartStart, Reason, Start, TextDelta
from rivermouth.ir.grammar import GrammarError
from rivermouth.ir.request import Message, Request, Role, Text
from rivermouth.providers.provider import NO_HEADERS, Batch, Onward
from rivermouth.routing.endpoint import Endpoint
from rivermouth.store.port import CallRecord, Checkpoint
from tests.engine.jumping import jump

WELL: Final[list[Event]] = [Start(), PartStart(0, PartKind.TEXT), TextDelta(0, "well")]
END: Final[list[Event]] = [PartEnd(0), Finish(Reason.STOP)]


class FakeClient:
    """A sink that takes what it is given, or, while `slow`, has to be waited for."""

    started = True

    def __init__(self) -> None:
        self.slow = False
        self.got: list[bytes] = []

    def write(self, data: bytes) -> bool:
        if not self.slow:
            self.got.append(data)
        return not self.slow

    async def send(self, data: bytes, *, last: bool, head: Head) -> None:
        raise AssertionError("the straight way waits for nobody")

    async def document(self, body: bytes, *, head: Head) -> None:
        raise AssertionError("this is a stream")

    async def fail(self, error: ApiError) -> None:
        raise AssertionError("this has begun")

    def hang_up(self) -> None:
        raise AssertionError("nobody hangs up")


class FakeUpstream:
    """Nothing is read from it."""

    headers = NO_HEADERS

    async def read(self, onward: Onward | None = None) -> Batch:
        raise AssertionError("the straight way reads nothing")

    async def close(self) -> None:
        raise AssertionError("the straight way closes nothing")


def passage(
    client: FakeClient, checkpoint: Callable[[Checkpoint], None], draw: float = 1.0, running: int = 1
) -> Passage:
    """The straight way of an Ollama client's call; it must be made on a loop."""
    dialect = discover()["ollama"]
    request = Request(model="m", messages=(Message(Role.USER, (Text("hi"),)),), stream=True)
    route = next(r for r in dialect.routes if r.streams)
    opened = CallRecord(
        id="c", started_ns=0, operation="generate", dialect=dialect.name, surface="", model_asked="m", stream=True
    )
    call = Call(
        opened=opened,
        dialect=dialect,
        surface=dialect.surfaces[0],
        route=route,
        request=request,
        clock_ns=lambda: 0,
    )
    answer = call.answer()
    flow = Flow(
        call=call,
        sink=client,
        line=call.ledger.begin(Endpoint(id="e", provider="p", model="m"), "default"),
        upstream=FakeUpstream(),
        output=output(dialect, answer, stream=True, same_dialect=False),
        answer=answer,
        deadlines=Deadlines(Limits(), 600.0, pytest.fail, None),
        request=request,
        routing_key=None,
        draw=lambda: draw,
        running=lambda: running,
        checkpoint=checkpoint,
    )
    return Passage(flow)


def test_it_takes_what_can_be_written_and_leaves_the_end_untouched() -> None:
    async def run() -> None:
        client = FakeClient()
        way = passage(client, pytest.fail)
        assert way.take(Batch(WELL))
        assert way.take(Batch([]))
        assert not way.take(Batch(END))
        assert not way.take(Batch([TextDelta(0, "!"), *END]))
        assert b"".join(client.got).count(b"well") == 1
        assert not way.unsent

    jump(run())


def test_what_a_slow_client_has_to_be_waited_for_with_is_translated_once_and_nothing_overtakes_it() -> None:
    async def run() -> None:
        client = FakeClient()
        way = passage(client, pytest.fail)
        assert way.take(Batch(WELL))
        client.slow = True
        assert not way.take(Batch([TextDelta(0, "one")]))
        client.slow = False
        assert not way.take(Batch([TextDelta(0, "two")])), "it is offered again when the first has been sent"
        assert b"one" in way.unsent
        assert b"two" not in way.unsent + b"".join(client.got)
        way.unsent = b""
        assert way.take(Batch([TextDelta(0, "two")]))
        assert b"two" in client.got[-1]

    jump(run())


@pytest.mark.parametrize("slow", [False, True])
def test_the_record_is_kept_up_to_date_however_slowly_the_client_reads(slow: bool) -> None:
    async def run() -> None:
        marks: list[Checkpoint] = []
        client = FakeClient()
        way = passage(client, marks.append)
        way.take(Batch(WELL))
        client.slow = slow
        for second in range(1, 6):
            await asyncio.sleep(1)
            way.take(Batch([TextDelta(0, "word")]))
            way.unsent = b""
            assert len(marks) == second // int(CHECKPOINT_S)
        assert [mark.text_chars for mark in marks] == [12, 20]

    jump(run())


def test_streams_that_began_together_do_not_come_to_the_store_together() -> None:
    async def run() -> None:
        marks: list[Checkpoint] = []
        early, late = passage(FakeClient(), marks.append, draw=0.25), passage(FakeClient(), marks.append, draw=0.75)
        counts = []
        for _ in range(9):
            for way in (early, late):
                way.take(Batch([TextDelta(0, "word")] if counts else WELL))
            counts.append(len(marks))
            await asyncio.sleep(CHECKPOINT_S / 4)
        assert counts == [0, 1, 1, 2, 2, 3, 3, 4, 4]

    jump(run())


def test_many_streams_together_come_to_the_store_no_oftener_than_it_bears() -> None:
    async def run() -> None:
        marks: list[Checkpoint] = []
        way = passage(FakeClient(), marks.append, running=1000)
        way.take(Batch(WELL))
        for second in range(1, 41):
            await asyncio.sleep(1)
            way.take(Batch([TextDelta(0, "word")]))
            assert len(marks) == second // int(1000 / CHECKPOINTS_PER_S)

    jump(run())


def test_an_order_that_the_grammar_forbids_goes_no_further() -> None:
    async def run() -> None:
        client = FakeClient()
        with pytest.raises(GrammarError):
            passage(client, pytest.fail).take(Batch([TextDelta(0, "x")]))
        assert client.got == []

    jump(run())


def test_every_event_is_noted() -> None:
    assert set(NOTES) == set(typing.get_args(Event))

"""Calls of one model beside each other: what they share, and what one may not do to the others."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.request import Format, Message, Request, ResponseFormat, Role, Text, ToolCall
from rivermouth.local.machine.pool import Limits
from rivermouth.local.provider import LocalProvider
from tests.local.asking import ask, asking, begin, pid_of, some_text, text_of, usage_of, whole
from tests.tiny_gguf import SCRIPT

pytestmark = pytest.mark.anyio


async def test_streams_run_at_once(local: LocalProvider) -> None:
    """The endless one goes on while the others begin and end."""
    endless = await begin(local, "loop", asking())
    await some_text(endless)
    answers = await asyncio.gather(*(ask(local, "loop", asking(max_tokens=n)) for n in (3, 4, 5)))
    assert [text_of(events) for events in answers] == ["".join(SCRIPT[:n]) for n in (3, 4, 5)]
    assert not endless._generation.closed.is_set()
    await endless.close()


async def test_more_calls_than_slots_wait_their_turn(local: LocalProvider) -> None:
    answers = await asyncio.gather(*(ask(local, "tiny", asking(max_tokens=n)) for n in range(1, 7)))
    assert [usage_of(events).output_tokens for events in answers] == [1, 2, 3, 4, 5, 6]


async def test_a_full_queue_is_refused_with_a_time_to_come_back(
    local: LocalProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local.pool, "limits", Limits(max_waiting=0))
    held = [await begin(local, "loop", asking()) for _ in range(4)]
    with pytest.raises(ApiError) as refused:
        await begin(local, "loop", asking())
    assert refused.value.kind is Kind.OVERLOADED
    assert refused.value.retry_after_s
    for upstream in held:
        await upstream.close()
    assert text_of(await ask(local, "loop", asking(max_tokens=1))) == "Hello"


async def test_the_wait_for_a_slot_is_over_before_the_call_s_clocks_start(local: LocalProvider) -> None:
    """They start when `prepare` returns; `open` then waits for nothing."""
    held = [await begin(local, "loop", asking()) for _ in range(4)]
    waiting = asyncio.create_task(local.prepare(asking(max_tokens=1), "loop"))
    while local.pool.statistics()["waiting"] != 1:
        await asyncio.sleep(0)
    assert not waiting.done()
    await held.pop().close()
    with await waiting as lease:
        upstream = await local.open(asking(max_tokens=1), "loop", lease, same_dialect=False, warn=print)
    assert local.pool.statistics()["active"] == 4
    assert text_of(await whole(upstream)) == "Hello"
    for endless in held:
        await endless.close()
    assert local.pool.statistics()["active"] == 0


async def test_who_leaves_while_waiting_or_before_opening_leaves_nothing(local: LocalProvider) -> None:
    held = [await begin(local, "loop", asking()) for _ in range(4)]
    waiting = asyncio.create_task(local.prepare(asking(), "loop"))
    while local.pool.statistics()["waiting"] != 1:
        await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert (local.pool.statistics()["active"], local.pool.statistics()["waiting"]) == (4, 0)
    for upstream in held:
        await upstream.close()
    lease = await local.prepare(asking(), "loop")
    assert local.pool.statistics()["active"] == 1
    lease.close()
    assert local.pool.statistics()["active"] == 0


@pytest.mark.parametrize("killer", [signal.SIGKILL, signal.SIGSEGV])
@pytest.mark.fault("F10", "F16")
async def test_a_crash_fails_its_calls_and_the_next_is_answered(local: LocalProvider, killer: signal.Signals) -> None:
    calls = [await begin(local, "loop", asking()) for _ in range(2)]
    for call in calls:
        await some_text(call)
    first = pid_of(local, "loop")
    os.kill(first, killer)
    for call in calls:
        with pytest.raises(ApiError) as died:
            await whole(call)
        assert died.value.kind is Kind.UPSTREAM
        assert died.value.message == f"engine process died ({killer.name})"
    assert text_of(await ask(local, "loop", asking(max_tokens=2))) == "Hello from"
    assert pid_of(local, "loop") != first
    local.pool._crashes.clear()


def big(kind: str) -> Request:
    """A request of which one part is far too big."""
    text = Message(Role.USER, (Text("Hi"),))
    match kind:
        case "stop":
            return asking(stop=("a" * 5_000_000,))
        case "stops":
            return asking(stop=("a",) * 65)
        case "schema":
            schema = {"type": "object", "description": "d" * 5_000_000}
            return asking(response_format=ResponseFormat(Format.JSON_SCHEMA, schema=schema))
        case "arguments":
            call = ToolCall(id="1", name="f", arguments='{"a":"' + "x" * 5_000_000 + '"}')
            return asking(messages=(text, Message(Role.ASSISTANT, (call,)), text))
        case _:
            return asking("\x01" * 1_300_000)


@pytest.mark.parametrize(
    ("kind", "param"),
    [
        ("stop", "stop"),
        ("stops", "stop"),
        ("schema", "response_format"),
        ("arguments", "messages"),
        ("controls", "messages"),
    ],
)
@pytest.mark.fault("F10")
async def test_a_request_that_is_too_big_costs_its_client_alone(local: LocalProvider, kind: str, param: str) -> None:
    endless = await begin(local, "loop", asking())
    await some_text(endless)
    with pytest.raises(ApiError) as refused:
        await ask(local, "loop", big(kind))
    assert refused.value.kind is Kind.INVALID_REQUEST
    assert refused.value.param == param
    assert await some_text(endless)
    await endless.close()


async def test_a_schema_that_would_end_the_engine_is_refused(local: LocalProvider) -> None:
    await ask(local, "tiny", asking(max_tokens=1))
    first = pid_of(local, "tiny")
    wanted = ResponseFormat(Format.JSON_SCHEMA, schema={"type": "nonsense"})
    with pytest.raises(ApiError) as refused:
        await ask(local, "tiny", asking(response_format=wanted))
    assert refused.value.param == "response_format"
    assert text_of(await ask(local, "tiny", asking(max_tokens=1))) == "Hello"
    assert pid_of(local, "tiny") == first

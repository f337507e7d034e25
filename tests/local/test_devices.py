"""The list of devices: asked for once, in a process that may crash, and never by the server itself."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from rivermouth.local.machine import devices
from rivermouth.local.machine.devices import ASK_AGAIN_S, Devices, Seen, ask_engine, look

pytestmark = pytest.mark.anyio

ALL = ("CPU", "GPU.0", "GPU.1", "NPU")


class FakeMachine:
    """Says what the test wants, when it may."""

    def __init__(self, *answers: Seen) -> None:
        self.answers = list(answers)
        self.asked = 0
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def __call__(self) -> Seen:
        self.asked += 1
        await self.may_answer.wait()
        return self.answers.pop(0)


async def test_the_machine_is_asked_once() -> None:
    machine = FakeMachine(Seen(ALL))
    found = Devices(machine)
    machine.may_answer.clear()
    asking = [asyncio.create_task(found.present()) for _ in range(3)]
    await asyncio.sleep(0)
    asking[0].cancel()
    await asyncio.wait([asking[0]])
    machine.may_answer.set()
    assert [await task for task in asking[1:]] == [ALL, ALL]
    assert await found.present() == ALL
    assert machine.asked == 1


async def test_without_an_answer_there_is_the_cpu_and_it_is_asked_again_later() -> None:
    now = [0.0]
    machine = FakeMachine(Seen(failure="a driver crashed"), Seen(ALL))
    found = Devices(machine, clock=lambda: now[0])
    assert await found.present() == ("CPU",)
    now[0] = ASK_AGAIN_S - 1
    assert await found.present() == ("CPU",)
    assert machine.asked == 1
    now[0] = ASK_AGAIN_S
    assert await found.present() == ALL
    assert machine.asked == 2


async def test_a_server_that_stops_waits_for_no_driver() -> None:
    machine = FakeMachine(Seen(ALL))
    machine.may_answer.clear()
    found = Devices(machine)
    asking = asyncio.create_task(found.present())
    await asyncio.sleep(0)
    await found.close()
    assert await asking == ("CPU",)
    await found.close()


async def test_the_engine_is_asked_in_a_process_of_its_own() -> None:
    before = "openvino" in sys.modules
    seen = await ask_engine()
    assert not seen.failure
    assert "CPU" in seen.devices
    assert ("openvino" in sys.modules) == before


async def test_a_process_that_ends_without_an_answer_is_a_failure_with_its_status() -> None:
    assert (await ask_engine(module="rivermouth.local.nowhere")).failure.endswith("ended with status 1")


async def test_a_process_that_hangs_is_ended() -> None:
    assert (await ask_engine(ask_s=0)).failure == "no answer within 0 s"


@pytest.mark.skipif(sys.platform != "linux", reason="the nodes are Linux's")
async def test_where_no_accelerator_has_a_node_nothing_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = FakeMachine(Seen(ALL))
    monkeypatch.setattr(devices, "ask_engine", machine)
    monkeypatch.setattr(devices, "NODES", (tmp_path / "dri", tmp_path / "accel"))
    assert await look() == Seen(("CPU",))
    assert machine.asked == 0
    (tmp_path / "accel").mkdir()
    assert await look() == Seen(ALL)

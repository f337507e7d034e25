"""A child that is killed, stopped or crashes in the middle of an answer, under a whole server: who notices what.

Each fault happens once in the suite, and eight times in a row in `make fault`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rivermouth.local.models.registry import Registry
from rivermouth.store.port import Status
from rivermouth.wire import json
from tests.engine.client import asking, calling
from tests.engine.lab import Lab, lab, until
from tests.local.asking import install
from tests.thorough import THOROUGH
from tests.tiny_gguf import TEXT

TIMES = 8 if THOROUGH else 1
CONFIG = '[local]\ndevices = ["CPU"]\nstep_s = 1\n'
LAG_P99_S = 0.1
LAG_WORST_S = 0.9  # a loop that waited for the process would be late by `step_s`; a busy machine is by less
EACH_S = 12.0
PATH = "/api/generate"

pytestmark = [pytest.mark.anyio, pytest.mark.thorough(quick=True), pytest.mark.timeout(30 + int(EACH_S * TIMES))]


@pytest.fixture
async def server(tmp_path: Path, files: dict[str, Path]) -> AsyncIterator[Lab]:
    """With two models: the one that is hurt, and one that is not."""
    registry = Registry(tmp_path / "data" / "models")
    for name in ("loop", "tiny"):
        install(registry, name, files[name])
    with lab(tmp_path, CONFIG) as made:
        yield made


def body(model: str, tokens: int) -> dict[str, object]:
    return {"model": model, "prompt": "Hi", "stream": True, "options": {"num_predict": tokens}}


async def whole(server: Lab, model: str, tokens: int) -> tuple[str, str]:
    """The call's id, and the whole text."""
    async with asking(server.port, PATH, body(model, tokens)) as answer:
        frames = [json.decode(line) for line in (await answer.rest()).splitlines()]
        assert frames[-1]["done"] is True, frames[-1]
        return answer.call_id, "".join(frame["response"] for frame in frames)


def pid_of(server: Lab, model: str) -> int:
    def find() -> int:
        running = server.inside.services.local.pool._loaded.values()
        (pid,) = (one.engine.pid for one in running if one.model.name.name == model)
        return pid

    return server.on_loop(find)


class Lag:
    """How late the server's loop is, asked again and again."""

    def __init__(self, server: Lab) -> None:
        self.seen: list[float] = []
        self._loop = server.inside.loop
        self._over = False

    async def watch(self) -> None:
        here = asyncio.get_running_loop()
        while not self._over:
            asked, answered = time.monotonic(), here.create_future()

            def told(to: asyncio.Future[float] = answered) -> None:
                here.call_soon_threadsafe(to.set_result, time.monotonic())

            self._loop.call_soon_threadsafe(told)
            self.seen.append(await answered - asked)
            await asyncio.sleep(0.005)

    def stop(self) -> None:
        self._over = True

    @property
    def p99(self) -> float:
        return sorted(self.seen)[int(len(self.seen) * 0.99) - 1]


@pytest.mark.fault("F10", "F16", "F31", "F34")
@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (signal.SIGKILL, "engine process died (SIGKILL)"),
        (signal.SIGSEGV, "engine process died (SIGSEGV)"),
        (signal.SIGSTOP, "no step for 1 s"),
    ],
    ids=lambda value: value.name if isinstance(value, signal.Signals) else "",
)
async def test_a_child_that_is_hurt_in_the_middle_of_an_answer_costs_that_answer_alone(
    server: Lab, fault: signal.Signals, words: str
) -> None:
    ids: dict[str, Status] = {}
    await whole(server, "tiny", 3)
    lag = Lag(server)
    watching = asyncio.ensure_future(lag.watch())
    for _ in range(TIMES):
        call_id, text = await whole(server, "loop", 3)
        ids[call_id] = Status.COMPLETED
        assert text == "Hello from a"
        async with calling(server.port, PATH, body("loop", 2000)) as client:
            answer = await client.answer()
            await answer.until(b'"response":"Hello"')
            hurt = pid_of(server, "loop")
            os.kill(hurt, fault)
            last = json.decode((await answer.rest()).splitlines()[-1])
            ids[answer.call_id] = Status.FAILED
        assert words in last["error"], last
        assert "done" not in last
        call_id, text = await whole(server, "tiny", 100)
        ids[call_id] = Status.COMPLETED
        assert text == TEXT, "the other model is there as if nothing had been"
        with pytest.raises(ProcessLookupError):
            os.kill(hurt, 0)
    call_id, text = await whole(server, "loop", 3)
    ids[call_id] = Status.COMPLETED
    lag.stop()
    await watching
    assert lag.p99 < LAG_P99_S
    assert max(lag.seen) < LAG_WORST_S
    await until(lambda: all(r.status is not Status.OPEN for r in server.records()), "every record is final")
    found = {record.id: record.status for record in server.records()}
    assert len(found) == len(server.records()) == len(ids) + 1
    assert {call_id: found[call_id] for call_id in ids} == ids
    crashes = [line for line in server.log if line["event"] == "engine.crashed"]
    assert [line["model"] for line in crashes] == ["loop:latest"] * TIMES
    assert server.inside.services.local.pool.statistics()["active"] == 0

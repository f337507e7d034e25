"""Many resumable streams at once: what their logs hold has its bound, and so has what the process takes for them.

The server is a process of its own, so what it holds can be measured.  In the suite 30 streams; `make fault LINE=F35`
takes 1,000.  A part of the clients reads to the end, one leaves in the middle and comes back, one leaves for good.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import resource
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.engine import client
from tests.engine.client import asking, calling
from tests.engine.words import END, OPENAI, PLAIN, ROLE, begin, provider, says
from tests.fakes import Asked, FakeUpstream
from tests.running import Running, running

pytestmark = pytest.mark.anyio

THOROUGH: Final = bool(os.environ.get("RIVERMOUTH_THOROUGH"))
MIB: Final = 1024 * 1024
WISH: Final = {"x-rivermouth-resumable": "1; grace=1"}
PER_CALL_BYTES: Final = 96 * 1024
"""What a call and its connection take beside the log: tasks, buffers, the request and its record."""
SPARE: Final = 1.25
"""An array that grows is an eighth larger than what is in it, and is copied when it moves."""


class Load(NamedTuple):
    """words: of each answer, at about 220 bytes on the wire."""

    streams: int
    words: int
    total_bytes: int


SMALL: Final = Load(30, 300, MIB)
LARGE: Final = Load(1_000, 300, 16 * MIB)


def config(load: Load, url: str) -> str:
    limits = f"call_bytes = {MIB}\ntotal_bytes = {load.total_bytes}\n"
    return f"{PLAIN}[timeouts]\ntotal_s = 600\n[resume]\n{limits}{provider('up', url)}"


def word(number: str, at: int) -> str:
    return f"{number}-{at} "


async def tells(asked: Asked) -> None:
    """An upstream that says as many words as it is asked for, ten at a time."""
    number, _, words = json.loads(asked.body)["messages"][0]["content"].partition(" ")
    with suppress(ConnectionError):
        await begin(asked, ROLE)
        for at in range(0, int(words), 10):
            await asked.send(b"".join(says(word(number, n)) for n in range(at, at + 10)))
        await asked.end(END)


async def held(server: Running) -> dict[str, float]:
    async with asking(server.port, "/metrics", method="GET") as answer:
        page = (await answer.rest()).decode()
    return {name: float(value) for name, value in re.findall(r"^(rivermouth_resume\S*) (\S+)$", page, re.M)}


def process_bytes(server: Running, what: str) -> int:
    status = Path(f"/proc/{server.process.pid}/status").read_text(encoding="ascii")
    return int(re.search(rf"{what}:\s+(\d+) kB", status)[1]) * 1024  # type: ignore[index]


async def stream(server: Running, number: int, words: int) -> str:
    """How one client fares: "whole", "resumed", "gone" or "left"."""
    text = "".join(word(str(number), at) for at in range(words))
    body = {"model": "up/m", "messages": [{"role": "user", "content": f"{number} {words}"}], "stream": True}
    async with calling(server.port, OPENAI.path, body, WISH) as caller:
        answer = await caller.answer()
        if number % 3 == 0:
            whole = await answer.rest()
            assert OPENAI.text(whole) == text
            return "whole"
        while len(answer.body) < 5_000:
            await answer.more()
    if number % 3 == 1 or "x-rivermouth-resume" not in answer.headers:
        return "left"
    address = f"{answer.headers['x-rivermouth-resume']}?after={len(answer.body)}"
    async with asking(server.port, address, method="GET") as again:
        rest = await again.rest()
    if again.status == 410:
        return "gone"
    assert OPENAI.text(answer.body + rest) == text
    return "resumed"


@pytest.mark.fault("F35")
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="what a process holds is read from /proc")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("load", [SMALL, pytest.param(LARGE, marks=pytest.mark.skipif(not THOROUGH, reason="minutes"))])
async def test_what_many_streams_hold_has_a_bound(tmp_path: Path, load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "DEADLINE_S", 300.0)  # all of them, and both of their ends, on one core
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4_096)), hard))
    async with FakeUpstream(tells) as upstream:
        with running(tmp_path, config(load, upstream.url), scripted=False) as server:
            await stream(server, 0, load.words)
            await held(server)  # what it imports with the first of these is no stream's
            before = process_bytes(server, "VmRSS")
            tasks = [asyncio.create_task(stream(server, n, load.words)) for n in range(load.streams)]
            most = 0.0
            while not all(task.done() for task in tasks):
                seen = await held(server)
                most = max(most, seen["rivermouth_resume_bytes"])
                await asyncio.wait(tasks, timeout=0.05)
            ends = [await task for task in tasks]
            grown = process_bytes(server, "VmHWM") - before
            print(f"{load}: {most / MIB:.1f} MiB held, {grown / MIB:.1f} MiB more, {len(set(ends))} ways")  # noqa: T201
    assert ends.count("whole") == len(range(0, load.streams, 3))
    assert "resumed" in ends
    assert most <= load.total_bytes + load.streams * 64 * 1024, "the sum, and what one read of each brings"
    assert grown < SPARE * load.total_bytes + load.streams * PER_CALL_BYTES

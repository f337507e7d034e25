"""One run: an agent in a home of its own, against a server, and what came of it.  Bounded in time."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from rivermouth.store.datadir import DataDir
from rivermouth.store.port import CallFilter, Status
from rivermouth.store.sqlite import SqliteCallStore
from tests.agents import leftovers
from tests.agents.agents import Agent, Place
from tests.agents.cases import HOLD_S, Case, Rescue
from tests.agents.fence import Fence
from tests.agents.judge import Outcome
from tests.agents.task import COPY_FILE, WORD_FILE
from tests.agents.upstream import Run, TaskUpstream
from tests.running import Running, running

RUN_S: Final = 120.0
START_S: Final = 90.0
CLOCK_S: Final = 5
"""The server's clocks for the first token and for silence."""
RECORDED_S: Final = 10.0
CALLS_CAP: Final = 1000
"""More than the records of any run; a run with that many is a loop."""
KEPT: Final = ("PATH", "LANG", "LC_ALL", "TZ")
DIALECTS: Final = {"openai": "openai_chat", "anthropic": "anthropic"}


class Finished(msgspec.Struct, frozen=True):
    """A run that is over.  log: what the agent wrote, for whoever has to find out why."""

    outcome: Outcome
    took_s: float
    log: str


@contextmanager
def server(
    folder: Path, upstreams: Mapping[str, TaskUpstream], names: Mapping[str, str], rescue: Rescue
) -> Iterator[Running]:
    """A real server between.  names: the model of each of its runs, and that run's upstream."""
    retries = 0 if rescue is Rescue.NONE else 2
    config = f"[resilience]\nretries = {retries}\n[timeouts]\nfirst_token_s = {CLOCK_S}\nidle_s = {CLOCK_S}\n"
    config += f"hold_s = {HOLD_S}\n" if rescue is Rescue.SHOWN else ""
    endpoints = ("first", "second") if rescue is Rescue.SPARE else ("first",)
    for upstream, fake in upstreams.items():
        for each in endpoints:
            config += f'[providers.{each}-{upstream}]\ndialect = "{DIALECTS[upstream]}"\nbase_url = "{fake.url}/v1"\n'
            config += 'api_key = "a-key-of-the-server"\n'
    for name, upstream in names.items():
        config += f"[models.{name}]\nendpoints = {[f'{each}-{upstream}/{name}' for each in endpoints]}\n"
    folder.mkdir()
    with running(folder, config, scripted=False, start_s=START_S) as one:
        yield one


async def run(agent: Agent, case: Case, fake: TaskUpstream, between: Running, name: str) -> Finished:
    """The agent does the task with the model of that name, which is this run's alone."""
    clock = asyncio.get_running_loop().time
    began = clock()
    word = f"rivermouth-{name}"
    asked = fake.runs[name] = Run(case.fault)
    strangers = len(fake.strangers)
    with tempfile.TemporaryDirectory(prefix="agent-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        work = home / "work"
        work.mkdir()
        (work / WORD_FILE).write_text(f"{word}\n", encoding="ascii")
        place = Place(between.url, name, home, work)
        async with Fence() as fence:
            try:
                exit_code, output, log = await _process(agent, place, fence.url)
            finally:
                left = await leftovers.end(home)
        copy = work / COPY_FILE
        copied = copy.read_text(encoding="ascii").strip() if copy.exists() else None
    attempts, failed = await _recorded(between, name)
    outcome = Outcome(
        word=word,
        exit_code=exit_code,
        heard=agent.heard(output),
        copied=copied,
        posts=tuple(asked.posts),
        attempts=attempts,
        failed=failed,
        left=left,
        outside=tuple(fence.wanted),
        unlocated=tuple(fake.strangers[strangers:]),
    )
    return Finished(outcome, clock() - began, f"{output}\n{log}")


async def _process(agent: Agent, place: Place, way_out: str) -> tuple[int | None, str, str]:
    """The exit code, or None when it had to be ended; what it wrote to each side."""
    launch = agent.launch(place)
    for path, text in launch.files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    variables = {name: os.environ[name] for name in KEPT if name in os.environ}
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        variables |= {name: way_out, name.lower(): way_out}
    variables |= {"NO_PROXY": "127.0.0.1,localhost", "no_proxy": "127.0.0.1,localhost", "HOME": str(place.home)}
    program = await asyncio.create_subprocess_exec(
        *map(str, launch.command),
        cwd=place.work,
        env={**variables, **launch.variables},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    said = asyncio.ensure_future(program.communicate())
    done, _ = await asyncio.wait({said}, timeout=RUN_S)
    if not done:
        os.killpg(program.pid, signal.SIGKILL)
    output, log = (each.decode("utf-8", "replace") for each in await said)
    return (program.returncode if done else None), output, log


async def _recorded(between: Running, model: str) -> tuple[int, int]:
    """How many attempts the records of this run have, and how many of its calls failed; once all of them are final."""
    store = SqliteCallStore.reader(DataDir(between.data).database)
    clock = asyncio.get_running_loop().time
    ends_at = clock() + RECORDED_S
    try:
        while True:
            calls = store.list(CALLS_CAP, CallFilter(model=model))
            if all(call.status is not Status.OPEN for call in calls) or clock() > ends_at:
                return sum(len(call.attempts) for call in calls), sum(call.status is Status.FAILED for call in calls)
            await asyncio.sleep(0.05)
    finally:
        store.dispose()

"""Drives the coding agents through a real server to scripted upstreams, and says what came of it.

    python -m tests.agents                                      everything; writes docs/agents-results.md if all passed
    python -m tests.agents --agent Codex --case stall --log     some of it, with what the agents wrote

Needs the packages of tests/agents/package-lock.json, which npm brings the first time.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import itertools
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from rivermouth.dialects import discover
from tests.agents import packages
from tests.agents.agents import AGENTS, Agent
from tests.agents.cases import CASES, Case, Rescue
from tests.agents.judge import faults_of
from tests.agents.report import HEAD, Row, lines, write
from tests.agents.run import DIALECTS, Finished, run, server
from tests.agents.upstream import TaskUpstream
from tests.running import Running
from tests.sdk.node import NoPackages

AT_ONCE: Final = 2
"""Agents that run side by side."""

Job = tuple[Agent, str, Case]


def jobs(agents: Sequence[str], upstreams: Sequence[str], cases: Sequence[str]) -> list[Job]:
    """What is to be run, of the agents whose dialect the server has.  Nothing named is everything."""
    served = discover()
    return [
        (agent, upstream, case)
        for agent, upstream, case in itertools.product(AGENTS, DIALECTS, CASES)
        if agent.dialect in served
        and (not agents or agent.name in agents)
        and (not upstreams or upstream in upstreams)
        and (not cases or case.name in cases)
    ]


async def everything(wanted: Sequence[Job], *, log: bool) -> list[Row]:
    """Runs all of it, a few at once; a line for each as it ends."""
    async with AsyncExitStack() as stack:
        fakes = {name: await stack.enter_async_context(TaskUpstream(name)) for name in DIALECTS}
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="agents-")))
        named = {f"run-{number}": job for number, job in enumerate(wanted, 1)}
        servers = {
            rescue: stack.enter_context(server(folder / rescue, fakes, _models(named, rescue), rescue))
            for rescue in Rescue
            if _models(named, rescue)
        }
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(name: str, job: Job) -> Row:
            _, upstream, case = job
            async with gate:
                return await _row(name, job, fakes[upstream], servers[case.rescue], log=log)

        return list(await asyncio.gather(*(one(name, job) for name, job in named.items())))


def _models(named: Mapping[str, Job], rescue: Rescue) -> dict[str, str]:
    """The names of the runs against that server, and the upstream of each."""
    return {name: upstream for name, (_, upstream, case) in named.items() if case.rescue is rescue}


async def _row(name: str, job: Job, fake: TaskUpstream, between: Running, *, log: bool) -> Row:
    agent, upstream, case = job
    finished = await run(agent, case, fake, between, name)
    seen = finished.outcome
    faults = tuple(faults_of(agent, case, seen))
    row = Row(agent, upstream, case, faults, sum(post.of_the_task for post in seen.posts), finished.took_s)
    print("  ".join(row.cells()), flush=True)  # noqa: T201
    if log or faults:
        _explain(finished)
    return row


def _explain(finished: Finished) -> None:
    """What may tell why."""
    for post in finished.outcome.posts:
        task = "task" if post.of_the_task else "aside"
        print(f"    {task}: struck={post.struck} streams={post.streams} said={post.seen.said}")  # noqa: T201
    for line in finished.log.splitlines():
        print(f"    {line[:2000]}")  # noqa: T201


def main() -> int:
    asked = argparse.ArgumentParser(
        prog="python -m tests.agents", description=__doc__.splitlines()[0] if __doc__ else ""
    )
    asked.add_argument("--agent", action="append", default=[], choices=[agent.name for agent in AGENTS])
    asked.add_argument("--upstream", action="append", default=[], choices=list(DIALECTS))
    asked.add_argument("--case", action="append", default=[], choices=[case.name for case in CASES])
    asked.add_argument("--log", action="store_true", help="what each agent wrote, also where it passed")
    told = asked.parse_args()
    try:
        packages.install()
    except NoPackages as error:
        sys.stderr.write(f"{error}\n")
        return 1
    wanted = jobs(told.agent, told.upstream, told.case)
    rows = asyncio.run(everything(wanted, log=told.log))
    print("", *lines([HEAD, *(row.cells() for row in rows)]), sep="\n")  # noqa: T201
    failed = sum(bool(row.faults) for row in rows)
    print(f"\n{len(rows) - failed} of {len(rows)} runs passed")  # noqa: T201
    whole = not (told.agent or told.upstream or told.case)
    if whole and rows and not failed:
        write(rows, datetime.datetime.now(datetime.UTC).date().isoformat())
    return 1 if failed or not rows else 0


if __name__ == "__main__":
    sys.exit(main())

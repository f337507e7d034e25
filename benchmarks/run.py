#!/usr/bin/env python3
"""Measures Rivermouth beside nginx, in one run on one machine, and writes docs/benchmarks.md.

The gateway has core 0 to itself; the fake upstream and the load generator share core 1.  Every stream is checked byte
by byte.  Absolute times move with the machine: the ratios to nginx, which relays without parsing, are what counts.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import report
import targets
from scenarios import SCENARIOS, WARM_UP, Measured, least_disturbed, load

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
SETTLE_S = 5.0


def build() -> None:
    """The C programs, and the proof that the checker sees bad streams."""
    subprocess.run(["make", "--silent", "-C", str(targets.HERE)], check=True)


def allow_many_files() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def growth(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    return {name: after[name] - before[name] for name in ("requests", "events", "chunks", "cut")}


def settled(port: int) -> dict[str, int]:
    """The upstream's statistics once it is sending nothing, or after a while: a stream that nobody stopped shows."""
    deadline = time.monotonic() + SETTLE_S
    counts = targets.statistics(port)
    while counts["open"] and time.monotonic() < deadline:
        time.sleep(0.1)
        counts = targets.statistics(port)
    return counts


class Bench:
    """One run: an upstream that is up, where things are pinned, how long each load takes."""

    def __init__(self, upstream: int, gateway_core: int | None, load_core: int | None, factor: float) -> None:
        self.upstream = upstream
        self.gateway_core = gateway_core
        self.load_core = load_core
        self.factor = factor

    @contextlib.contextmanager
    def target(self, name: str) -> Iterator[targets.Target]:
        """A gateway in a process of its own, warmed up."""
        with (
            tempfile.TemporaryDirectory(prefix="bench-") as place,
            targets.STARTERS[name](self.upstream, self.gateway_core, Path(place)) as target,
        ):
            for client in WARM_UP.formats:
                if client in target.ways:
                    load(target, WARM_UP, client, self.load_core, 1.0)
            yield target

    def measure(self, target: targets.Target, key: str, client: str) -> Measured:
        """One run."""
        before = settled(self.upstream)
        result = load(target, SCENARIOS[key], client, self.load_core, self.factor)
        measured = Measured(key, client, target.name, result, growth(before, settled(self.upstream)))
        print(f"{target.name} {key} {client}: {result} {measured.upstream}", file=sys.stderr)
        return measured

    def compare(self, target: targets.Target, key: str, client: str) -> Measured:
        """One run, and before it one with the client that it is to be compared with, if there is one."""
        other = SCENARIOS[key].beside
        if other is None or other == client or other not in target.ways:
            return self.measure(target, key, client)
        beside = self.measure(target, key, other).result
        return replace(self.measure(target, key, client), beside=beside)

    def in_turns(self, up: list[targets.Target], key: str) -> Iterator[Measured]:
        """The load with every client at every target that serves it.

        All of them in each round: a bad minute of the machine is then one round of each, and not every round of one.
        """
        scenario = SCENARIOS[key]
        asked = [target for target in up if target.pids or scenario.direct]
        served = [(target, client) for client in scenario.formats for target in asked if client in target.ways]
        rounds = [[self.compare(target, key, client) for target, client in served] for _ in range(scenario.rounds)]
        for of_one in zip(*rounds, strict=True):
            yield least_disturbed(of_one, scenario.by)

    def run(self, names: list[str], keys: list[str]) -> Iterator[Measured]:
        """Every chosen load with every client that a target serves; what needs it in a fresh process."""
        with contextlib.ExitStack() as stack:
            up = [stack.enter_context(self.target(name)) for name in names]
            for key in keys:
                if not SCENARIOS[key].fresh:
                    yield from self.in_turns(up, key)
        for name, key in itertools.product(names, keys):
            for client in SCENARIOS[key].formats if SCENARIOS[key].fresh else ():
                with self.target(name) as target:
                    if client in target.ways:
                        yield self.measure(target, key, client)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="scenarios, as in A,B,close", default=",".join(SCENARIOS))
    parser.add_argument("--targets", help="of direct, nginx, rivermouth", default="direct,nginx,rivermouth")
    parser.add_argument("--quick", action="store_true", help="a quarter of the time, for a first look")
    parser.add_argument("--no-write", action="store_true", help="print the tables, leave the page alone")
    return parser.parse_args()


def asked() -> str:
    """The command that gave this run."""
    return f'make bench ARGS="{" ".join(sys.argv[1:])}"' if sys.argv[1:] else "make bench"


def main() -> int:
    arguments = parse_arguments()
    keys = [key for key in SCENARIOS if key in arguments.only.split(",")]
    names = arguments.targets.split(",")
    build()
    allow_many_files()
    pinned = (os.cpu_count() or 1) >= 2
    gateway_core, load_core = (0, 1) if pinned else (None, None)
    if "nginx" in names and targets.nginx_binary() is None:
        print("nginx is not installed: measuring without the yardstick", file=sys.stderr)
        names.remove("nginx")
    measured: list[Measured] = []
    with targets.upstream(load_core) as port:
        bench = Bench(port, gateway_core, load_core, 0.25 if arguments.quick else 1.0)
        measured += bench.run(names, keys)
    text = report.results(measured, asked(), pinned)
    print(text)
    if not arguments.no_write:
        report.write(PAGE, text)
    return 0 if all(m.errors == 0 for m in measured) else 1


if __name__ == "__main__":
    sys.exit(main())

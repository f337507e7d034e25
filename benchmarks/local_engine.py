#!/usr/bin/env python3
"""Measures the local engine with the real small model, and writes its part of docs/benchmarks.md.

The model is taken from the data directory of this user, or of --data-dir; where it is not there, it is pulled into a
place of its own.  What is made of it is made anew, in a place of its own too, so the first load is a cold one.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import http.client
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import targets
from sections import Line, measured, put

from rivermouth.ir.errors import ApiError
from rivermouth.ir.events import Finish, TextDelta, Usage
from rivermouth.ir.request import Local, Message, Request, Role, Sampling, Text
from rivermouth.local.machine.places import Limits
from rivermouth.local.models.catalog import SMOLLM2
from rivermouth.local.models.registry import Registry
from rivermouth.local.provider import LocalProvider
from rivermouth.store.datadir import DataDir

MODEL = str(SMOLLM2.name)
STREAMS = 16
TOKENS = 96
PREFIX_WORDS = 1_200
WARM_STARTS = 5
WORDS = [
    "the",
    "quick",
    "brown",
    "fox",
    "jumps",
    "over",
    "a",
    "lazy",
    "dog",
    "while",
    "seven",
    "wizards",
    "brew",
    "strange",
    "potions",
    "near",
    "old",
    "castle",
    "walls",
    "and",
    "tell",
    "long",
    "tales",
    "of",
    "rivers",
    "that",
    "run",
    "through",
    "quiet",
    "valleys",
    "under",
    "grey",
    "winter",
    "skies",
]


def asking(text: str, tokens: int = TOKENS) -> Request:
    messages = (Message(Role.USER, (Text(text),)),)
    return Request(
        model=MODEL,
        messages=messages,
        stream=True,
        max_tokens=tokens,
        sampling=Sampling(temperature=0.0),
        local=Local(keep_alive_s=-1),
    )


async def events(local: LocalProvider, request: Request) -> AsyncIterator[object]:
    """One answer, whole, straight from the provider."""
    with await local.prepare(request, MODEL) as lease:
        upstream = await local.open(request, MODEL, lease, same_dialect=False, warn=lambda field: None)
    try:
        while True:
            for event in (await upstream.read()).events:
                yield event
                if isinstance(event, Finish):
                    return
    finally:
        await upstream.close()


async def answer(local: LocalProvider, text: str, tokens: int = TOKENS) -> tuple[float, float, int]:
    """Seconds to the first text, seconds to the end, tokens made."""
    begun = time.perf_counter()
    first, made = 0.0, 0
    async with contextlib.aclosing(events(local, asking(text, tokens))) as told:
        async for event in told:
            if isinstance(event, TextDelta) and not first:
                first = time.perf_counter() - begun
            if isinstance(event, Usage) and event.output_tokens is not None:
                made = event.output_tokens
    return first, time.perf_counter() - begun, made


async def throughput(local: LocalProvider) -> list[Line]:
    """One stream, then sixteen at once."""
    tales = [f"Write a long story about {WORDS[n]} and {WORDS[-n - 1]}." for n in range(STREAMS + 1)]
    _, one_s, one = await answer(local, tales[0])
    begun = time.perf_counter()
    many = await asyncio.gather(*(answer(local, tale) for tale in tales[1:]))
    many_s = time.perf_counter() - begun
    alone, together = one / one_s, sum(made for _, _, made in many) / many_s
    return [
        Line("one stream", alone, "tokens/s"),
        Line(f"{STREAMS} streams at once, together", together, "tokens/s"),
        Line(f"{STREAMS} streams against one", together / alone, "times", 3.0, most=False),
    ]


async def shared_prefix(local: LocalProvider) -> list[Line]:
    """A long prompt, then others that begin the same."""
    chance = random.Random(7)
    prefix = " ".join(chance.choice(WORDS) for _ in range(PREFIX_WORDS))
    first, *others = [(await answer(local, f"{prefix}\n\nQuestion {n}?", 4))[0] for n in range(4)]
    later = sorted(others)[len(others) // 2]
    return [
        Line("first token, a new prompt of 1,300 tokens", first, "s"),
        Line("first token, another prompt with the same beginning", later, "s"),
        Line("gain of the shared beginning", first / later, "times", 5.0, most=False),
    ]


async def cancelled(local: LocalProvider, step_s: float) -> list[Line]:
    """From the cancel to the free slot."""
    took = []
    for n in range(5):
        request = asking(f"Write a long story about {WORDS[n]}.", 1_000)
        with await local.prepare(request, MODEL) as lease:
            upstream = await local.open(request, MODEL, lease, same_dialect=False, warn=lambda field: None)
        while not any(isinstance(event, TextDelta) for event in (await upstream.read()).events):
            pass
        begun = time.perf_counter()
        await upstream.close()
        took.append(time.perf_counter() - begun)
    typical = sorted(took)[len(took) // 2]
    return [
        Line("one step", step_s * 1000, "ms"),
        Line("from a cancel to the free slot", typical * 1000, "ms", round(2 * step_s * 1000 + 5, 1)),
    ]


def resident_mb() -> float:
    """Of this process and all that it has started, as far as memory is not shared."""
    pids = [os.getpid(), *(int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())]
    total = 0
    for pid in pids:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith(("Private_Clean:", "Private_Dirty:")):
                total += int(line.split()[1])
    return total / 1024


async def in_process(root: Path) -> list[Line]:
    """Everything that needs no server around the engine."""
    local = LocalProvider(root, limits=Limits(max_active=STREAMS), wanted=("CPU",))
    try:
        gc.collect()
        before = resident_mb()
        await answer(local, "Hello", 4)
        loaded = resident_mb()
        lines = await throughput(local)
        lines += await shared_prefix(local)
        lines += await cancelled(local, 1 / lines[0].value)
        used = resident_mb()
        await local.pool.unload(local.registry.get(MODEL).manifest.digest)
        gc.collect()
        after = resident_mb()
    finally:
        await local.close()
    return [
        *lines,
        Line("memory before the load", before, "MB"),
        Line("with the model", loaded, "MB"),
        Line("after the work above", used, "MB"),
        Line("memory after the unload, against before", 100 * (after / before - 1), "%", 10.0),
    ]


def installed(data: Path) -> dict[str, str]:
    """The environment, such that compiled modules are kept as they are where a package is installed."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | ({"PYTHONPYCACHEPREFIX": str(data / "compiled")} if sys.dont_write_bytecode else {})


@contextlib.contextmanager
def serving(data: Path, profile: str) -> Iterator[int]:
    """A server in a process of its own; its port, as soon as it is told."""
    config = data / f"{profile}.toml"
    config.write_text(f'[local]\nprofile = "{profile}"\ndevices = ["CPU"]\n')
    port = targets.free_port()
    command = [sys.executable, "-m", "rivermouth", "serve", "--config", str(config), "--data-dir", str(data)]
    process = subprocess.Popen([*command, "--port", str(port)], stderr=subprocess.DEVNULL, env=installed(data))
    try:
        targets.wait_until_ready(port, process)
        yield port
    finally:
        process.terminate()
        process.wait()


def first_token(data: Path, profile: str) -> tuple[float, float]:
    """From the start of a server to its first text, and how long the engine's load was of that; in seconds."""
    begun = time.perf_counter()
    with serving(data, profile) as port:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
        body = {"model": MODEL, "prompt": "The capital of France is", "options": {"num_predict": 4, "temperature": 0}}
        connection.request("POST", "/api/generate", json.dumps(body), {"content-type": "application/json"})
        response = connection.getresponse()
        first, load_ns = 0.0, 0
        while line := response.readline():
            frame = json.loads(line)
            if frame.get("response") and not first:
                first = time.perf_counter() - begun
            load_ns = frame.get("load_duration", load_ns)
        connection.close()
        if response.status != 200 or not first:
            raise RuntimeError(f"no answer: status {response.status}")
        return first, load_ns / 1e9


def starts(data: Path) -> list[Line]:
    """A server that has never loaded the model, and then again: in both profiles, in turns.

    Of the warm starts that counts which the machine disturbed least.
    """
    profiles = (("throughput", "continuous batching", 4.0), ("single", "one at a time", 2.0))
    cold = {profile: first_token(data, profile) for profile, _, _ in profiles}
    warm = [{profile: first_token(data, profile) for profile, _, _ in profiles} for _ in range(WARM_STARTS)]
    lines = []
    for profile, title, goal_s in profiles:
        first_s, load_s = cold[profile]
        again_s, again_load_s = min(of_one[profile] for of_one in warm)
        lines += [
            Line(f"{title}: first start to first token", first_s, "s"),
            Line(f"{title}: the engine's part of it", load_s, "s"),
            Line(f"{title}: warm restart to first token", again_s, "s", goal_s),
            Line(f"{title}: the engine's part of it", again_load_s, "s"),
        ]
    return lines


@contextlib.contextmanager
def prepared(given: str | None) -> Iterator[Path]:
    """A data directory with the model and nothing made of it."""
    mine = DataDir.locate(given, os.environ, None).path / "models"
    with tempfile.TemporaryDirectory(prefix="bench-") as place:
        data = Path(place)
        if Registry(mine).find(MODEL) is None:
            subprocess.run([sys.executable, "-m", "rivermouth", "pull", MODEL, "--data-dir", place], check=True)
        else:
            (data / "models").mkdir()
            for part in ("blobs", "manifests"):
                (data / "models" / part).symlink_to(mine / part)
        yield data


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", help="where the model is")
    parser.add_argument("--no-write", action="store_true", help="print the table, leave the page alone")
    arguments = parser.parse_args()
    try:
        with prepared(arguments.data_dir) as data:
            lines = starts(data) + asyncio.run(in_process(data / "models"))
    except (ApiError, subprocess.CalledProcessError) as error:
        print(f"the local engine is not measured: {error}", file=sys.stderr)
        return 0
    text = measured(lines, MODEL)
    print(text)
    if not arguments.no_write:
        put("local engine", "The local engine", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

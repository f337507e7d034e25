"""Engine processes that are none, for tests of what runs where: they load at once, fail, die and stop as told.

The real pool decides; its clock, its timers and what it starts are the test's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import cast

import msgspec

from rivermouth.ir.errors import ApiError
from rivermouth.local.inference.process import EngineProcess, EngineSpec
from rivermouth.local.machine.pool import EnginePool, Limits
from rivermouth.local.machine.router import WITHIN, Route
from rivermouth.local.models.names import parse_name
from rivermouth.local.models.registry import Manifest, Model


def model_of(name: str) -> Model:
    manifest = Manifest(
        digest="sha256:" + name[0] * 64,
        size_bytes=1,
        file="f",
        created=0,
        architecture="llama",
        context_tokens=64,
        parameters=1,
        quantization="Q8_0",
        longest_token_bytes=1,
        end_tokens=(2,),
    )
    return Model(parse_name(name), manifest, Path(name))


A, B, C = model_of("a"), model_of("b"), model_of("c")


def on(device: str) -> Route:
    """The plain way there."""
    return Route(device.partition(".")[0], device, WITHIN)


CPU, GPU, NPU = on("CPU"), on("GPU"), on("NPU")


class FakeEngine:
    """Stands in for a process: it lives until it is told to die, or stopped, which takes until `may_stop`."""

    def __init__(self, spec: EngineSpec, may_stop: asyncio.Event) -> None:
        self.spec = spec
        self.may_stop = may_stop
        self.ended = False
        self.device = spec.device
        self.load_ns = 5
        self.answered = 0
        self.alive = True
        self._ended: list[Callable[[], None]] = []

    def when_ended(self, callback: Callable[[], None]) -> None:
        self._ended.append(callback)

    def die(self) -> None:
        self.alive = False
        self.ended = True
        for callback in self._ended:
            callback()

    async def stop(self) -> None:
        self.alive = False
        await self.may_stop.wait()
        self.die()


class FakeTimer:
    def __init__(self, delay_s: float, callback: Callable[[], None]) -> None:
        self.delay_s = delay_s
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class World:
    """A pool with a clock, timers and processes of the test's own.

    failure: what every load fails with; failures: what those on a device fail with.
    """

    def __init__(self) -> None:
        self.now = 1000.0
        self.timers: list[FakeTimer] = []
        self.engines: list[FakeEngine] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.may_stop = asyncio.Event()
        self.may_stop.set()
        self.failure: ApiError | None = None
        self.failures: dict[str, ApiError] = {}
        self.pool = EnginePool(
            lambda model, device: EngineSpec(path=model.path, context_tokens=64, end_tokens=(2,), device=device),
            Limits(max_active=2, max_waiting=1, max_models=2),
            start=self.start,
            later=self.later,
            clock=lambda: self.now,
            wall=lambda: self.now,
        )

    async def start(self, spec: EngineSpec) -> EngineProcess:
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        if spec.device in self.failures:
            raise self.failures[spec.device]
        self.engines.append(FakeEngine(spec, self.may_stop))
        return cast("EngineProcess", self.engines[-1])

    def later(self, delay_s: float, callback: Callable[[], None]) -> FakeTimer:
        self.timers.append(FakeTimer(delay_s, callback))
        return self.timers[-1]

    def waiting_timers(self) -> list[FakeTimer]:
        return [timer for timer in self.timers if not timer.cancelled]

    async def fire(self) -> None:
        """The clock reaches the last timer."""
        (timer,) = self.waiting_timers()
        timer.callback()
        await asyncio.gather(*self.pool._endings)

    async def settle(self) -> None:
        """Lets every task come to where it waits."""
        for _ in range(10):
            await asyncio.sleep(0)

    def limit(self, **limits: float) -> None:
        self.pool.limits = msgspec.structs.replace(self.pool.limits, **limits)

    def running(self) -> int:
        """Processes that have not ended."""
        return sum(not engine.ended for engine in self.engines)

    def loaded(self) -> list[str]:
        return [running.model.name.name for running in self.pool.running()]

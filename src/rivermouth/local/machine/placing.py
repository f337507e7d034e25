"""A slot for a call, on the device that suits it: the router's decision, and what becomes of it.

    lease      estimate -> route -> slot -> on an NPU the exact count -> the lease, with the way it went
    load       the same without a call, for a model that will be asked

Theory of operation
* A device that cannot load a model (a driver's error, a crash, no memory, no end) is left for the next of the chain,
  for this call and, `LEFT_ALONE_S` long, for those that follow.  Where none is left the last reason is the answer.
* An estimate may be too high, and a prompt that an NPU would have taken need not leave it; so the estimate is taken
  lower for the choice, and the process on the NPU counts before it begins.  What is too long after all goes on to the
  next device, and the client sees nothing of it but the headers.
* Every decision is made and its place in the queue taken in one step, without an await between them.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

import msgspec
import structlog

from rivermouth.ir.errors import ApiError
from rivermouth.local.embedding.work import DEVICES as ENCODER_DEVICES
from rivermouth.local.machine.devices import ALONE, Devices
from rivermouth.local.machine.places import Place, SlotLease
from rivermouth.local.machine.pool import EnginePool
from rivermouth.local.machine.router import CPU, FALLBACK, NPU, NPU_PROMPT_TOKENS, Route, class_of, in_order, route
from rivermouth.local.models.registry import Model

log = structlog.get_logger()

LEFT_ALONE_S: Final = 300.0
CANNOT_LOAD: Final = frozenset(
    {"load_failed", "engine_died", "engine_failed", "engine_hangs", "engine_keeps_dying", "not_enough_memory"}
)
"""Codes of failures that another device may not have."""

T = TypeVar("T")

Count = Callable[[SlotLease], Awaitable[int]]
"""The exact tokens of a call's prompt, in a process that has the model loaded."""


class Placing:
    """Where calls run.  wanted: devices in order of preference; empty for those that are here."""

    def __init__(
        self,
        pool: EnginePool,
        devices: Devices,
        *,
        wanted: Sequence[str] = (),
        npu_tokens: int = NPU_PROMPT_TOKENS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.npu_tokens = npu_tokens
        self._pool = pool
        self._devices = devices
        self._wanted = wanted
        self._clock = clock
        self._failed_at: dict[Place, float] = {}

    async def lease(
        self, model: Model, estimated_tokens: int, keep_alive_s: float | None = None, count: Count | None = None
    ) -> SlotLease:
        """A slot for one call.  Raises `ApiError`; then nothing is held.

        count: given where a prompt may be too long for an NPU.
        """

        async def at(chosen: Route) -> SlotLease:
            return await self._pool.lease(model, chosen, keep_alive_s)

        lease = await self._first_that_loads(model, estimated_tokens * 3 // 4, at)
        if count is None or class_of(lease.route.device) != NPU:
            return lease
        try:
            exact = await count(lease)
        except BaseException:
            lease.close()
            raise
        if exact <= self.npu_tokens:
            return lease
        lease.close()
        routed = lease.route.routed

        async def next_to(chosen: Route) -> SlotLease:
            return await at(msgspec.structs.replace(chosen, routed=routed, fallback_reason=FALLBACK))

        return await self._first_that_loads(model, exact, next_to)

    async def load(self, model: Model, keep_alive_s: float | None = None) -> None:
        """Loads the model where a short prompt would be answered.  Raises `ApiError`."""

        async def at(chosen: Route) -> None:
            await self._pool.load(model, chosen.device, keep_alive_s)

        await self._first_that_loads(model, 0, at)

    async def _first_that_loads(self, model: Model, tokens: int, at: Callable[[Route], Awaitable[T]]) -> T:
        """What `at` gives for the first device of the chain that can load the model."""
        present, order = await self._chain(model)
        failed: dict[str, ApiError] = {}
        while True:
            chosen = self._choose(model, tokens, present, order, failed)
            try:
                made = await at(chosen)
            except ApiError as error:
                if error.code not in CANNOT_LOAD and error.clock != "load":
                    raise
                failed[chosen.device] = error
                self._leave_alone(model, chosen.device, error)
            else:
                self._failed_at.pop(Place.of(model, chosen.device), None)
                return made

    async def _chain(self, model: Model) -> tuple[Sequence[str], Sequence[str]]:
        """The devices that are here, and those to use, best first; not asked for where only a CPU is wanted."""
        alone = bool(self._wanted) and all(name.upper() == CPU for name in self._wanted)
        present = ALONE if alone else await self._devices.present()
        order = in_order(present, self._wanted)
        if model.manifest.kind == "embedding":
            order = [name for name in order if class_of(name) in ENCODER_DEVICES] or [ENCODER_DEVICES[0]]
        return present, order

    def _choose(
        self, model: Model, tokens: int, present: Sequence[str], order: Sequence[str], failed: dict[str, ApiError]
    ) -> Route:
        """The router's decision, without the devices that have just failed.  Raises why the last one did."""
        left = [device for device in present if device not in failed]
        try:
            return route(
                tokens,
                left,
                order,
                npu_tokens=self.npu_tokens,
                busy=lambda device: self._pool.busy(model, device),
                failing=lambda device: self._is_left_alone(model, device),
            )
        except ApiError:
            if failed:
                raise list(failed.values())[-1] from None
            raise

    def _is_left_alone(self, model: Model, device: str) -> bool:
        failed_at = self._failed_at.get(Place.of(model, device))
        return failed_at is not None and self._clock() - failed_at < LEFT_ALONE_S

    def _leave_alone(self, model: Model, device: str, error: ApiError) -> None:
        now = self._clock()
        self._failed_at = {place: at for place, at in self._failed_at.items() if now - at < LEFT_ALONE_S}
        self._failed_at[Place.of(model, device)] = now
        log.warning("device.left_alone", model=str(model.name), device=device, reason=error.message)

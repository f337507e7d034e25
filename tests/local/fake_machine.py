"""A machine that has the devices a test wants: the list is fake, and so is where a process says it runs.

What runs is real: the pool, the router, the pipes, and a process with the native engine on the CPU.
"""

from __future__ import annotations

import msgspec

from rivermouth.local.inference.process import EngineProcess
from rivermouth.local.inference.spec import Spec
from rivermouth.local.machine.devices import Devices, Seen
from rivermouth.local.provider import LocalProvider


def fake_devices(*names: str) -> Devices:
    """The list of a machine that has these."""

    async def ask() -> Seen:
        return Seen(names)

    return Devices(ask)


async def fake_start(spec: Spec) -> EngineProcess:
    """A process on the CPU that says it is on the device it was meant for."""
    engine = await EngineProcess.start(msgspec.structs.replace(spec, device="CPU"))
    assert engine.ready is not None
    engine.ready = msgspec.structs.replace(engine.ready, device=spec.device)
    return engine


def pretend(local: LocalProvider, *names: str, npu_tokens: int) -> None:
    """The running provider is on such a machine from now on."""
    local._placing._wanted = ()
    local._devices = local._placing._devices = fake_devices(*names)
    local._placing.npu_tokens = npu_tokens
    local._placing._failed_at.clear()
    local.pool._start = fake_start

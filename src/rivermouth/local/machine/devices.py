"""The devices that the engine sees here, asked for once, in a process of its own.

A process, because a driver may crash while it is looked for, and because the server never imports native code.  Run as
`python -m rivermouth.local.machine.devices PARENT`.

Theory of operation
* Whoever needs the list first asks; those who come meanwhile share the answer, which holds as long as the server.
* On Linux an accelerator has a node below /dev.  Where none is, there is a CPU and nothing to ask for.
* A process that says nothing, or nothing in time, leaves the CPU.  The first call after `ASK_AGAIN_S` asks again, since
  a driver may be restarted.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, NoReturn

import msgspec
import structlog

from rivermouth.ir.errors import WireError
from rivermouth.local.inference.process import child_environment
from rivermouth.local.inference.stdio import die_with_parent, leave, native_reason, own_stdout, without_telemetry
from rivermouth.local.machine.router import CPU
from rivermouth.wire import json

log = structlog.get_logger()

ASK_S: Final = 30.0
ASK_AGAIN_S: Final = 60.0
ANSWER_CAP_BYTES: Final = 64 * 1024
NODES: Final = (Path("/dev/dri"), Path("/dev/accel"), Path("/dev/dxg"))
ALONE: Final = (CPU,)


class Seen(msgspec.Struct, frozen=True):
    """What the process has seen.  failure: why it could not look."""

    devices: tuple[str, ...] = ()
    failure: str = ""


Ask = Callable[[], Awaitable[Seen]]
_SEEN: Final = json.typed(Seen)


class Devices:
    """The list of one server.  ask: how it is asked for."""

    def __init__(self, ask: Ask | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._ask = ask or look
        self._clock = clock
        self._asking: asyncio.Task[tuple[str, ...]] | None = None
        self._known: tuple[str, ...] | None = None
        self._ask_at = 0.0

    async def present(self) -> tuple[str, ...]:
        """The devices as the engine calls them; never empty."""
        if self._known is not None and self._clock() < self._ask_at:
            return self._known
        if self._asking is None:
            self._asking = asyncio.create_task(self._find(), name="devices")
        asking = self._asking
        try:
            return await asyncio.shield(asking)  # one caller who leaves must not take the answer from the others
        except asyncio.CancelledError:
            if asking.cancelled() and not _leaving():
                return ALONE  # the server stops, not this caller
            raise

    async def close(self) -> None:
        """Nobody asks any more."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait([self._asking])

    async def _find(self) -> tuple[str, ...]:
        try:
            seen = await self._ask()
        finally:
            self._asking = None
        if not seen.devices:
            log.warning("devices.unknown", reason=seen.failure)
        self._known = seen.devices or ALONE
        self._ask_at = float("inf") if seen.devices else self._clock() + ASK_AGAIN_S
        return self._known


def _leaving() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def look() -> Seen:
    """Asks the machine; in a process only where there may be more than a CPU."""
    if sys.platform == "linux" and not await asyncio.to_thread(_any_node):
        return Seen(ALONE)
    return await ask_engine()


async def ask_engine(ask_s: float = ASK_S, module: str = __name__) -> Seen:
    """What a process of its own says; it is gone when this returns, and when it is cancelled."""
    try:
        return await _ask_process(ask_s, module)
    except OSError as error:
        return Seen(failure=str(error))


async def _ask_process(ask_s: float, module: str) -> Seen:
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        "-m",
        module,
        str(os.getpid()),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=child_environment(os.environ),
    )
    assert child.stdout is not None
    try:
        async with asyncio.timeout(ask_s):
            said = await child.stdout.read(ANSWER_CAP_BYTES)
            await child.wait()
    except TimeoutError:
        return Seen(failure=f"no answer within {ask_s:g} s")
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    try:
        return json.decode_as(_SEEN, said)
    except WireError:
        return Seen(failure=f"the process that looked for devices ended with status {child.returncode}")


def _any_node() -> bool:
    return any(node.exists() for node in NODES)


def see() -> Seen:
    """Imports the engine and asks it."""
    without_telemetry()
    try:
        found = importlib.import_module("openvino").Core().available_devices
    except (ImportError, RuntimeError, OSError) as error:
        return Seen(failure=native_reason(error))
    return Seen(tuple(str(name) for name in found))


def main() -> NoReturn:
    out = own_stdout()
    die_with_parent(int(sys.argv[1]))
    os.write(out, json.encode(see()))
    leave(0)


if __name__ == "__main__":
    main()

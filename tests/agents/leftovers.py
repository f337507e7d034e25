"""Processes that an agent left behind: a daemon that has detached itself outlives its agent, and would serve the next.

They are known by their home, which is that of one run alone.  Where there is no /proc nothing is found.
"""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")
GRACE_S: Final = 3.0
ASK_AGAIN_S: Final = 0.1


def at_home(home: Path) -> dict[int, str]:
    """The command lines of the processes that have this home, by process id."""
    mark = f"HOME={home}".encode()
    found = {}
    for folder in PROC.glob("[0-9]*"):
        with suppress(OSError):
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                found[int(folder.name)] = (
                    (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
                )
    return found


async def end(home: Path) -> tuple[str, ...]:
    """Gives them a moment to end by themselves, ends the rest, and tells which these were."""
    clock = asyncio.get_running_loop().time
    ends_at = clock() + GRACE_S
    while (left := at_home(home)) and clock() < ends_at:
        await asyncio.sleep(ASK_AGAIN_S)
    for process in left:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    return tuple(left.values())

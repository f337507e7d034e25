"""A process that asks a chat something and is killed at a named point.

`python -m tests.chat.dying` reads lines of `[folder, point]`, makes a process for each, and writes how it ended, as a
`Popen.returncode`, and what it said.  It has imported everything before: that takes longer than the rest.

Points are "in NAME" (the move NAME is made, its transaction not yet committed), "after NAME" (committed), and
"before FRAME" and "after FRAME" for what is appended to the log.  SIGKILL leaves no time for anything.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

from rivermouth.chat import frames, moves
from tests.chat.lab import ChatLab, chat_lab
from tests.engine.jumping import JumpingLoop

MOVES = ("submit", "claim", "call", "checkpoint", "stop", "finish", "take_over", "finalise")
SAID = "said"
FRAMES = ("turn.open", "chosen", "said", "turn.end", "turn.fence")

POINTS = [f"{when} {name}" for name in MOVES for when in ("in", "after")]
POINTS += [f"{when} {name}" for name in FRAMES for when in ("before", "after")]


def die_at(point: str, lab_ports: Any) -> None:
    """Wraps the two ports through which everything goes."""

    def reached(here: str) -> None:
        if here == point:
            os.kill(os.getpid(), signal.SIGKILL)

    current: list[str] = []
    for name in MOVES:
        real = getattr(moves, name)

        def made(*args: Any, real: Any = real, name: str = name, **more: Any) -> Any:
            done = real(*args, **more)
            current[:] = [name]
            reached(f"in {name}")
            return done

        setattr(moves, name, made)
    run, append = lab_ports.store.run, lab_ports.log.append

    async def running(work: Any) -> Any:
        current.clear()
        done = await run(work)
        for name in current:
            reached(f"after {name}")
        return done

    async def appending(chat: str, at: Any, body: bytes, *, opening: bool = False) -> Any:
        name = frames.decode(body).__struct_config__.tag
        reached(f"before {name}")
        done = await append(chat, at, body, opening=opening)
        reached(f"after {name}")
        return done

    lab_ports.store.run = running
    lab_ports.log.append = appending


async def tell(lab: ChatLab, point: str) -> None:
    die_at(point, lab.ports)
    turn = await lab.ask("first")
    call = await lab.model.asked()
    for piece in ("one ", "two ", "three "):
        call.say(piece)
        await asyncio.sleep(1.1)
    if point.endswith((" take_over", " finalise", " turn.fence")):
        lab.service.worker.owners.clear()
        await lab.service.worker.recover(turn.id)
    elif point.endswith(" stop"):
        await lab.service.stop("anna", turn.chat_id)
    else:
        call.finish()
    await lab.over(turn)
    await asyncio.sleep(1)


async def main(folder: Path, point: str) -> None:
    async with chat_lab(folder) as lab:
        await tell(lab, point)


def live(folder: Path, point: str) -> None:
    """Of the new process: does not return."""
    code = 1
    try:
        said = os.open(folder / SAID, os.O_WRONLY | os.O_CREAT)
        for stream in (sys.stdout, sys.stderr):
            os.dup2(said, stream.fileno())
        with asyncio.Runner(loop_factory=JumpingLoop) as runner:
            runner.run(main(folder, point))
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def serve() -> None:
    for line in sys.stdin:
        folder, point = json.loads(line)
        child = os.fork() or live(Path(folder), point)
        _, status = os.waitpid(child, 0)
        told = [os.waitstatus_to_exitcode(status), Path(folder, SAID).read_text(encoding="utf-8")]
        print(json.dumps(told), flush=True)  # noqa: T201


if __name__ == "__main__":
    serve()

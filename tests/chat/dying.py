"""A process that asks a chat something and is killed at a named point: `python -m tests.chat.dying FOLDER POINT`.

Points are "in NAME" (the move NAME is made, its transaction not yet committed), "after NAME" (committed), and
"before FRAME" and "after FRAME" for what is appended to the log.  SIGKILL leaves no time for anything.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from rivermouth.chat import frames, moves
from tests.chat.lab import ChatLab, chat_lab
from tests.engine.jumping import JumpingLoop

MOVES = ("submit", "claim", "call", "checkpoint", "stop", "finish", "take_over", "finalise")
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


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        runner.run(main(Path(sys.argv[1]), sys.argv[2]))

"""An engine process from its first command to its end: what the processes of all kinds of engine have in common.

load, once -> ready | fatal, then whatever `serve` says until stdin ends
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NoReturn, TypeVar

from rivermouth.local.inference.commands import Commands, Taken
from rivermouth.local.inference.stdio import die_with_parent, leave, native_reason, own_stdout, write_words
from rivermouth.local.words.protocol import Fatal, Ready, Word

Engine = TypeVar("Engine")
Wanted = TypeVar("Wanted")
Send = Callable[[list[Word]], None]


def run(
    wanted: type[Wanted],
    load: Callable[[Wanted], tuple[Engine, Ready]],
    serve: Callable[[Engine, Commands, list[Taken], Send], None],
) -> NoReturn:
    """Never returns.  wanted: the first command; `load` makes the engine of it; `serve` works until stdin ends."""
    out = own_stdout()
    die_with_parent(int(sys.argv[1]))

    def send(words: list[Word]) -> None:
        write_words(out, words)

    commands = Commands(0)
    first, early = _first(commands, wanted)
    try:
        engine, ready = load(first)
    except ImportError as error:
        send([Fatal(f"the engine's packages cannot be imported: {native_reason(error)}", "engine_not_installed")])
        leave(3)
    except (RuntimeError, ValueError, TypeError, IndexError, OSError) as error:
        send([Fatal(native_reason(error), "load_failed")])
        leave(3)
    send([ready])
    try:
        serve(engine, commands, early, send)
    except RuntimeError as error:
        send([Fatal(native_reason(error), "engine_failed")])
        leave(4)
    leave(0)


def _first(commands: Commands, wanted: type[Wanted]) -> tuple[Wanted, list[Taken]]:
    taken: list[Taken] | None = []
    while not taken:
        taken = commands.take(wait=True)
        if taken is None:
            leave(0)
    first, *early = taken
    if not isinstance(first, wanted):
        raise SystemExit(f"the first command must be {wanted.__name__}, not {type(first).__name__}")
    return first, early

"""The task that an agent is given, and what a model would do next in it.  Pure: the conversation alone decides.

    nothing was run   -> thinks, says WORKS, and calls the agent's shell to copy the file
    the copy was made -> calls the shell again to read it
    it was read       -> quotes what the shell printed

The word is in a file of the agent's folder that no upstream has seen, so only an agent that ran both calls, and a
server that brought both results back, can make a model say it.  An agent that got only the beginning of a text and asks
for the rest gets the rest.  Whatever comes without the task or without a shell (a title, a summary, a probe) is not of
the task and gets a few words.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

WORD_FILE: Final = "word.txt"
COPY_FILE: Final = "copy.txt"
PROMPT: Final = f"Copy {WORD_FILE} to {COPY_FILE}, read {COPY_FILE} back, and tell me the word that is in it."
COMMANDS: Final = (f"cp {WORD_FILE} {COPY_FILE}", f"cat {COPY_FILE}")
THOUGHTS: Final = "The file has to be copied before it can be read."
WORKS: Final = "First I copy the file."
ASIDE: Final = "Copy a file"
WORD_BEGINS: Final = "rivermouth-"

SHELLS: Final[Mapping[str, Callable[[str], dict[str, Any]]]] = {
    "Bash": lambda command: {"command": command, "description": "Work on the copy"},
    "bash": lambda command: {"command": command, "description": "Work on the copy"},
    "exec_command": lambda command: {"cmd": command},
}
"""The tool by which each agent runs a command, and its arguments."""


class Result(msgspec.Struct, frozen=True):
    """What a tool gave back, and the arguments of its call as the agent has them, in JSON."""

    arguments: str
    text: str


class Seen(msgspec.Struct, frozen=True):
    """What an upstream can see of a conversation, whatever its dialect.

    asked: all that the user wrote.  said: the text of each turn of the assistant's.  unfinished: the text of a last
    turn that called nothing, where the user has written since.  problems: what a strict vendor would refuse.
    """

    tools: frozenset[str] = frozenset()
    asked: str = ""
    said: tuple[str, ...] = ()
    results: tuple[Result, ...] = ()
    unfinished: str = ""
    problems: tuple[str, ...] = ()


class ToolCall(msgspec.Struct, frozen=True):
    """A call of the agent's shell."""

    name: str
    arguments: dict[str, Any]


class Move(msgspec.Struct, frozen=True):
    """One answer of the model, in this order."""

    thoughts: str = ""
    text: str = ""
    call: ToolCall | None = None


def conclusion(word: str) -> str:
    """The last text, where the copy holds this word."""
    return f"The word is {word}, as the copy says."


def of_the_task(seen: Seen) -> bool:
    """The agent's main conversation, and not something that it asks beside it."""
    return PROMPT in seen.asked and bool(seen.tools & SHELLS.keys())


def step(seen: Seen) -> int:
    """How many commands of the task were run."""
    return len({command for result in seen.results if (command := command_of(result.arguments)) is not None})


def strays(seen: Seen) -> int:
    """How many calls were run that the model never made, or never finished."""
    return sum(command_of(result.arguments) is None for result in seen.results)


def command_of(arguments: str) -> str | None:
    """The command of the task that such a call runs."""
    try:
        values = json.loads(arguments).values()
    except (ValueError, AttributeError):
        return None
    return next((command for command in COMMANDS if command in values), None)


def next_move(seen: Seen) -> Move:
    """What the model answers to this."""
    if not of_the_task(seen):
        return Move(text=ASIDE)
    move = _moves(seen)
    if seen.unfinished and move.text.startswith(seen.unfinished):
        return Move(text=move.text.removeprefix(seen.unfinished), call=move.call)
    return move


def _moves(seen: Seen) -> Move:
    at = step(seen)
    if at == len(COMMANDS):
        return Move(text=conclusion(word_in(seen.results[-1].text)))
    (shell,) = seen.tools & SHELLS.keys()
    call = ToolCall(shell, SHELLS[shell](COMMANDS[at]))
    return Move(THOUGHTS, WORKS, call) if at == 0 else Move(call=call)


def word_in(result: str) -> str:
    """The word that a shell printed; agents put lines of their own around it."""
    found = [line.strip() for line in result.splitlines() if line.strip().startswith(WORD_BEGINS)]
    return found[0] if len(found) == 1 else f"unknown ({result!r})"

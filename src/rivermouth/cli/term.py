"""How the command line speaks: people read stderr, data goes to stdout, and exit codes mean something.

Model names and messages may come from anyone who can reach the server, and answers from a model: what is written to a
terminal loses its control characters first, so that no text can move the cursor or retitle the window.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any, Final, NoReturn, TextIO

import typer

from rivermouth.ir.names import CONTROLS


class Exit(IntEnum):
    """Exit codes.  2 is the shell's own word for a wrong command line, 130 the one for Ctrl-C."""

    OK = 0
    FAILED = 1
    USAGE = 2
    CONFIG = 3
    BUSY = 4
    NOT_FOUND = 5
    UNREACHABLE = 6
    INTERRUPTED = 130


MEANINGS: Final[dict[Exit, str]] = {
    Exit.OK: "done, or stopped in order",
    Exit.FAILED: "it failed, and stderr says why",
    Exit.USAGE: "a wrong command line",
    Exit.CONFIG: "a configuration that cannot be used",
    Exit.BUSY: "the address or the data directory is taken",
    Exit.NOT_FOUND: "no such model, call, account or device",
    Exit.UNREACHABLE: "no server or registry answers",
    Exit.INTERRUPTED: "Ctrl-C",
}

EXIT_CODES: Final = "Exit codes: " + "; ".join(f"{code.value} {means}" for code, means in MEANINGS.items()) + "."

_CONTROL: Final = re.compile(f"(?![\n\t])[{CONTROLS}]")
_BREAKS: Final = {ord("\n"): " ", ord("\t"): " "}
NAME: Final = "rivermouth"
DIM: Final = "\x1b[2m"
PLAIN: Final = "\x1b[0m"


def say(text: str) -> None:
    """A line for a person."""
    sys.stderr.write(printable(text) + "\n")
    sys.stderr.flush()


def fail(text: str, code: Exit) -> NoReturn:
    """A reason for a person, and a code for a program."""
    say(f"rivermouth: {text}")
    raise typer.Exit(code)


def own_name() -> str:
    """How this command is called again: by its name where the PATH has it, else as it was called."""
    if shutil.which(NAME) is not None:
        return NAME
    called = sys.argv[0]
    return called if Path(called).name == NAME else f"{sys.executable} -m {NAME}"


def emit(value: Any) -> None:
    """A JSON document for a program, on one line."""
    from rivermouth.wire import json

    sys.stdout.buffer.write(json.encode(value) + b"\n")
    sys.stdout.buffer.flush()


def show(text: str) -> None:
    """Data for a person or a pipe."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def printable(text: str) -> str:
    """The text without control characters; tabs and line ends stay."""
    return _CONTROL.sub("\ufffd", text)


def one_line(text: str) -> str:
    """The text without control characters, breaks of lines and tabs: nothing in it can pass for another line."""
    return printable(text).translate(_BREAKS)


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Aligned columns under their titles, two spaces apart; one line for each row, whatever its cells hold."""
    lines = [tuple(titles), *(tuple(map(one_line, row)) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def dimmed(text: str, stream: TextIO) -> str:
    """The text in a fainter face, where the stream is a terminal that may show it."""
    return f"{DIM}{text}{PLAIN}" if colourful(stream) else text


def colourful(stream: TextIO) -> bool:
    """True for a terminal whose owner has not said NO_COLOR."""
    return stream.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"

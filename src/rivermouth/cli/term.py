"""How the command line speaks: people read stderr, programs read stdout, and exit codes mean something."""

from __future__ import annotations

import sys
from enum import IntEnum
from typing import Any, NoReturn

import typer


class Exit(IntEnum):
    """Exit codes.  2 is the shell's own word for a wrong command line."""

    OK = 0
    FAILED = 1
    CONFIG = 3
    BUSY = 4
    NOT_FOUND = 5
    UNREACHABLE = 6


def say(text: str) -> None:
    """A line for a person."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def fail(text: str, code: Exit) -> NoReturn:
    """A reason for a person, and a code for a program."""
    say(f"rivermouth: {text}")
    raise typer.Exit(code)


def emit(value: Any) -> None:
    """A JSON document for a program."""
    from rivermouth.wire import json

    sys.stdout.buffer.write(json.encode(value) + b"\n")
    sys.stdout.buffer.flush()

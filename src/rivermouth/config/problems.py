"""What is wrong with a configuration, said so that a person can go to the line and mend it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

import msgspec

KeyPath = tuple[str | int, ...]
"""Where a value stands: table and key names, and numbers for places in arrays."""

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")


class Problem(msgspec.Struct, frozen=True):
    """One fault.  `line` counts from 1 and is 0 where no line is at fault; `key` is dotted, as in "server.port"."""

    file: str
    line: int
    key: str
    message: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.key}: {self.message}" if self.key else f"{place}: {self.message}"


class ConfigError(Exception):
    """The configuration cannot be used.  `problems` holds everything found, in the order of the lines."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = sorted(problems, key=lambda p: p.line)
        super().__init__("\n".join(str(p) for p in self.problems))


def dotted(path: KeyPath) -> str:
    """("models", "gpt.x", "endpoints", 1) -> `models."gpt.x".endpoints[1]`, as one would write it in TOML."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            name = step if _BARE.fullmatch(step) else f'"{step}"'
            text += f".{name}" if text else name
    return text


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """ "; did you mean X?" for the nearest known word, or nothing when none is near."""
    near = get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else ""

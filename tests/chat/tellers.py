"""Models for a real server: `python = "tests.chat.tellers:flow"` says as much as it is asked to, `:stuck` hangs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

LINE = "{number} flows past 🌊 and on to the sea\n"
PLAIN = "{number} flows past and on to the open sea\n"
AGAIN = 1_009
"""Lines until they begin again: as in any long text, most words are not new."""


def flow(messages: list[dict[str, str]]) -> Iterator[str]:
    """Asked "COUNT LINES GATE", COUNT pieces of so many lines; the last half when the file GATE is there, if one is
    named."""
    yield from _asked(messages, LINE)


def plain(messages: list[dict[str, str]]) -> Iterator[str]:
    """The same in ASCII, of which Python keeps a character in one byte; a single emoji in a text makes that four."""
    yield from _asked(messages, PLAIN)


def _asked(messages: list[dict[str, str]], line: str) -> Iterator[str]:
    count, lines, *gate = messages[-1]["content"].split()
    yield from piece_by_piece(int(count), int(lines), Path(gate[0]) if gate else None, line)


def piece_by_piece(count: int, lines: int, gate: Path | None = None, line: str = LINE) -> Iterator[str]:
    for number in range(count):
        while gate is not None and number >= count // 2 and not gate.exists():
            time.sleep(0.02)
        yield "".join(line.format(number=n % AGAIN) for n in range(number * lines, (number + 1) * lines))


def stuck(messages: list[dict[str, str]]) -> Iterator[str]:
    """Asked "GATE WORDS", says the words, if there are any, and then nothing more, deaf to everything, until the file
    GATE is there."""
    gate, *words = messages[-1]["content"].split(maxsplit=1)
    yield from words
    while not Path(gate).exists():
        time.sleep(0.02)

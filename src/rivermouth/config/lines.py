"""On which line of a TOML document does each key stand?  `tomllib` does not say, and an error message must.

The scanner runs over text that `tomllib` has already accepted, so it knows that every string, array and table is
closed and never has to judge; it only walks.  It knows strings (all four kinds), comments, arrays, inline tables,
dotted keys, table headers and arrays of tables.  Every prefix of a path gets the line where it was first named.
"""

from __future__ import annotations

import re
import tomllib
from typing import Final

from rivermouth.config.problems import KeyPath

_BLANK: Final = re.compile(r"[ \t]*")
_BLANK_LINES: Final = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_SCALAR: Final = re.compile(r"[^,\]}#\r\n]*")
_STRINGS: Final = (
    re.compile(r'"""(?:[^\\]|\\.)*?"{3,5}', re.DOTALL),
    re.compile(r"'''.*?'{3,5}", re.DOTALL),
    re.compile(r'"(?:[^"\\\n]|\\.)*"'),
    re.compile(r"'[^'\n]*'"),
)


def key_lines(text: str) -> dict[KeyPath, int]:
    """The line, from 1, of each table, key and array element in a valid TOML document."""
    return _Scanner(text).scan()


class _Scanner:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._lines: dict[KeyPath, int] = {}
        self._counts: dict[KeyPath, int] = {}
        self._line = 1
        self._counted_to = 0

    def scan(self) -> dict[KeyPath, int]:
        table: KeyPath = ()
        self._skip(_BLANK_LINES)
        while self._at < len(self._text):
            if self._text.startswith("[", self._at):
                table = self._header()
            else:
                self._pair(table)
            self._skip(_BLANK_LINES)
        return self._lines

    def _header(self) -> KeyPath:
        """`[a.b]` or `[[a.b]]`; a step through an array of tables means that array's latest element."""
        array = self._text.startswith("[[", self._at)
        line = self._line_here()
        self._at += 2 if array else 1
        path: KeyPath = ()
        keys = self._keys()
        for number, key in enumerate(keys):
            path = (*path, key)
            self._lines.setdefault(path, line)
            if array and number == len(keys) - 1:
                self._counts[path] = self._counts.get(path, 0) + 1
            if path in self._counts:
                path = (*path, self._counts[path] - 1)
                self._lines.setdefault(path, line)
        self._at += 2 if array else 1
        return path

    def _pair(self, table: KeyPath) -> None:
        line = self._line_here()
        path = table
        for key in self._keys():
            path = (*path, key)
            self._lines.setdefault(path, line)
        self._at += 1  # the "="
        self._skip(_BLANK)
        self._value(path)

    def _keys(self) -> list[str]:
        keys = [self._key()]
        while self._text.startswith(".", self._at):
            self._at += 1
            keys.append(self._key())
        return keys

    def _key(self) -> str:
        self._skip(_BLANK)
        start = self._at
        if self._text[start] in "\"'":
            self._string()
            key = next(iter(tomllib.loads(f"{self._text[start : self._at]} = 0")))
        else:
            self._skip(_BARE_KEY)
            key = self._text[start : self._at]
        self._skip(_BLANK)
        return key

    def _value(self, path: KeyPath) -> None:
        match self._text[self._at]:
            case "[":
                self._array(path)
            case "{":
                self._inline_table(path)
            case '"' | "'":
                self._string()
            case _:
                self._skip(_SCALAR)

    def _array(self, path: KeyPath) -> None:
        self._at += 1
        number = 0
        while not self._closes("]"):
            self._lines.setdefault((*path, number), self._line_here())
            self._value((*path, number))
            number += 1

    def _inline_table(self, path: KeyPath) -> None:
        self._at += 1
        while not self._closes("}"):
            self._pair(path)

    def _closes(self, bracket: str) -> bool:
        """Steps over blanks and one comma; True, and past it, at the closing bracket."""
        self._skip(_BLANK_LINES)
        if self._text.startswith(",", self._at):
            self._at += 1
            self._skip(_BLANK_LINES)
        if self._text.startswith(bracket, self._at):
            self._at += 1
            return True
        return False

    def _string(self) -> None:
        match = next(m for p in _STRINGS if (m := p.match(self._text, self._at)))
        self._at = match.end()

    def _skip(self, pattern: re.Pattern[str]) -> None:
        match = pattern.match(self._text, self._at)
        if match is not None:
            self._at = match.end()

    def _line_here(self) -> int:
        self._line += self._text.count("\n", self._counted_to, self._at)
        self._counted_to = self._at
        return self._line

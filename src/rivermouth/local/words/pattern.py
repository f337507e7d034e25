"""Which regular expressions may reach the engine.

As with schemas: its grammar compiler raises in the middle of a step for what it does not know, which ends the process
for everyone, and takes some escapes for plain letters.  So only what is known to come out right goes in:

    text      letters and digits, \\ before a sign, \\t \\n \\r \\f \\v \\xHH \\uHHHH
    classes   .  \\d \\w \\s and their opposites  [abc] [a-z] [^...]
    more      ( ) (?: )   |   * + ? {n} {n,} {n,m}, each with or without a ? behind it   ^ and $ around it all

A pattern is met by the whole answer.  \\d \\w \\s and their opposites are those of ASCII.
"""

from __future__ import annotations

import re
from typing import Final, NoReturn

from rivermouth.ir.errors import invalid

CHARS_CAP: Final = 2_000
COST_CAP: Final = 5_000
DEPTH_CAP: Final = 50
COUNT_CAP: Final = 1_000

# The engine counts a no-break space among \\s.
_BLANKS: Final = r" \t\n\r\f\v"
_SETS: Final[dict[str, str]] = {
    "d": r"[0-9]",
    "D": r"[^0-9]",
    "w": r"[a-zA-Z0-9_]",
    "W": r"[^a-zA-Z0-9_]",
    "s": rf"[{_BLANKS}]",
    "S": rf"[^{_BLANKS}]",
}
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v"}
_SPELLED: Final = {char: f"\\{letter}" for letter, char in _CONTROLS.items()}
_HEX: Final = {"x": 2, "u": 4}
_SIGNS: Final = frozenset(r"\^$.|?*+()[]{}/-\"'`~!@#%&=_,:;<> ")
_SPECIAL: Final = frozenset(r"\^$.|?*+()[]{}")
_COUNT: Final = re.compile(r"\{(\d{1,5})(,(\d{1,5})?)?\}")
# The engine's own "." takes in the end of a line, which nobody expects.
_ANY: Final = r"[^\n\r]"


def pattern_text(pattern: str) -> str:
    """The pattern as the engine gets it.  Raises `ApiError` where it is not known to come out right."""
    if not pattern:
        raise invalid("regex: the pattern is empty", param="regex")
    if len(pattern) > CHARS_CAP:
        raise invalid(f"regex: {len(pattern)} characters, of which there may be {CHARS_CAP}", param="regex")
    walk = _Walk(pattern)
    walk.whole()
    return "".join(walk.made)


class _Walk:
    """Reads a pattern from left to right; raises at the first thing that is not on the list."""

    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0
        self.made: list[str] = []

    def whole(self) -> None:
        anchored = self._takes("^")
        cost, branches = self._branches(0)
        if self._at < len(self._text) and self._peek() == "$":
            self._at += 1
            anchored = True
        if self._at < len(self._text):
            self._refuse("has a ) too many" if self._peek() == ")" else "has a $ before its end")
        if anchored and branches > 1:
            self._refuse("has ^ or $ beside |, where each belongs to one side only; put ( ) around the sides")
        self._bound(cost)

    def _branches(self, depth: int) -> tuple[int, int]:
        """The cost of what is between |, and how many there are."""
        if depth > DEPTH_CAP:
            self._refuse("is nested too deep")
        cost, branches = self._branch(depth), 1
        while self._takes("|"):
            self.made.append("|")
            cost += self._branch(depth)
            branches += 1
        return cost, branches

    def _branch(self, depth: int) -> int:
        cost, begun = 0, self._at
        while self._at < len(self._text) and self._peek() not in "|)$":
            cost += self._atom(depth) * self._times()
            self._bound(cost)
        if self._at == begun:
            self._refuse("has nothing on one side of |, or in ( )")
        return cost

    def _atom(self, depth: int) -> int:
        char = self._next()
        match char:
            case "(":
                return self._group(depth)
            case "[":
                return self._class()
            case ".":
                self.made.append(_ANY)
            case "\\":
                self.made.append(self._escape(inside=False)[1])
            case _ if char in _SPECIAL:
                self._refuse(f"has {char!r} where it means nothing")
            case _:
                self.made.append(_spelled(char, inside=False))
        return 1

    def _group(self, depth: int) -> int:
        if self._takes("?") and not self._takes(":"):
            self._refuse("has a (? that is not (?:")
        self.made.append("(")
        cost, _ = self._branches(depth + 1)
        if not self._takes(")"):
            self._refuse("has a ( without )")
        self.made.append(")")
        return cost + 1

    def _class(self) -> int:
        negated = self._takes("^")
        items: list[str] = []
        while not self._takes("]"):
            items.append(self._item())
        if not items:
            self._refuse("has an empty [ ]")
        # The engine takes a ^ that is first for a negation, however it is spelled; so it is never first.
        items.sort(key=lambda item: item.startswith(r"\^"))
        if items[0] == r"\^" and not negated:
            self.made.append(items[0])
        elif items[0].startswith(r"\^-"):
            self._refuse("has a range that begins with ^")
        else:
            self.made.append(f"[{'^' if negated else ''}{''.join(items)}]")
        return len(items)

    def _item(self) -> str:
        """A character of a class, a range or a set."""
        low, spelled = self._member()
        following = self._text[self._at : self._at + 2]
        if low is None or following[:1] != "-" or following[1:] in ("", "]"):
            return spelled
        self._at += 1
        high, end = self._member()
        if high is None or high < low:
            self._refuse("has a range that goes nowhere")
        return f"{spelled}-{end}"

    def _member(self) -> tuple[str | None, str]:
        """One character of a class, None for a set of them, and how it is spelled."""
        char = self._next()
        if char == "[":
            self._refuse("has a [ inside [ ]; put \\ before it")
        if char != "\\":
            return char, _spelled(char, inside=True)
        return self._escape(inside=True)

    def _escape(self, *, inside: bool) -> tuple[str | None, str]:
        """The character that it stands for, None for a set of them, and how it is spelled."""
        char = self._next()
        if char in _SETS and not (inside and char.isupper()):
            return None, _SETS[char][1:-1] if inside else _SETS[char]
        if char in _SIGNS or char in _CONTROLS:
            meant = _CONTROLS.get(char, char)
            return meant, _spelled(meant, inside=inside)
        digits = self._text[self._at : self._at + _HEX.get(char, 0)]
        if not digits or len(digits) < _HEX[char] or not re.fullmatch("[0-9A-Fa-f]+", digits):
            self._refuse(f"has \\{char}, which is not known")
        if "d800" <= digits.lower().zfill(4) <= "dfff":
            self._refuse("names half a character")
        self._at += len(digits)
        meant = chr(int(digits, 16))
        return meant, _spelled(meant, inside=inside)

    def _times(self) -> int:
        """How often what came before is written, at the most that the compiler spells out."""
        char = self._text[self._at : self._at + 1]
        if char and char in "*+?":
            self._at += 1
            self.made.append(char)
            times = 1
        elif char == "{":
            times = self._count()
        else:
            return 1
        if self._text[self._at : self._at + 1] == "?":  # as little as possible: what is forced is no search
            self._at += 1
        return times

    def _count(self) -> int:
        found = _COUNT.match(self._text, self._at)
        if found is None:
            self._refuse("has a { that is no count")
        least, most = int(found[1]), int(found[3] or found[1])
        if not least <= most or most > COUNT_CAP:
            self._refuse(f"has a count that is not up to {COUNT_CAP}")
        self._at = found.end()
        self.made.append(found[0])
        return max(most, 1)

    def _bound(self, cost: int) -> None:
        if cost > COST_CAP:
            self._refuse("is too large")

    def _peek(self) -> str:
        return self._text[self._at]

    def _next(self) -> str:
        if self._at == len(self._text):
            self._refuse("ends too early")
        self._at += 1
        return self._text[self._at - 1]

    def _takes(self, char: str) -> bool:
        taken = self._text[self._at : self._at + 1] == char
        self._at += taken
        return taken

    def _refuse(self, why: str) -> NoReturn:
        raise invalid(f"regex: the pattern {why} (character {self._at})", param="regex", code="unsupported_pattern")


def _spelled(char: str, *, inside: bool) -> str:
    """One character so that it can mean nothing but itself.  (Its number would not do: the engine reads on.)"""
    if char in _SPECIAL or (inside and char == "-"):
        return f"\\{char}"
    return _SPELLED.get(char, char)

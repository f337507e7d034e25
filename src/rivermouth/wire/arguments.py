"""Tool arguments: JSON text in the neutral model, a JSON object on wires that have one there."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from rivermouth.ir.errors import ApiError, Kind, WireError
from rivermouth.ir.lanes import WAITING_CAP_CHARS
from rivermouth.wire import json

_MARKS: Final = re.compile(r'["{}\[\]]|\\.?', re.S)


def to_object(text: str) -> bytes:
    """One JSON object on one line.  "" and null mean {}; what is no object, or no JSON, is wrapped as {"input": ...}.

    A model may write anything; the client of such a wire parses what it gets and raises if it is no object.  What it
    writes behind a whole object (the object again, the end of a tag) is left out, as it is from a stream.
    """
    stripped = text.strip()
    if not stripped:
        return b"{}"
    try:
        value = _decoded(stripped)
    except WireError:
        return json.encode({"input": text})
    if isinstance(value, dict):
        return json.encode(value)
    return b"{}" if value is None else json.encode({"input": value})


def _decoded(text: str) -> Any:
    try:
        return json.decode(text.encode("utf-8", "replace"))
    except WireError:
        first = _first_object(text)
        if first is None:
            raise
        return json.decode(first.encode("utf-8", "replace"))


def _first_object(text: str) -> str | None:
    """Up to where the object ends that the text begins with."""
    whole = OneObject()
    first = whole.feed(text) if begins_object(text) else ""
    return first if whole.over else None


class OneObject:
    """Arguments that begin as an object, in pieces: `feed` gives each as far as the object goes."""

    __slots__ = ("_depth", "_escaped", "_quoted", "over")

    def __init__(self) -> None:
        self.over = False
        self._depth = 0
        self._quoted = False
        self._escaped = False  # the last character was a backslash, which takes the next one with it

    def feed(self, text: str) -> str:
        """The piece, up to the end of the object; blanks behind that are nothing either."""
        if self.over:
            return ""
        skip = 1 if self._escaped and text else 0
        self._escaped = self._escaped and not text
        for found in _MARKS.finditer(text, skip):
            mark = found[0]
            if mark == '"':
                self._quoted = not self._quoted
            elif mark[0] == "\\":
                self._escaped = self._quoted and len(mark) == 1
            elif self._quoted:
                continue
            elif mark in "{[":
                self._depth += 1
            else:
                self._depth -= 1
                if self._depth <= 0:
                    self.over = True
                    return text[: found.end()]
        return text


class Mending:
    """The arguments of one call on their way to a wire whose clients join the pieces and parse them as an object.

    They are held until they show that they begin as one, and go out from then on as they come, as far as the object
    goes; what is none comes at the end, mended.  Raises `ApiError` (upstream) when more than the cap has to be held.
    """

    __slots__ = ("_blank", "_cap_chars", "_held", "_object", "held_chars")

    def __init__(self, cap_chars: int = WAITING_CAP_CHARS) -> None:
        self.held_chars = 0
        self._cap_chars = cap_chars
        self._held: list[str] = []
        self._blank = True  # nothing but blanks so far
        self._object: OneObject | None = None

    def feed(self, text: str) -> str:
        """What may be said now that this piece has come."""
        if self._object is not None:
            return self._object.feed(text)
        self.held_chars += len(text)
        if self.held_chars > self._cap_chars:
            raise ApiError(Kind.UPSTREAM, "the upstream's arguments cannot be made an object within bounds")
        self._held.append(text)
        begins = begins_object(text) if self._blank else False
        self._blank = begins is None
        if not begins:
            return ""
        self._object = OneObject()
        return self._object.feed(self._taken())

    def end(self) -> str:
        """What is left to say of arguments that are whole; nothing for none, or blanks."""
        text = self._taken()
        return to_object(text).decode() if text.strip() else ""

    def _taken(self) -> str:
        text = "".join(self._held)
        self._held, self.held_chars = [], 0
        return text


def begins_object(text: str) -> bool | None:
    """Whether arguments that begin so can be an object; None while only blanks were seen."""
    stripped = text.lstrip()
    return stripped.startswith("{") if stripped else None


def as_object(text: str) -> msgspec.Raw | None:
    """The object as one line of JSON, numbers as the model wrote them; None for none.  Blanks and null are {}.

    What the model wrote behind it is left out.
    """
    written = text.strip()
    if written in ("", "null"):
        return msgspec.Raw(b"{}")
    whole = _one_line(written)
    if whole is None and (first := _first_object(written)) is not None and first != written:
        return _one_line(first)
    return whole


def _one_line(written: str) -> msgspec.Raw | None:
    try:
        data = written.encode()
        json.fields(data)
        lines = "\n" in written or "\r" in written
        return msgspec.Raw(json.encode(json.decode(data)) if lines else json.line_safe(data))
    except (WireError, UnicodeEncodeError):
        return None

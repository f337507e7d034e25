"""Signatures on this wire: members of `reasoning_details`, apart from the text that they prove (O8).

    neutral                     to an upstream       to a client
    "openai_chat:s"             s                    sealed, see `ir.opaque`
    "openai_chat-as:{..}"       the whole detail     sealed
    any other                   nothing              sealed

The wire has one string for all reasoning and another for all text, so a sealed signature has a note: which characters
of the reasoning it proves, and what had been said before.  With it a client's message is what the model said, in its
order.  The reasoning itself is sealed too, up to a limit, since its member is none of the vendor's and there are SDKs
whose accumulators keep only the last piece of it.  A client that changed longer reasoning has made the signature
worthless, and it is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple
from zlib import crc32

from rivermouth.dialects.openai_chat.shapes import ReasoningDetail
from rivermouth.ir.errors import WireError
from rivermouth.ir.opaque import native, opened, seal
from rivermouth.ir.request import Part, Reasoning, ToolCall
from rivermouth.wire import json

NATIVE: Final = "openai_chat:"
NATIVE_DETAIL: Final = "openai_chat-as:"
_NOTE: Final = re.compile(r"(\d{1,9})\+(\d{1,9})=(\d{1,10})@(\d{1,9})(t?)")
_ABOUT: Final = ("id", "format")
SEALED_CHARS: Final = 64 * 1024
"""The longest reasoning that is sealed beside its signature."""


class Thought:
    """Reasoning of a choice as it is written: which characters it is, and what was said before it."""

    __slots__ = ("_after", "_length", "_pieces", "_start", "_sum")

    def __init__(self, start: int, calls: int, *, said: bool) -> None:
        self._start = start
        self._length = 0
        self._sum = 0
        self._pieces: list[str] = []
        self._after = f"{calls}{'t' if said else ''}"

    def add(self, text: str) -> None:
        self._length += len(text)
        self._sum = crc32(_bytes(text), self._sum)
        if self._length <= SEALED_CHARS:
            self._pieces.append(text)
        else:
            self._pieces.clear()

    @property
    def end(self) -> int:
        return self._start + self._length

    def sealed(self, signature: str, *, redacted: bool) -> str:
        note = f"{self._start}+{self._length}={self._sum}@{self._after}"
        return seal(signature, redacted=redacted, note=note, text="".join(self._pieces))


class Placed(NamedTuple):
    """A client's reasoning and what came before it in the message: so many calls, and the text or not."""

    part: Reasoning
    calls: int = 0
    said: bool = False


class _Noted(NamedTuple):
    """A detail, read: `words` stand in it, `own` is in its envelope, `start` and `length` name those that it proves."""

    signature: str | None
    redacted: bool
    words: str
    own: str = ""
    start: int | None = None
    length: int = 0
    check: int = 0
    calls: int = 0
    said: bool = False

    def placed(self, text: str) -> Placed:
        proven = self.start is None or crc32(_bytes(text)) == self.check
        return Placed(Reasoning(text, self.signature if proven else None, self.redacted), self.calls, self.said)


def upstream_signature(raw: str, about: ReasoningDetail | None) -> str | None:
    """The neutral form of a signature, or of hidden data, that an upstream gave; None for a broken envelope."""
    found = opened(raw)
    if found is not None:
        return found.signature
    extras = {name: value for name in _ABOUT if about is not None and (value := getattr(about, name))}
    if not extras:
        return NATIVE + raw
    return NATIVE_DETAIL + json.encode({**extras, "signature": raw}).decode()


def own_detail(part: Reasoning) -> dict[str, Any] | None:
    """The part as an upstream of this dialect gave it; None if none did."""
    raw, extras = native(NATIVE, part.signature), {}
    whole = native(NATIVE_DETAIL, part.signature)
    if whole is not None:
        try:
            extras = json.convert(json.decode(whole.encode()), dict[str, str])
        except WireError:  # a client made it up
            return None
        raw = extras.pop("signature", None)
    if raw is None:
        return None
    if part.redacted:
        return {"type": "reasoning.encrypted", "data": raw, **extras}
    return {"type": "reasoning.text", "text": part.text, "signature": raw, **extras}


def client_reasoning(text: str, details: Sequence[ReasoningDetail]) -> list[Placed]:
    """The reasoning of a client's message.

    Notes say which part of the text each detail proves.  Without them, details that hold all of the text are read
    instead of it: they keep blocks and signatures; else a signature that is the only one is that of the whole text.
    """
    noted = [_read(detail) for detail in details]
    if any(n.start is not None for n in noted):
        return list(_pieces(text, noted))
    spoken = [n for n in noted if not n.redacted]
    if not text or text == "".join(n.words for n in spoken):
        whole = [n.placed(n.words) for n in noted]
        return [p for p in whole if p.part.text or p.part.signature is not None]
    signatures = [n.signature for n in spoken if n.signature is not None]
    reasoning = Reasoning(text, signatures[0] if len(signatures) == 1 else None)
    return [Placed(reasoning), *(n.placed("") for n in noted if n.redacted)]


def in_order(thoughts: Iterable[Placed], content: Sequence[Part], calls: Sequence[ToolCall]) -> tuple[Part, ...]:
    """The parts of a message in the order in which the model said them, as far as that is known."""
    parts: list[Part] = []
    said, called = False, 0
    for thought in thoughts:
        if thought.said and not said:
            parts += content
            said = True
        parts += calls[called : thought.calls]
        called = max(called, thought.calls)
        parts.append(thought.part)
    return (*parts, *(() if said else content), *calls[called:])


def _pieces(text: str, noted: list[_Noted]) -> Iterable[Placed]:
    """What the notes name, and what lies between.  Where the text is not what was sealed, only that counts."""
    at = 0
    changed = False
    for n in noted:
        start = at if n.start is None else n.start
        piece = n.placed(n.own or n.words or text[start : start + n.length])
        if piece.part.signature is None and not n.words:
            continue  # its text stays with what follows
        if start < at or not text.startswith(piece.part.text, start):
            changed = True
        else:
            if start > at:
                yield Placed(Reasoning(text[at:start]), n.calls, n.said)
            at = start + len(piece.part.text)
        yield piece
    if at < len(text) and not changed:
        yield Placed(Reasoning(text[at:]))


def _read(detail: ReasoningDetail) -> _Noted:
    raw = detail.data or detail.signature
    words = "" if detail.data else detail.text or detail.summary or ""
    if not raw:
        return _Noted(None, False, words)
    found = opened(raw)
    if found is None:
        return _Noted(upstream_signature(raw, detail), bool(detail.data), words)
    redacted = found.redacted or bool(detail.data)
    note = _NOTE.fullmatch(found.note)
    if note is None:
        return _Noted(found.signature, redacted, words, found.text)
    start, length, check, calls = map(int, note.groups()[:4])
    return _Noted(found.signature, redacted, words, found.text, start, length, check, calls, bool(note[5]))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")

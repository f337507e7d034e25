"""An answer while it grows: what its row says, and what its log says, are two views of one draft.

It folds with `ir.fold`, the one accumulator.  A draft can begin from a row or a snapshot and go on with what the log
has after it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from rivermouth.chat.frames import Frame, Opened, Said, Snapshot, Warned, unpack
from rivermouth.ir.events import (
    ArgsDelta,
    Event,
    Finish,
    MediaDelta,
    PartEnd,
    Reason,
    ReasoningDelta,
    Start,
    TextDelta,
    Usage,
)
from rivermouth.ir.fold import Fold, unfold
from rivermouth.ir.reply import Choice, Reply, ReplyPart
from rivermouth.ir.request import Refusal, Text
from rivermouth.wire import json


class Notice(msgspec.Struct, frozen=True, tag="warning"):
    """Words of ours at the end of an answer; never sent to a model."""

    text: str


Part = ReplyPart | Notice

_parts: Final = json.typed(list[Part])


def encode_parts(parts: Iterable[Part]) -> str:
    return json.encode(list(parts)).decode()


def decode_parts(text: str | bytes | msgspec.Raw) -> list[Part]:
    found: list[Part] = json.decode_as(_parts, text.encode() if isinstance(text, str) else text)
    return found


def visible(parts: Iterable[Part]) -> str:
    """What a person reads first: text, refusals and warnings."""
    return "".join(part.text for part in parts if isinstance(part, Text | Refusal | Notice))


def digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def chars_of(event: Event) -> int:
    """How much an event adds to what is kept."""
    match event:
        case TextDelta() | ReasoningDelta():
            return len(event.text)
        case ArgsDelta():
            return len(event.json)
        case MediaDelta():
            return len(event.data or "")
        case _:
            return 0


class Draft:
    """chars: how many a person has been shown.  size: of all that is kept, thoughts, arguments and media too."""

    def __init__(self, parts: Iterable[Part] = ()) -> None:
        self._fold = Fold()
        self._warnings: list[str] = []
        self.chars = 0
        self.size = 0
        self._begin(list(parts))

    def _begin(self, parts: list[Part]) -> None:
        self._fold = Fold()
        self._warnings = [part.text for part in parts if isinstance(part, Notice)]
        said = tuple(part for part in parts if not isinstance(part, Notice))
        events = unfold(Reply(choices=(Choice(said, Reason.STOP),)))
        # What was open goes on: a fold does not ask whether a part was closed.
        kept = [event for event in events if not isinstance(event, Start | PartEnd | Finish)]
        self._fold.feed_all(kept)
        self.chars = len(visible(parts))
        self.size = sum(map(chars_of, kept)) + sum(map(len, self._warnings))

    def say(self, events: Iterable[Event]) -> None:
        for event in events:
            self._fold.feed(event)
            self.size += chars_of(event)
            if isinstance(event, TextDelta):
                self.chars += len(event.text)

    def warn(self, text: str) -> None:
        self._warnings.append(text)
        self.chars += len(text)
        self.size += len(text)

    def apply(self, frame: Frame) -> None:
        """What a frame of the log adds."""
        match frame:
            case Said():
                self.say(map(unpack, frame.events))
            case Warned():
                self.warn(frame.text)
            case Snapshot():
                self._begin(decode_parts(frame.parts))
            case Opened():
                self._begin([])
            case _:
                pass

    @property
    def usage(self) -> Usage | None:
        return self._fold.usage

    def parts(self) -> list[Part]:
        said: list[Part] = list(self._fold.reply().choices[0].parts)
        if self._warnings:
            said.append(Notice("".join(self._warnings)))
        return said

    def text(self) -> str:
        return visible(self.parts())

    def row(self) -> dict[str, Any]:
        """The columns of its message."""
        parts = self.parts()
        return {"parts": encode_parts(parts), "text": visible(parts)}

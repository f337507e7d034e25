"""The items of an upstream's output while they are read: which part of the neutral stream each text belongs to.

A text may come in deltas, whole when it is done, whole in the item that is done, or only in the last event; whichever
comes first is the text, and what a later one has beyond it is the rest of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rivermouth.dialects.openai_responses.opaque import from_wire
from rivermouth.dialects.openai_responses.pictures import media_type_of
from rivermouth.dialects.openai_responses.shapes import CallItem, MessageItem, PictureItem, ReasoningItem
from rivermouth.dialects.openai_responses.talk import BETWEEN_SUMMARIES, thought
from rivermouth.ir.errors import WireError
from rivermouth.ir.events import (
    ArgsDelta,
    Event,
    MediaDelta,
    PartEnd,
    PartKind,
    PartStart,
    ReasoningDelta,
    Signature,
    TextDelta,
)
from rivermouth.vendors.openai import free_form
from rivermouth.wire.frame import FRAME_CAP_BYTES

Number = Callable[[], int]


class Said:
    """One text: the part that it is, and how much of it has come."""

    __slots__ = ("chars", "closed", "kind", "part")

    def __init__(self, kind: PartKind) -> None:
        self.kind = kind
        self.part: int | None = None
        self.chars = 0
        self.closed = False

    def add(self, text: str, number: Number, events: list[Event]) -> None:
        """More of it; it becomes a part with its first word."""
        if not text or self.closed:
            return
        if self.part is None:
            self.part = number()
            events.append(PartStart(self.part, self.kind))
        self.chars += len(text)
        thinks = self.kind is PartKind.REASONING
        events.append(ReasoningDelta(self.part, text) if thinks else TextDelta(self.part, text))

    def rest(self, whole: str | None, number: Number, events: list[Event]) -> None:
        """All of it has been said."""
        if whole is not None:
            self.add(whole[self.chars :], number, events)

    def close(self, events: list[Event]) -> None:
        if self.part is not None and not self.closed:
            events.append(PartEnd(self.part))
        self.closed = True


class MessageReading:
    """A message: a text or a refusal for each position of its content."""

    __slots__ = ("_number", "_said")

    def __init__(self, number: Number) -> None:
        self._number = number
        self._said: dict[int, Said] = {}

    def part(self, position: int) -> int | None:
        """The open part of text at this position."""
        said = self._said.get(position)
        return said.part if said is not None and said.kind is PartKind.TEXT and not said.closed else None

    def heard(self, position: int, chars: int) -> None:
        """More of that part has come."""
        self._said[position].chars += chars

    def add(self, position: int, kind: PartKind, text: str, events: list[Event]) -> None:
        self._at(position, kind, events).add(text, self._number, events)

    def end(self, position: int, kind: PartKind, whole: str | None, events: list[Event]) -> None:
        said = self._at(position, kind, events)
        said.rest(whole, self._number, events)
        said.close(events)

    def done(self, item: MessageItem, events: list[Event]) -> None:
        """The item is there, whole."""
        content = item.content if isinstance(item.content, list) else []
        if isinstance(item.content, str):
            self.end(0, PartKind.TEXT, item.content, events)
        for position, part in enumerate(content):
            if part.refusal is not None:
                self.end(position, PartKind.REFUSAL, part.refusal, events)
            elif part.text is not None:
                self.end(position, PartKind.TEXT, part.text, events)
        self.close(events)

    def close(self, events: list[Event]) -> None:
        for said in self._said.values():
            said.close(events)

    def _at(self, position: int, kind: PartKind, events: list[Event]) -> Said:
        said = self._said.get(position)
        if said is None or said.kind is not kind:
            if said is not None:
                said.close(events)
            said = self._said[position] = Said(kind)
        return said


class ThoughtReading:
    """A thought: its own text or what sums it up, whichever speaks first; each summary begins a paragraph."""

    __slots__ = ("_number", "_said", "_source", "_waits")

    def __init__(self, number: Number) -> None:
        self._number = number
        self._said = Said(PartKind.REASONING)
        self._source: str | None = None
        self._waits = False

    def begin(self) -> None:
        """Another summary."""
        self._waits = self._said.chars > 0

    def add(self, source: str, text: str, events: list[Event]) -> None:
        """source: the member of the item that speaks."""
        if not text or self._source not in (None, source):
            return
        self._source = source
        if self._waits:
            self._waits = False
            text = BETWEEN_SUMMARIES + text
        self._said.add(text, self._number, events)

    def done(self, item: ReasoningItem, events: list[Event]) -> None:
        """The item is there, with its seal; a thought that says nothing and is sealed is a hidden one."""
        self._said.rest(thought(item, self._source), self._number, events)
        signed = from_wire(item.id, item.encrypted_content, silent=self._said.part is None)
        if signed is not None and not self._said.closed:
            part = self._said.part
            if part is None:
                part = self._said.part = self._number()
                events.append(PartStart(part, PartKind.REASONING, redacted=signed.redacted))
            events.append(Signature(part, signed.signature))
        self.close(events)

    def close(self, events: list[Event]) -> None:
        self._said.close(events)


class CallReading:
    """A call.  It opens when its name is known; what came before waits.  A free form is read as its wrapping."""

    __slots__ = ("_chars", "_closed", "_named", "_number", "_part", "_pending", "free")

    def __init__(self, number: Number, named: Callable[[CallItem, int], tuple[str, str]], *, free: bool) -> None:
        self.free = free
        self._number = number
        self._named = named  # gives the id and the name
        self._part: int | None = None
        self._pending: list[str] = []
        self._chars = 0
        self._closed = False

    @property
    def made(self) -> bool:
        return self._part is not None

    def begin(self, item: CallItem, events: list[Event]) -> None:
        """What is known of it so far; arguments that stand here are said once more."""
        if self._part is not None or not item.name:
            return
        self._part = self._number()
        identity, name = self._named(item, self._part)
        events.append(PartStart(self._part, PartKind.TOOL, 0, identity, name))
        if self.free:
            events.append(ArgsDelta(self._part, free_form.HEAD))
        pending, self._pending = self._pending, []
        for text in pending:
            self._put(text, events)

    def add(self, text: str, events: list[Event]) -> None:
        if not text or self._closed:
            return
        self._chars += len(text)
        if self._part is not None:
            self._put(text, events)
            return
        if self._chars > FRAME_CAP_BYTES:
            raise WireError("a call without a name is larger than a frame may be")
        self._pending.append(text)

    def rest(self, whole: str | None, events: list[Event]) -> None:
        """All of it has been said."""
        if whole is not None:
            self.add(whole[self._chars :], events)

    def done(self, item: CallItem, events: list[Event]) -> None:
        self.begin(item, events)
        self.rest(item.input if self.free else item.arguments, events)
        self.close(events)

    def close(self, events: list[Event]) -> None:
        """Raises `WireError` for a call that never had a name, unless it was empty."""
        if self._part is None and self._pending:
            raise WireError("a tool call without a name")
        if self._part is not None and not self._closed:
            if self.free:
                events.append(ArgsDelta(self._part, free_form.TAIL))
            events.append(PartEnd(self._part))
        self._closed = True

    def _put(self, text: str, events: list[Event]) -> None:
        assert self._part is not None
        events.append(ArgsDelta(self._part, free_form.inner(text) if self.free else text))


class PictureReading:
    """A picture comes whole, when its item is done."""

    __slots__ = ("_number", "_shown")

    def __init__(self, number: Number) -> None:
        self._number = number
        self._shown = False

    def done(self, item: PictureItem, events: list[Event]) -> None:
        if not item.result or self._shown:
            return
        self._shown = True
        part = self._number()
        media = MediaDelta(part, media_type_of(item.output_format, item.result), item.result)
        events += [PartStart(part, PartKind.IMAGE), media, PartEnd(part)]

    def close(self, events: list[Event]) -> None:
        pass


ItemReading = MessageReading | ThoughtReading | CallReading | PictureReading
FREE_FORM_TYPE: Final = "custom_tool_call"

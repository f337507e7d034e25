"""What is said in one call, kept until its end where the operator wants texts in the records.

Every attempt must be allowed to be heard: one policy that held, or one endpoint that was asked, which forbids it, and
nothing of the call is kept.  So nothing is kept either of a call that was refused before anybody was asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rivermouth.engine.tally import Tally
from rivermouth.ir.events import ArgsDelta, Event, PartKind, PartStart, ReasoningDelta, TextDelta
from rivermouth.ir.request import EmbedRequest, File, Part, Reasoning, Request, Text, ToolCall, ToolResult
from rivermouth.routing.endpoint import Candidate
from rivermouth.store.port import CallText, Quoted, Said

PROMPT_CAP_CHARS: Final = 64 * 1024
ANSWER_CAP_CHARS: Final = 64 * 1024


class Hearing(Tally):
    """A tally that keeps the text of the answer too, up to its cap."""

    __slots__ = ("_part", "_pieces", "_room", "cut")

    def __init__(self) -> None:
        super().__init__()
        self._pieces: list[str] = []
        self._room = ANSWER_CAP_CHARS
        self._part = -1
        self.cut = False

    def feed(self, events: list[Event]) -> bool:
        for event in events:
            self._hear(event)
        return super().feed(events)

    @property
    def text(self) -> str:
        """Parts each begin on a line of their own; a tool's call begins with its name."""
        return "".join(self._pieces)

    def _hear(self, event: Event) -> None:
        match event:
            case TextDelta() | ReasoningDelta():
                self._add(event.part, event.text)
            case ArgsDelta():
                self._add(event.part, event.json)
            case PartStart() if event.kind is PartKind.TOOL:
                self._add(event.part, f"{event.name or ''} ")
            case _:
                pass

    def _add(self, part: int, text: str) -> None:
        if part != self._part and self._pieces:
            text = "\n" + text
        self._part = part
        if len(text) > self._room:
            self.cut = True
            text = text[: self._room]
        self._room -= len(text)
        if text:
            self._pieces.append(text)


class Transcript:
    """`heard` for each attempt before it begins; `text` when the call has ended."""

    def __init__(self) -> None:
        self._forbidden = False
        self._last: Hearing | None = None

    def heard(self, candidate: Candidate) -> Tally:
        """What counts this attempt."""
        allowed = candidate.endpoint.records_text and all(p.records_text for p in candidate.policies)
        self._forbidden = self._forbidden or not allowed
        self._last = None if self._forbidden else Hearing()
        return self._last or Tally()

    def text(
        self, call_id: str, started_ns: int, request: Request | EmbedRequest, errors: tuple[Quoted, ...] = ()
    ) -> CallText | None:
        """The request, the answer of the last attempt and how failed ones put it; None where nothing may be kept."""
        last = self._last
        if last is None or self._forbidden:
            return None
        prompt, cut = bounded(said(request))
        return CallText(call_id, started_ns, prompt, last.text, cut or last.cut, errors)


def said(request: Request | EmbedRequest) -> Iterator[Said]:
    """The texts of a request, one for each message; what is no text is named in brackets."""
    if isinstance(request, EmbedRequest):
        yield from (Said("input", text) for text in request.input)
        return
    if request.system:
        yield Said("system", "\n".join(t.text for t in request.system))
    for message in request.messages:
        yield Said(message.role.value, "\n".join(_written(part) for part in message.parts))


def _written(part: Part) -> str:
    match part:
        case Text() | Reasoning():
            return part.text
        case ToolCall():
            return f"{part.name} {part.arguments}"
        case ToolResult():
            return "\n".join(_written(inner) for inner in part.content)
        case File() if part.text is not None:
            return part.text
        case _:
            return f"[{type(part).__name__.lower()}]"


def bounded(messages: Iterator[Said]) -> tuple[tuple[Said, ...], bool]:
    """The messages up to the cap, and whether any of it is missing."""
    room, kept = PROMPT_CAP_CHARS, []
    for message in messages:
        if len(message.text) >= room:
            kept.append(Said(message.role, message.text[:room]))
            return tuple(kept), True
        room -= len(message.text) + len(message.role)
        kept.append(message)
        if room <= 0:
            return tuple(kept), True
    return tuple(kept), False

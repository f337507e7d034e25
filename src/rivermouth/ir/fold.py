"""Events to a message, and a message back to events.

`Fold` is the ONE accumulator: non-streaming replies, checkpoints, snapshots and recovery all use it.
`unfold` is its inverse, so that a whole reply takes the same path as a stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from rivermouth.ir.errors import ApiError
from rivermouth.ir.events import (
    ArgsDelta,
    Error,
    Event,
    Finish,
    MediaDelta,
    PartEnd,
    PartKind,
    PartStart,
    Reason,
    ReasoningDelta,
    Signature,
    Start,
    TextDelta,
    Unknown,
    Usage,
    Warn,
    merge_usage,
)
from rivermouth.ir.reply import Choice, Reply, ReplyPart
from rivermouth.ir.request import File, Image, Reasoning, Refusal, Text, ToolCall


class Fold:
    """Feed it events; `reply()` gives what they say so far.  It trusts `grammar` for the order."""

    def __init__(self) -> None:
        self.start: Start | None = None
        self.usage: Usage | None = None
        self.finish: Finish | None = None
        self.error: ApiError | None = None
        self.heads: list[PartStart] = []
        self.texts: list[list[str]] = []
        self.signatures: dict[int, str] = {}
        self.media: dict[int, MediaDelta] = {}
        self.warnings: list[Warn] = []

    def feed(self, event: Event) -> None:
        FOLDS[type(event)](self, event)

    def feed_all(self, events: Iterable[Event]) -> Fold:
        for event in events:
            FOLDS[type(event)](self, event)
        return self

    def reply(self) -> Reply:
        """The answer so far.  A choice without a stated end reads STOP, or TOOL_CALLS if it holds a call."""
        start = self.start or Start()
        count = max([h.choice for h in self.heads], default=0) + 1
        reasons = self.finish.reasons if self.finish else ()
        return Reply(
            choices=tuple([self._choice(i, reasons) for i in range(max(count, len(reasons)))]),
            usage=self.usage,
            id=start.id,
            model=start.model,
            created=start.created,
            warnings=tuple(self.warnings),
        )

    def _choice(self, index: int, reasons: tuple[Reason, ...]) -> Choice:
        parts = tuple([self._part(h) for h in self.heads if h.choice == index])
        if index < len(reasons):
            reason = reasons[index]
        elif self.finish is not None:
            reason = self.finish.reason
        else:
            reason = Reason.TOOL_CALLS if any(isinstance(p, ToolCall) for p in parts) else Reason.STOP
        sequence = self.finish.stop_sequence if self.finish and index == 0 else None
        return Choice(parts=parts, reason=reason, stop_sequence=sequence)

    def _part(self, head: PartStart) -> ReplyPart:
        return WHOLE[head.kind](self, head, "".join(self.texts[head.part]))


def _reasoning(said: Fold, head: PartStart, text: str) -> Reasoning:
    return Reasoning(text, said.signatures.get(head.part), head.redacted)


def _image(said: Fold, head: PartStart, text: str) -> Image:
    media = said.media.get(head.part) or MediaDelta(head.part)
    return Image(media_type=media.media_type, data=media.data, url=media.url)


def _file(said: Fold, head: PartStart, text: str) -> File:
    media = said.media.get(head.part) or MediaDelta(head.part)
    return File(media_type=media.media_type, data=media.data, url=media.url)


WHOLE: Final[Mapping[PartKind, Callable[[Fold, PartStart, str], ReplyPart]]] = {
    PartKind.TEXT: lambda said, head, text: Text(text),
    PartKind.REFUSAL: lambda said, head, text: Refusal(text),
    PartKind.REASONING: _reasoning,
    PartKind.TOOL: lambda said, head, text: ToolCall(head.id or "", head.name or "", text),
    PartKind.IMAGE: _image,
    PartKind.FILE: _file,
}
"""What each kind of part has become, given the text that was said in it."""


def _said(said: Fold, event: TextDelta | ReasoningDelta) -> None:
    said.texts[event.part].append(event.text)


def _arguments(said: Fold, event: ArgsDelta) -> None:
    said.texts[event.part].append(event.json)


def _opened(said: Fold, event: PartStart) -> None:
    said.heads.append(event)
    said.texts.append([])


def _signed(said: Fold, event: Signature) -> None:
    said.signatures[event.part] = event.signature


def _media(said: Fold, event: MediaDelta) -> None:
    said.media[event.part] = event


def _counted(said: Fold, event: Usage) -> None:
    said.usage = merge_usage(said.usage, event)


def _started(said: Fold, event: Start) -> None:
    said.start = event


def _finished(said: Fold, event: Finish) -> None:
    said.finish = event


def _failed(said: Fold, event: Error) -> None:
    said.error = event.error


def _warned(said: Fold, event: Warn) -> None:
    said.warnings.append(event)


def _passed(said: Fold, event: Event) -> None:
    """A message does not tell of it."""


FOLDS: Final[Mapping[type, Callable[[Fold, Any], None]]] = {
    Start: _started,
    PartStart: _opened,
    TextDelta: _said,
    ReasoningDelta: _said,
    Signature: _signed,
    ArgsDelta: _arguments,
    MediaDelta: _media,
    PartEnd: _passed,
    Usage: _counted,
    Warn: _warned,
    Unknown: _passed,
    Finish: _finished,
    Error: _failed,
}
"""What each event adds."""


def fold(events: Iterable[Event]) -> Reply:
    """Events -> reply.  Raises the `ApiError` if the stream ended with one."""
    folded = Fold().feed_all(events)
    if folded.error is not None:
        raise folded.error
    return folded.reply()


def unfold(reply: Reply) -> list[Event]:
    """Reply -> the shortest legal stream that folds to it."""
    events: list[Event] = [Start(reply.id, reply.model, reply.created), *reply.warnings]
    number = 0
    for index, choice in enumerate(reply.choices):
        for part in choice.parts:
            events += _unfold_part(part, number, index)
            number += 1
    if reply.usage is not None:
        events.append(reply.usage)
    reasons = tuple(c.reason for c in reply.choices)
    first = reply.choices[0]
    events.append(Finish(first.reason, first.stop_sequence, reasons if len(reasons) > 1 else ()))
    return events


def _unfold_part(part: ReplyPart, n: int, choice: int) -> list[Event]:
    match part:
        case Text():
            return [PartStart(n, PartKind.TEXT, choice), *_text(n, part.text), PartEnd(n)]
        case Refusal():
            return [PartStart(n, PartKind.REFUSAL, choice), *_text(n, part.text), PartEnd(n)]
        case Reasoning():
            body: list[Event] = [ReasoningDelta(n, part.text)] if part.text else []
            signed: list[Event] = [Signature(n, part.signature)] if part.signature is not None else []
            return [PartStart(n, PartKind.REASONING, choice, redacted=part.redacted), *body, *signed, PartEnd(n)]
        case ToolCall():
            args: list[Event] = [ArgsDelta(n, part.arguments)] if part.arguments else []
            return [PartStart(n, PartKind.TOOL, choice, part.id, part.name), *args, PartEnd(n)]
        case Image() | File():
            kind = PartKind.IMAGE if isinstance(part, Image) else PartKind.FILE
            media = MediaDelta(n, part.media_type, part.data, part.url)
            return [PartStart(n, kind, choice), media, PartEnd(n)]


def _text(n: int, text: str) -> list[Event]:
    return [TextDelta(n, text)] if text else []

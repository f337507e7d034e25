"""A stream of this dialect to events.  Pure; tolerant of what servers really send (the numbers are the package's)."""

from __future__ import annotations

import hashlib
from typing import Any, Final

from rivermouth.dialects.openai_chat.calls import Calls
from rivermouth.dialects.openai_chat.opaque import upstream_signature
from rivermouth.dialects.openai_chat.shapes import (
    ChoiceShape,
    Chunk,
    ContentPart,
    Delta,
    MediaShape,
    ReasoningDetail,
    ToolCallShape,
)
from rivermouth.dialects.openai_chat.tables import FINISH_FAILED, FINISH_IN
from rivermouth.dialects.openai_chat.template import LEARN_CAP, PROBE, PROBE_TEXT, cut
from rivermouth.ir.errors import ApiError, Kind, WireError, truncated
from rivermouth.ir.events import (
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
    Warn,
)
from rivermouth.ir.request import Request
from rivermouth.vendors.openai.failures import error_value, mask, read_error
from rivermouth.vendors.openai.usage import UsageShape, read_usage
from rivermouth.wire import json
from rivermouth.wire.frame import FRAME_CAP_BYTES, Frame
from rivermouth.wire.stencil import Stencil

NAME: Final = "openai_chat"
CHOICES_CAP: Final = 128
_TEXT: Final = PartKind.TEXT
_REASONING: Final = PartKind.REASONING
_PROSE: Final = frozenset({TextDelta, ReasoningDelta})
PROSE_MEMBERS: Final = {
    "content": _TEXT,
    "reasoning_content": _REASONING,
    "reasoning": _REASONING,
}
_chunk: Final = json.typed(Chunk)
_decode: Final = json.decode_as
_text: Final = json.text


class ChoiceState:
    """One choice.  At most one part of prose (text, reasoning, refusal) is open; calls stay open until the end (O6)."""

    __slots__ = ("about", "block", "calls", "index", "kind", "part", "reason", "signature", "unsigned")

    def __init__(self, index: int, calls: Calls) -> None:
        self.index = index
        self.calls = calls
        self.part: int = -1
        self.kind: PartKind | None = None
        self.block: int | None = None
        self.signature = ""  # as it comes, perhaps in pieces
        self.about: ReasoningDetail | None = None  # the detail that brought its last piece
        self.unsigned = False
        self.reason: Reason | None = None


class Decoder:
    """Frames to events, exactly one Finish or Error.  `Finish` comes with `[DONE]` and with nothing else (F10)."""

    def __init__(self, request: Request | None = None) -> None:
        self._seed = str(len(request.messages)) if request is not None else ""
        self._choices: dict[int, ChoiceState] = {}
        self._parts = 0
        self._started = False
        self._done = False
        # The last text frame, cut around its text, and the choice whose open prose it carries on.
        self._head: bytes | None = None
        self._tail = b""
        self._plain: tuple[ChoiceState, PartKind] | None = None
        self._lessons = 0

    def feed(self, frame: Frame) -> list[Event]:
        """The events of one frame; after the end always [].  Raises `WireError` on what is no chunk."""
        data = frame.data
        if self._done or not data:
            return []
        head, plain = self._head, self._plain
        if head is not None and plain is not None and data.startswith(head) and data.endswith(self._tail):
            choice, kind = plain
            if choice.kind is kind and not choice.signature:
                text = _text(data[len(head) : len(data) - len(self._tail)])
                if text:
                    return [TextDelta(choice.part, text) if kind is _TEXT else ReasoningDelta(choice.part, text)]
        if data.startswith(b"[DONE]"):
            return self._close()
        if frame.name == "error":
            return self._fail(error_value(data))
        chunk = _decode(_chunk, data)
        events = self.chunk(chunk, frame)
        if len(events) == 1 and self._lessons < LEARN_CAP and type(events[0]) in _PROSE:
            self._learn(chunk, data)
        return events

    def plain(self) -> tuple[int, Stencil] | None:
        """The part whose next delta is what fits this stencil; such a delta changes nothing here."""
        if self._head is None or self._plain is None or self._done:
            return None
        choice, kind = self._plain
        if kind is not _TEXT or choice.kind is not kind or choice.signature:
            return None
        return choice.part, Stencil(self._head + b'"', b'"' + self._tail)

    def eof(self) -> list[Event]:
        """The upstream closed.  Without `[DONE]` the answer may be cut, so it is an Error."""
        if self._done:
            return []
        self._done = True
        return [Error(truncated(NAME, "a finish_reason" if self._all_finished() else None))]

    def chunk(self, chunk: Chunk, frame: Frame) -> list[Event]:
        """The events of one decoded chunk."""
        if chunk.error or chunk.object == "error":
            return self._fail(chunk.error or error_value(frame.data))
        events: list[Event] = []
        choices = chunk.choices
        if not self._started:
            if choices == [] and chunk.usage is None and not chunk.id:
                return events  # O15
            self._start(chunk, events)
        if choices is not None:
            for position, choice in enumerate(choices):
                self._choice(position if choice.index is None else choice.index, choice, events)
                if self._done:
                    return events
        elif chunk.usage is None:
            events.append(Unknown(chunk.object or frame.name, frame.data))
        if chunk.usage is not None:
            _usage(chunk.usage, events)
        return events

    def whole(self, chunk: Chunk, frame: Frame) -> list[Event]:
        """The events of a non-streaming reply: one chunk, whose choices are complete even if they do not say so."""
        events = self.chunk(chunk, frame)
        for choice in self._choices.values():
            choice.reason = choice.reason or Reason.STOP
        return events if self._done else events + self._close()

    # -- the hot path ------------------------------------------------------------------------------------------------

    def _learn(self, chunk: Chunk, data: bytes) -> None:
        """Cut the frame around its text, if it is nothing but text; a probe in its place proves the cut."""
        self._lessons += 1
        parts = cut(data)
        found = _plain_text(chunk)
        if parts is None or found is None or found[2] is None:
            return
        head, tail = parts
        index, kind, _ = found
        if _plain_text(_decode(_chunk, head + PROBE + tail)) == (index, kind, PROBE_TEXT):
            self._head, self._tail = head, tail
            self._plain = (self._choices[index], kind)

    # -- the stream ---------------------------------------------------------------------------------------------------

    def _start(self, chunk: Chunk, events: list[Event]) -> None:
        self._started = True
        created = int(chunk.created) if chunk.created is not None else None
        self._seed = f"{chunk.id}|{created}|{self._seed}"
        events.append(Start(chunk.id or None, chunk.model or None, created or None))

    def _fail(self, value: Any) -> list[Event]:
        self._done = True
        return [Error(read_error(value))]

    def _close(self) -> list[Event]:
        """`[DONE]`: the one good end, if every choice has said how it ended."""
        self._done = True
        if not self._started:
            return [Error(ApiError(Kind.UPSTREAM, "the upstream sent an empty stream", code="empty"))]
        if not self._all_finished():
            return [Error(truncated(NAME))]
        events: list[Event] = []
        for choice in self._choices.values():
            error = self._end_choice(choice, events)
            if error is not None:
                return [*events, Error(error)]
        reasons = tuple(self._reason(i) for i in range(max(self._choices) + 1))
        return [*events, Finish(reasons[0], None, reasons if len(reasons) > 1 else ())]

    def _all_finished(self) -> bool:
        return bool(self._choices) and all(c.reason is not None for c in self._choices.values())

    def _reason(self, index: int) -> Reason:
        """The truth about one choice: calls make it TOOL_CALLS, whatever the server said (F24)."""
        choice = self._choices.get(index)
        if choice is None or choice.reason is None:
            return Reason.STOP
        if choice.reason in (Reason.STOP, Reason.TOOL_CALLS):
            return Reason.TOOL_CALLS if choice.calls.made else Reason.STOP
        return choice.reason

    # -- one choice ---------------------------------------------------------------------------------------------------

    def _choice(self, index: int, wire: ChoiceShape, events: list[Event]) -> None:
        choice = self._choices.get(index)
        if choice is None:
            choice = self._open_choice(index)
        delta = wire.delta or wire.message
        if delta is not None:
            if delta.reasoning_content or delta.reasoning or delta.reasoning_details:
                self._reasoning(choice, delta, events)
            content = delta.content
            if content:
                if type(content) is str:
                    part = choice.part if choice.kind is _TEXT else self._switch(choice, _TEXT, events)
                    events.append(TextDelta(part, content))
                else:
                    self._content_list(choice, content, events)  # type: ignore[arg-type]
            if delta.refusal or delta.tool_calls or delta.function_call or delta.images or delta.files:
                self._rest(choice, delta, events)
        if wire.usage is not None:
            _usage(wire.usage, events)
        if wire.finish_reason or wire.error:
            self._finish_choice(choice, wire, events)

    def _open_choice(self, index: int) -> ChoiceState:
        if not 0 <= index < CHOICES_CAP:
            raise WireError(f"choice index {index} is not between 0 and {CHOICES_CAP - 1}")
        choice = ChoiceState(index, Calls(index, self._number, self._mint))
        self._choices[index] = choice
        return choice

    def _finish_choice(self, choice: ChoiceState, wire: ChoiceShape, events: list[Event]) -> None:
        word = wire.finish_reason or ""
        failed = FINISH_FAILED.get(word)
        if wire.error or failed is not None:
            error = read_error(wire.error) if wire.error else ApiError(failed or Kind.UPSTREAM, f"finish_reason {word}")
        else:
            choice.reason = FINISH_IN.get(word)
            if choice.reason is None:
                choice.reason = Reason.STOP
                events.append(Warn(f"unknown finish_reason {mask(word)[:64]!r} read as stop", "finish_reason"))
            end = self._end_choice(choice, events)
            if end is None:
                return
            error = end
        self._done = True
        events.append(Error(error))

    def _end_choice(self, choice: ChoiceState, events: list[Event]) -> ApiError | None:
        """Close everything that is open; the error that makes this impossible, if there is one."""
        self._end_prose(choice, events)
        try:
            choice.calls.close(events)
        except ApiError as error:
            return error
        return None

    # -- prose --------------------------------------------------------------------------------------------------------

    def _switch(self, choice: ChoiceState, kind: PartKind, events: list[Event]) -> int:
        """Close the open prose and open another part; the delta that asked for it comes next (F22)."""
        self._end_prose(choice, events)
        choice.part = self._number()
        choice.kind = kind
        choice.block = None
        events.append(PartStart(choice.part, kind, choice.index))
        return choice.part

    def _end_prose(self, choice: ChoiceState, events: list[Event]) -> None:
        if choice.kind is None:
            return
        if choice.kind is _REASONING:
            choice.unsigned = not choice.signature
            if choice.signature:
                signature = upstream_signature(choice.signature, choice.about)
                if signature is not None:
                    events.append(Signature(choice.part, signature))
                choice.signature = ""
        events.append(PartEnd(choice.part))
        choice.kind = None

    def _reasoning(self, choice: ChoiceState, delta: Delta, events: list[Event]) -> None:
        """Three spellings of one text (F25): `reasoning_content`, else `reasoning`, else the details.

        Details that hold the whole text are read instead of it, since they also say where one block ends.
        """
        details = delta.reasoning_details or ()
        text = delta.reasoning_content or (delta.reasoning if isinstance(delta.reasoning, str) else "")
        spelled = not text or text == "".join(d.text or d.summary or "" for d in details)
        if not spelled:
            self._think(choice, text, None, events)
        for detail in details:
            words = detail.text or detail.summary
            if words and spelled:
                self._think(choice, words, detail.index, events)
            self._seal(choice, detail, events)

    def _think(self, choice: ChoiceState, text: str, block: int | None, events: list[Event]) -> None:
        other = block is not None and choice.block is not None and block != choice.block
        same = choice.kind is _REASONING and not choice.signature and not other
        part = choice.part if same else self._switch(choice, _REASONING, events)
        choice.block = choice.block if block is None else block
        events.append(ReasoningDelta(part, text))

    def _seal(self, choice: ChoiceState, detail: ReasoningDetail, events: list[Event]) -> None:
        """A signature for the reasoning that is open, or a block that is nothing but hidden data."""
        if detail.data:
            signature = upstream_signature(detail.data, detail)
            if signature is not None:
                self._end_prose(choice, events)
                part = self._number()
                events.append(PartStart(part, _REASONING, choice.index, redacted=True))
                events.append(Signature(part, signature))
                events.append(PartEnd(part))
        elif detail.signature and detail.signature != choice.signature:
            choice.about = detail
            lost = choice.unsigned if choice.kind is not _REASONING else choice.block != detail.index
            if choice.kind is _REASONING and (not choice.signature or not lost):
                choice.signature += detail.signature
                if len(choice.signature) > FRAME_CAP_BYTES:
                    raise WireError("a reasoning signature is larger than a frame may be")
                choice.block = detail.index
            elif lost:
                events.append(Warn("a reasoning signature could not be paired with its text", "reasoning_details"))
            else:
                self._switch(choice, _REASONING, events)
                choice.signature = detail.signature
                choice.block = detail.index

    def _content_list(self, choice: ChoiceState, parts: list[ContentPart], events: list[Event]) -> None:
        """O10: content as a list of parts."""
        for part in parts:
            if part.thinking:
                text = part.thinking if isinstance(part.thinking, str) else _joined(part.thinking)
                if text:
                    self._think(choice, text, None, events)
            elif part.text:
                number = choice.part if choice.kind is _TEXT else self._switch(choice, _TEXT, events)
                events.append(TextDelta(number, part.text))

    # -- the rest -----------------------------------------------------------------------------------------------------

    def _rest(self, choice: ChoiceState, delta: Delta, events: list[Event]) -> None:
        if delta.refusal:
            refused = choice.kind is PartKind.REFUSAL
            part = choice.part if refused else self._switch(choice, PartKind.REFUSAL, events)
            events.append(TextDelta(part, delta.refusal))
        for kind, media in ((PartKind.IMAGE, delta.images), (PartKind.FILE, delta.files)):
            for entry in media or ():
                self._media(choice, kind, entry, events)
        legacy = delta.function_call
        if legacy is not None and (legacy.name or legacy.arguments):
            self._end_prose(choice, events)
            choice.calls.feed(ToolCallShape(index=-1, function=legacy), events)
        if delta.tool_calls:
            self._end_prose(choice, events)
            for call in delta.tool_calls:
                choice.calls.feed(call, events)

    def _media(self, choice: ChoiceState, kind: PartKind, wire: MediaShape, events: list[Event]) -> None:
        link = wire.image_url if isinstance(wire.image_url, str) else wire.image_url.url if wire.image_url else None
        link = wire.file.file_data if link is None and wire.file is not None else link
        if not link:
            return
        self._end_prose(choice, events)
        part = self._number()
        head, comma, body = link.partition(",")
        inline = head.startswith("data:") and head.endswith(";base64") and bool(comma)
        media = MediaDelta(part, head[5:-7] or None, body) if inline else MediaDelta(part, url=link)
        events += [PartStart(part, kind, choice.index), media, PartEnd(part)]

    def _number(self) -> int:
        self._parts += 1
        return self._parts - 1

    def _mint(self, choice: int, part: int) -> str:
        """An id for a call without one: the same for the same stream, another for another turn."""
        return "call_" + hashlib.sha256(f"{self._seed}|{choice}|{part}".encode()).hexdigest()[:24]


def _plain_text(chunk: Chunk) -> tuple[int, PartKind, str | None] | None:
    """(choice, kind, text) of a chunk that holds one piece of text or reasoning and nothing else."""
    if chunk.usage is not None or chunk.error or not chunk.choices or len(chunk.choices) != 1:
        return None
    choice = chunk.choices[0]
    delta = choice.delta or choice.message
    if delta is None or choice.finish_reason or choice.usage is not None or choice.error:
        return None
    said = [name for name in Delta.__struct_fields__ if getattr(delta, name)]
    kind = PROSE_MEMBERS.get(said[0]) if len(said) == 1 else None
    text = getattr(delta, said[0]) if kind is not None else None
    return (choice.index or 0, kind, text) if kind is not None and isinstance(text, str) else None


def _usage(wire: UsageShape, events: list[Event]) -> None:
    usage = read_usage(wire)
    if usage is not None:
        events.append(usage)


def _joined(entries: Any) -> str:
    if not isinstance(entries, list):
        return ""
    return "".join(str(e.get("text") or "") for e in entries if isinstance(e, dict))

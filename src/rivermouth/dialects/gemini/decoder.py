"""An upstream's frames to events.

Every frame is a whole response object with what is new.  A choice has at most one open part, whose kind follows what is
said (F23).  The frame in which the last choice says why it ended is the end; the protocol has no other.

    frame with text, thoughts, calls     parts open, are filled, and close when the kind changes
    frame with finishReason              the choice is over; all choices over: Usage, Finish
    frame with promptFeedback            the prompt was refused: Finish(content_filter)
    frame with error                     Error
"""

from __future__ import annotations

from typing import Final

from rivermouth.dialects.gemini import usage
from rivermouth.dialects.gemini.errors import parse_stream_error
from rivermouth.dialects.gemini.opaque import Place, from_wire
from rivermouth.dialects.gemini.parts import UNKNOWN_TYPE
from rivermouth.dialects.gemini.proto import standard_base64
from rivermouth.dialects.gemini.shapes import (
    COUNTED,
    ENDED,
    FEEDBACK,
    FRAME,
    HEAD,
    Feedback,
    WireCall,
    WireCandidate,
    WireFrame,
    WirePart,
    said,
)
from rivermouth.dialects.gemini.tables import FINISH_FAILED, FINISH_IN, NAME, UNSAID, reason_of
from rivermouth.dialects.gemini.template import LEARN_CAP, cut
from rivermouth.ir.call_ids import call_id
from rivermouth.ir.errors import ApiError, Kind, WireError, truncated
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
)
from rivermouth.ir.names import quoted
from rivermouth.ir.request import Request
from rivermouth.wire import json
from rivermouth.wire.frame import Frame

_NOBODY: Final = -1
_USAGE: Final = b'"usageMetadata"'
_ERROR: Final = b'"error"'
CHOICES_CAP: Final = 128
DONE: Final = b"[DONE]"  # said by servers that imitate another protocol; it says nothing here


class _Flow:
    """Text or thoughts of choice 0: the part that is open, and how its frames look (see `template`)."""

    __slots__ = ("counts", "delta", "head", "lessons", "middle", "part")

    def __init__(self, delta: type[TextDelta | ReasoningDelta]) -> None:
        self.delta = delta
        self.part = _NOBODY
        self.head: bytes | None = None
        self.middle = b""
        self.counts = False  # whether such frames count tokens
        self.lessons = 0


class _Choice:
    """One candidate: the part that is open, and why it ended."""

    __slots__ = ("called", "index", "kind", "part", "word")

    def __init__(self, index: int) -> None:
        self.index = index
        self.kind: PartKind | None = None
        self.part = _NOBODY
        self.called = False
        self.word: str | None = None


class Decoder:
    """One stream.  Pure: same frames in, same events out."""

    __slots__ = (
        "_choices",
        "_counted",
        "_done",
        "_flows",
        "_hot",
        "_id",
        "_ids",
        "_next",
        "_started",
        "_wanted",
        "_warned",
    )

    def __init__(self, request: Request | None = None) -> None:
        self._wanted = request.n if request is not None else 1
        self._choices: dict[int, _Choice] = {}
        self._started = False
        self._done = False
        self._flows = {PartKind.TEXT: _Flow(TextDelta), PartKind.REASONING: _Flow(ReasoningDelta)}
        self._hot: _Flow | None = None  # that of the part of choice 0 that is open
        self._next = 0
        self._id = ""
        self._ids: set[str] = set()
        self._counted = b""  # the last frame that counts tokens; read when they are wanted
        self._warned = False

    def feed(self, frame: Frame) -> list[Event]:
        """The events of one frame.  Raises `WireError` when it is no response object."""
        data = frame.data
        hot = self._hot
        if hot is not None and hot.head is not None and data.startswith(hot.head):  # more of what is flowing
            end = data.find(hot.middle, len(hot.head))
            text = json.text(data[len(hot.head) : end + 1]) if end >= 0 else None
            if text and data.find(_ERROR, end) < 0:
                if hot.counts and data.find(_USAGE, end) >= 0:
                    self._counted = data
                return [hot.delta(hot.part, text)]
        return [] if self._done else self._read(frame, data)

    def _read(self, frame: Frame, data: bytes) -> list[Event]:
        """A frame that has to be read whole."""
        try:
            found = json.decode_as(FRAME, data)
        except WireError:
            if data == DONE:
                return []
            raise
        if found.usage_metadata:
            self._counted = data
        events = self._any(found, frame)
        if len(events) == 1 and self._hot is not None:
            self._learn(self._hot, data, events[0])
        return events

    def eof(self) -> list[Event]:
        """The connection ended: fine if every choice that was begun has said why it ended, else a cut (F10)."""
        if self._done:
            return []
        if self._choices and all(choice.word is not None for choice in self._choices.values()):
            return self._finish()
        self._end()
        return [*self._counts(whole=False), Error(truncated(NAME))]

    def _learn(self, hot: _Flow, data: bytes, event: Event) -> None:
        """The frame said one thing of the part that is open: later ones may look like it."""
        if hot.lessons >= LEARN_CAP or type(event) is not hot.delta or event.part != hot.part:
            return
        hot.lessons += 1
        around = cut(data)
        if around is not None and data.find(_ERROR) < 0:
            hot.head, hot.middle = around
            hot.counts = data.find(_USAGE) >= 0

    def _any(self, found: WireFrame, frame: Frame) -> list[Event]:
        if said(found.error):
            self._end()
            return [*self._counts(whole=False), Error(parse_stream_error(json.decode(found.error)))]
        events = self._start(frame, found)
        for candidate in found.candidates or ():
            self._candidate(events, candidate, frame)
        if said(found.prompt_feedback) and not self._choices:
            blocked = json.decode_as(FEEDBACK, found.prompt_feedback)
            if blocked.block_reason is not None:
                return events + self._blocked(blocked)
        if not found.candidates and not said(found.usage_metadata):
            events.append(Unknown("", frame.data))
        failed = self._failed(frame)
        if failed is not None:
            self._end()
            return [*events, *self._counts(), Error(failed)]
        choices = self._choices
        if choices and len(choices) >= self._wanted and all(c.word is not None for c in choices.values()):
            events += self._finish()
        return events

    def _start(self, frame: Frame, found: WireFrame) -> list[Event]:
        """Start, and the prompt's tokens; those of the answer are true only at the end."""
        if self._started:
            return []
        self._started = True
        head = json.decode_as(HEAD, frame.data)
        self._id = head.response_id or ""
        events: list[Event] = [Start(head.response_id, head.model_version)]
        if said(found.usage_metadata):
            counts = usage.to_neutral(found.usage_metadata)
            if counts is not None and counts.input_tokens is not None:
                events.append(Usage(input_tokens=counts.input_tokens, cached_tokens=counts.cached_tokens))
        return events

    def _candidate(self, events: list[Event], candidate: WireCandidate, frame: Frame) -> None:
        index = candidate.index or 0
        if not 0 <= index < CHOICES_CAP:
            raise WireError("a candidate's index is out of bounds")
        choice = self._choices.get(index)
        if choice is None:
            choice = self._choices[index] = _Choice(index)
        for part in candidate.content.parts or () if candidate.content is not None else ():
            self._part(events, choice, part, frame)
        word = candidate.finish_reason
        if word is not None and word != UNSAID:
            self._close(events, choice)
            choice.word = word

    def _part(self, events: list[Event], choice: _Choice, part: WirePart, frame: Frame) -> None:
        signature = part.thought_signature
        if part.function_call is not None:
            self._sign(events, choice, Place.CALL, signature)
            self._call(events, choice, part.function_call)
        elif part.thought:
            if part.text:
                number = self._open(events, choice, PartKind.REASONING)
                events.append(ReasoningDelta(number, part.text))
            self._sign(events, choice, Place.THOUGHT, signature)
        else:
            has_content = bool(part.text) or part.inline_data is not None or part.file_data is not None
            if part.text:
                events.append(TextDelta(self._open(events, choice, PartKind.TEXT), part.text))
            self._media(events, choice, part)
            self._sign(events, choice, Place.TEXT if has_content else Place.END, signature)
            if said(part.executable_code) or said(part.code_execution_result):
                self._vendors(events, frame)

    def _media(self, events: list[Event], choice: _Choice, part: WirePart) -> None:
        blob, reference = part.inline_data, part.file_data
        if blob is not None:
            kind = blob.mime_type or UNKNOWN_TYPE
            number = self._open(events, choice, _media_kind(kind), again=True)
            events.append(MediaDelta(number, kind, standard_base64(blob.data)))
            self._close(events, choice)
        if reference is not None:
            number = self._open(events, choice, _media_kind(reference.mime_type or ""), again=True)
            events.append(MediaDelta(number, reference.mime_type, url=reference.file_uri))
            self._close(events, choice)

    def _vendors(self, events: list[Event], frame: Frame) -> None:
        """Code that the vendor ran, and what came of it: only a client of this dialect sees them."""
        if not self._warned:
            self._warned = True
            events.append(Warn("the code that the model's own tool ran is left out", "executableCode"))
        events.append(Unknown("", frame.data))

    def _call(self, events: list[Event], choice: _Choice, call: WireCall) -> None:
        if not call.name:
            raise WireError("a function call without a name")
        if call.will_continue or said(call.partial_args):
            raise WireError("a function call in pieces, which nobody asked for")
        arguments = bytes(call.args).decode("utf-8", "replace")
        if arguments and arguments != "null" and arguments[:1] != "{":
            raise WireError("the arguments of a function call are no object")
        self._close(events, choice)
        number = self._next
        self._next += 1
        choice.called = True
        events.append(
            PartStart(number, PartKind.TOOL, choice.index, call_id(call.id, self._id, number, self._ids), call.name)
        )
        if arguments and arguments != "null":
            events.append(ArgsDelta(number, arguments))
        events.append(PartEnd(number))

    def _sign(self, events: list[Event], choice: _Choice, place: Place, wire: str | None) -> None:
        """Signs the reasoning that is open, or a part of its own, and closes it."""
        signature, redacted = from_wire(place, wire) if wire else (None, False)
        if signature is None:
            return
        number = self._open(events, choice, PartKind.REASONING, again=redacted, redacted=redacted)
        events.append(Signature(number, signature))
        self._close(events, choice)

    def _open(
        self, events: list[Event], choice: _Choice, kind: PartKind, *, again: bool = False, redacted: bool = False
    ) -> int:
        """The number of the choice's open part of that kind, after opening it if need be."""
        if choice.kind is not kind or again:
            self._close(events, choice)
            choice.kind, choice.part = kind, self._next
            self._next += 1
            events.append(PartStart(choice.part, kind, choice.index, redacted=redacted))
            if choice.index == 0 and kind in self._flows:
                self._hot = self._flows[kind]
                self._hot.part = choice.part
        return choice.part

    def _close(self, events: list[Event], choice: _Choice) -> None:
        if choice.kind is not None:
            events.append(PartEnd(choice.part))
            choice.kind, choice.part = None, _NOBODY
            if choice.index == 0:
                self._hot = None

    def _counts(self, *, whole: bool = True) -> list[Event]:
        """The tokens so far, as the upstream said them last; before the end a 0 only means that it has not counted."""
        if not self._started or not self._counted:
            return []
        try:
            raw = json.decode_as(COUNTED, self._counted).usage_metadata
            counts = usage.to_neutral(raw) if said(raw) else None
        except WireError:  # a frame that was read by its looks, and is broken behind its text
            counts = None
        if counts is None:
            return []
        if not whole and not counts.output_tokens:
            return [Usage(input_tokens=counts.input_tokens, cached_tokens=counts.cached_tokens)]
        return [counts]

    def _blocked(self, feedback: Feedback) -> list[Event]:
        """The prompt was refused.  That is an answer, and other protocols have a word for it."""
        self._end()
        text = feedback.block_reason_message or f"the prompt was blocked ({feedback.block_reason})"
        return [Warn(text, "promptFeedback"), *self._counts(), Finish(Reason.CONTENT_FILTER)]

    def _failed(self, frame: Frame) -> ApiError | None:
        """The failure that a choice's end is, if it is one."""
        word = next((c.word for c in self._choices.values() if c.word in FINISH_FAILED), None)
        if word is None:
            return None
        messages = json.decode_as(ENDED, frame.data).candidates
        text = next((m.finish_message for m in messages if m.finish_message), FINISH_FAILED[word])
        return ApiError(Kind.UPSTREAM, f"{text} ({word})", code=word.lower(), provider=NAME)

    def _end(self) -> None:
        """Nothing is read any more, also of what was flowing."""
        self._done = True
        self._hot = None

    def _finish(self) -> list[Event]:
        self._end()
        events: list[Event] = []
        reasons = [Reason.STOP] * (max(self._choices) + 1)
        for index, choice in self._choices.items():
            self._close(events, choice)
            if choice.word not in FINISH_IN:
                events.append(
                    Warn(f"the upstream's finishReason {quoted(choice.word or '')} is not known", "finishReason")
                )
            reasons[index] = reason_of(choice.word or "", called=choice.called)
        several = tuple(reasons) if len(reasons) > 1 else ()
        return [*events, *self._counts(), Finish(reasons[0], None, several)]


def _media_kind(media_type: str) -> PartKind:
    return PartKind.IMAGE if media_type.startswith("image/") else PartKind.FILE

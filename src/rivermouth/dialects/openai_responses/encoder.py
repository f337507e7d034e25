"""Events to a client's stream.

    created ; in_progress ; item* ; completed | incomplete | failed          (the items: `items`)

* One item is open at a time: of parts that overlap the first speaks and the others wait (F26).  Text opens with its
  first word, a call with its name.
* Ids are made from the call's id and the position, numbers are dense: the same events give the same bytes.
* What is done is said again, in the events that end it and in the last one of the stream; so all of it is kept, within
  a bound.
* An item is only done when the next event is there: what the model's limit cut off is told incomplete, or agents would
  run half a call.  When the stream fails an open item is left open, for the same reason; the response tells its text.
"""

from __future__ import annotations

from typing import Final

from rivermouth.dialects.dialect import Answer
from rivermouth.dialects.openai_responses.frames import Frames
from rivermouth.dialects.openai_responses.items import (
    CALL,
    COMPLETED,
    FREE_FORM,
    IN_PROGRESS,
    INCOMPLETE,
    MANNERS,
    TEXT,
    Item,
)
from rivermouth.dialects.openai_responses.opaque import to_client
from rivermouth.dialects.openai_responses.pictures import format_of
from rivermouth.dialects.openai_responses.response import Template
from rivermouth.dialects.openai_responses.tables import STATUSES, WHY
from rivermouth.dialects.openai_responses.tools import Called, called_as
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.events import (
    ArgsDelta,
    Error,
    Event,
    Finish,
    MediaDelta,
    PartEnd,
    PartKind,
    PartStart,
    ReasoningDelta,
    Signature,
    TextDelta,
    Usage,
    merge_usage,
)
from rivermouth.ir.lanes import Lanes, Said
from rivermouth.ir.media import sentence
from rivermouth.vendors.openai.free_form import Unwrapping
from rivermouth.wire import json

CAP_BYTES: Final = 8 * 1024 * 1024
"""Of what is said again at the end: the last event has it once, and clients' readers have bounds of their own."""
_NOBODY: Final = -1
_encode: Final = json.encode


class Encoder:
    """Speaks choice 0.  After Finish or Error it says nothing more.

    Raises `ApiError` for an answer that is too long to be said again, and when what waits is more than the cap; what
    came before it goes out before the error.  `response`: what it ended with, as a document.
    """

    def __init__(self, answer: Answer) -> None:
        self.response = b""
        self._answer = answer
        self._frames = Frames()
        self._template: Template | None = None
        self._called: dict[str, Called] = dict(called_as(answer.request))
        self._lanes = Lanes()
        self._starts: dict[int, PartStart] = {}  # of the parts that have not ended
        self._current = _NOBODY  # the part that speaks,
        self._item: Item | None = None  # its item, once there is something of it,
        self._around = (b"", b"", b"")  # the bytes around its deltas,
        self._unwrapping: Unwrapping | None = None  # and the wrapping that its text comes out of
        self._ended: Item | None = None  # the item whose part has ended; it is done when the next event is there
        self._output: list[bytes] = []  # the items that are done
        self._kept_bytes = 0
        self._items = 0
        self._usage: Usage | None = None
        self._failed = False
        self._done = False
        self._unsent: list[bytes] = []

    def feed(self, events: list[Event]) -> bytes:
        """The bytes of these events, joined for one send."""
        out: list[bytes] = []
        try:
            self._write(events, out)
        except ApiError:
            self._unsent += out
            raise
        return b"".join(out)

    def statistics(self) -> dict[str, int]:
        """`held_bytes` (of what will be said again) and `waiting_chars`, each with its cap."""
        return {"held_bytes": self._kept_bytes, "cap_bytes": CAP_BYTES, **self._lanes.statistics()}

    def _write(self, events: list[Event], out: list[bytes]) -> None:
        for event in events:
            if self._done:
                return
            kind = type(event)
            if kind is TextDelta or kind is ReasoningDelta:
                if event.part == self._current:  # type: ignore[union-attr]
                    self._say(_encode(event.text), out)  # type: ignore[union-attr]
                else:
                    self._hold(event.part, event)  # type: ignore[union-attr]
            else:
                self._other(event, out)

    def _other(self, event: Event, out: list[bytes]) -> None:
        match event:
            case ArgsDelta() | Signature() | MediaDelta():
                if event.part == self._current:
                    self._put(event, out)
                else:
                    self._hold(event.part, event)
            case PartStart():
                if not event.choice:
                    self._starts[event.part] = event
                    if self._lanes.open(event.part, None):
                        self._take(event.part, out)
            case PartEnd():
                if event.part == self._current:
                    self._release(out)
                    self._take_turns(self._lanes.close(event.part), out)
                else:
                    self._hold(event.part, event)
            case Usage():
                self._usage = merge_usage(self._usage, event)
            case Finish():
                self._finish(event, out)
            case Error():
                self._fail(event.error, out)
            case _:  # Start, Warn and Unknown: the stream begins with the first event that says something
                pass

    # -- whose turn it is ---------------------------------------------------------------------------------------------

    def _hold(self, part: int, event: Event) -> None:
        if self._lanes.waits(part):
            self._lanes.hold(part, event)

    def _take(self, part: int, out: list[bytes]) -> None:
        """The part speaks from here on; the one before it may have an item that a failure left open."""
        self._current, self._item, self._unwrapping = part, None, None
        if self._starts[part].kind is PartKind.TOOL:
            self._open(out)

    def _take_turns(self, turns: list[Said], out: list[bytes]) -> None:
        """Parts that waited say what they have to say."""
        for part, said, ended in turns:
            self._take(part, out)
            self._write(said, out)
            if ended:
                self._release(out)

    def _release(self, out: list[bytes]) -> None:
        """The part that spoke has ended."""
        if self._unwrapping is not None:
            self._text(self._unwrapping.end(), out)
            self._unwrapping = None
        item = self._item
        if item is not None and item.manner is CALL and not item.open:
            self._say(b'"{}"', out)  # the protocol's word for no arguments
        if self._item is not None:
            self._ended, self._item = self._item, None
        self._starts.pop(self._current, None)
        self._current = _NOBODY

    # -- items --------------------------------------------------------------------------------------------------------

    def _open(self, out: list[bytes], *, instead: bool = False) -> Item:
        """The item of the part that speaks; `instead`: a sentence in place of what has no item."""
        self._settle(COMPLETED, out)
        self._begin(out)
        start = self._starts[self._current]
        called = self._called.get(start.name or "") if start.kind is PartKind.TOOL else None
        manner = TEXT if instead else MANNERS[start.kind]
        if called is not None and called.free_form:
            manner = FREE_FORM
            self._unwrapping = Unwrapping()
        item = Item(self._items, start, manner, self._answer.id, called)
        self._items += 1
        self._item = item
        self._around = self._frames.delta_around(item)
        self._frames.added(item, out)
        return item

    def _put(self, event: ArgsDelta | Signature | MediaDelta, out: list[bytes]) -> None:
        match event:
            case ArgsDelta() if self._unwrapping is not None:
                self._keep(len(event.json))
                self._text(self._unwrapping.feed(event.json), out)
            case ArgsDelta():
                self._say(_encode(event.json), out)
            case Signature():
                item = self._item or self._open(out)
                item.encrypted = to_client(event.signature, redacted=self._starts[self._current].redacted)
                self._keep(len(item.encrypted))
            case MediaDelta():
                self._show(event, out)

    def _text(self, text: str, out: list[bytes]) -> None:
        if text:
            self._say(_encode(text), out)

    def _say(self, encoded: bytes, out: list[bytes]) -> None:
        """One piece of the text of the part that speaks, as a JSON string."""
        item = self._item
        if item is None:
            item = self._open(out)
        if not item.open:
            self._frames.begin_text(item, out)
        self._keep(len(encoded))
        if not self._failed:
            item.pieces.append(encoded[1:-1])
        head, middle, tail = self._around
        frames = self._frames
        out += (head, b"%d" % frames.number, middle, encoded, tail)
        frames.number += 1

    def _show(self, event: MediaDelta, out: list[bytes]) -> None:
        kind = self._starts[self._current].kind
        if kind is PartKind.IMAGE and event.data is not None:
            item = self._open(out)
            item.format = format_of(event.media_type)
            self._keep(len(event.data))
            item.pieces.append(_encode(event.data)[1:-1])
        else:
            self._open(out, instead=True)
            self._text(sentence(kind, event.url), out)

    def _keep(self, count: int) -> None:
        self._kept_bytes += count
        if self._kept_bytes > CAP_BYTES and not self._failed:
            raise too_long()

    def _settle(self, status: str, out: list[bytes]) -> None:
        """The item whose part has ended is done."""
        item, self._ended = self._ended, None
        if item is None or self._failed:
            return
        text = item.text()
        if item.manner.done and (item.open or item.start.kind is PartKind.TOOL):
            self._frames.end_text(item, text, out)
        whole = item.whole(status, text)
        self._frames.done(item, whole, out)
        self._output.append(whole)

    # -- the stream ---------------------------------------------------------------------------------------------------

    def _begin(self, out: list[bytes]) -> Template:
        if self._template is None:
            self._template = Template(self._answer)
            now = self._template.fill(IN_PROGRESS, ())
            self._frames.lifecycle("created", now, out)
            self._frames.lifecycle("in_progress", now, out)
        return self._template

    def _finish(self, event: Finish, out: list[bytes]) -> None:
        status, why = STATUSES[event.reason], WHY[event.reason]
        self._settle(status, out)
        self._done = True
        template = self._begin(out)
        self.response = template.fill(status, self._output, usage=self._usage, why=why)
        self._frames.lifecycle(status, self.response, out)

    def _fail(self, error: ApiError, out: list[bytes]) -> None:
        """What was produced is not kept back; what is not whole is told as such in the response alone."""
        out[:0] = self._unsent
        too_much = self._kept_bytes > CAP_BYTES
        if not too_much:
            self._settle(COMPLETED, out)
        self._failed = True
        item = self._item
        partial = [item.whole(INCOMPLETE, item.text())] if item is not None and not too_much else []
        self._take_turns(self._lanes.drain(), out)
        self._done = True
        template = self._begin(out)
        self.response = template.fill("failed", [*self._output, *partial], usage=self._usage, error=error)
        self._frames.lifecycle("failed", self.response, out)


def too_long() -> ApiError:
    """Why an answer that is not kept whole cannot end well."""
    text = f"the answer exceeds the {CAP_BYTES} bytes that this protocol can repeat at its end"
    return ApiError(Kind.UPSTREAM, text)

"""An upstream's stream to events.  Pure; tolerant of what servers really send (the numbers are the package's).

The good end is `response.completed` or `response.incomplete`, and nothing else: [DONE] alone is a cut (F10).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final

import msgspec

from rivermouth.dialects.openai_responses.reading import (
    FREE_FORM_TYPE,
    CallReading,
    ItemReading,
    MessageReading,
    PictureReading,
    ThoughtReading,
)
from rivermouth.dialects.openai_responses.shapes import (
    ABSENT,
    CallItem,
    DeltaShape,
    EventShape,
    MessageItem,
    Nameless,
    PictureItem,
    ReasoningItem,
    ResponseShape,
    Typed,
)
from rivermouth.dialects.openai_responses.tables import FAILED_IN, INCOMPLETE_IN, NAME
from rivermouth.dialects.openai_responses.talk import CONTENT, SUMMARY
from rivermouth.dialects.openai_responses.tools import flat_name, one_name
from rivermouth.dialects.openai_responses.usage import read_usage
from rivermouth.ir.call_ids import call_id
from rivermouth.ir.errors import ApiError, WireError, truncated
from rivermouth.ir.events import (
    Error,
    Event,
    Finish,
    PartKind,
    Reason,
    Start,
    TextDelta,
    Unknown,
    Warn,
)
from rivermouth.ir.names import quoted
from rivermouth.ir.request import Request
from rivermouth.vendors.openai.failures import read_error
from rivermouth.wire import json
from rivermouth.wire.frame import Frame

ITEMS_CAP: Final = 4096
PREFIX: Final = "response."
_TEXT: Final = "response.output_text.delta"
_event: Final = json.typed(EventShape)
_delta: Final = json.typed(DeltaShape)
_nameless: Final = json.typed(Nameless)
_typed: Final = json.typed(Typed)
_NO_NAMES: Final = frozenset({"", "message"})  # "message" is what the standard calls an event without a name
_MESSAGE: Final = "message"
_THOUGHT: Final = "reasoning"
_CALL: Final = "function_call"
_PICTURE: Final = "image_generation_call"
_ITEMS: Final[dict[str, Any]] = {
    _MESSAGE: json.typed(MessageItem),
    _THOUGHT: json.typed(ReasoningItem),
    _CALL: json.typed(CallItem),
    FREE_FORM_TYPE: json.typed(CallItem),
    _PICTURE: json.typed(PictureItem),
}


def frame_type(frame: Frame) -> str:
    """What a frame is: its event name, else the type that its data says (O2).  Raises `WireError`."""
    if frame.name not in _NO_NAMES:
        return frame.name
    if frame.data.startswith(b"[DONE]"):
        return "[DONE]"
    said = json.decode_as(_nameless, frame.data)
    return said.type or ("error" if said.error else "")


class Decoder:
    """Frames to events, exactly one Finish or Error."""

    def __init__(self, request: Request | None = None) -> None:
        self._one_name = one_name(request.tools) if request is not None else {}
        self._started = False
        self._done = False
        self._seed = ""
        self._parts = 0
        self._items: dict[int, ItemReading] = {}  # by their place in the output
        self._kinds: dict[int, str] = {}
        self._places: dict[str, int] = {}  # of the items that have an id
        self._last = 0  # the place that was spoken of last
        self._ids: set[str] = set()
        self._called = False

    def feed(self, frame: Frame) -> list[Event]:
        """The events of one frame; after the end always [].  Raises `WireError` on what is no event."""
        if self._done or not frame.data:
            return []
        if frame.name == _TEXT:
            plain = self._plain(frame)
            if plain is not None:
                return plain
        name = frame_type(frame)
        if name == "[DONE]" or frame.data.startswith(b"[DONE]"):
            return self.eof()
        event = self._shape(name, frame)
        if event is None:
            return [Unknown(name, frame.data)] if self._started else []
        events: list[Event] = []
        if event.error and event.response is None and name not in self._HANDLERS:
            self._fail(event.error, events)
            return events
        handler = self._HANDLERS.get(name)
        if handler is None:
            return [Unknown(name, frame.data)] if self._started else []
        handler(self, event, events)
        return events

    def eof(self) -> list[Event]:
        """The upstream closed.  Without its terminal event the answer may be cut, so it is an Error."""
        if self._done:
            return []
        self._done = True
        return [Error(truncated(NAME, f"item {self._last}" if self._items else None))]

    def whole(self, response: ResponseShape) -> list[Event]:
        """The events of a reply that is no stream."""
        events: list[Event] = []
        self._ended(EventShape(response=response), events)
        return events

    def _shape(self, name: str, frame: Frame) -> EventShape | None:
        """None for an event of another shape whose type is not known here either."""
        try:
            return json.decode_as(_event, frame.data)
        except WireError:
            if name in self._HANDLERS:
                raise
            json.fields(frame.data)
            return None

    # -- the hot path -------------------------------------------------------------------------------------------------

    def _plain(self, frame: Frame) -> list[Event] | None:
        """More of a text that is open; None for every other delta."""
        try:
            delta = json.decode_as(_delta, frame.data)
        except WireError:
            return None
        item = self._items.get(delta.output_index)
        if type(item) is not MessageReading or not delta.delta:
            return None
        part = item.part(delta.content_index)
        if part is None:
            return None
        item.heard(delta.content_index, len(delta.delta))
        return [TextDelta(part, delta.delta)]

    # -- the stream ---------------------------------------------------------------------------------------------------

    def _begin(self, events: list[Event], response: ResponseShape | None = None) -> None:
        if self._started:
            return
        self._started = True
        said = response or ResponseShape()
        self._seed = (said.id or "").removeprefix("resp_")
        created = int(said.created_at) if said.created_at else None
        events.append(Start(said.id or None, said.model or None, created))

    def _lifecycle(self, event: EventShape, events: list[Event]) -> None:
        self._begin(events, event.response)

    def _failed(self, event: EventShape, events: list[Event]) -> None:
        said = event.response.error if event.response is not None else None
        self._fail(said or event.error, events)

    def _error(self, event: EventShape, events: list[Event]) -> None:
        """The error event has its members at the top; some servers nest them."""
        flat = {"message": event.message, "code": event.code, "param": event.param}
        self._fail(event.error or flat, events)

    def _fail(self, value: Any, events: list[Event]) -> None:
        self._done = True
        events.append(Error(failure_of(value)))

    def _ended(self, event: EventShape, events: list[Event]) -> None:
        """The end, as the status of the response has it; what was only said here is said now."""
        response = event.response
        if response is None:
            raise WireError("a terminal event without a response")
        if response.status in ("failed", "cancelled") or response.error:
            self._failed(event, events)
            return
        self._begin(events, response)
        for place, raw in enumerate(response.output or ()):
            self._catch_up(place, raw, events)
        for item in self._items.values():
            item.close(events)
        usage = read_usage(response.usage)
        if usage is not None:
            events.append(usage)
        self._done = True
        events.append(Finish(self._reason(response, events)))

    def _reason(self, response: ResponseShape, events: list[Event]) -> Reason:
        called = self._called
        if response.status != "incomplete":
            return Reason.TOOL_CALLS if called else Reason.STOP
        why = response.incomplete_details.reason if response.incomplete_details is not None else None
        reason = INCOMPLETE_IN.get(why or "")
        if reason is None:
            events.append(Warn(f"incomplete for the reason {quoted(why or '')}, read as length", "incomplete_details"))
            return Reason.LENGTH
        return reason

    # -- items --------------------------------------------------------------------------------------------------------

    def _added(self, event: EventShape, events: list[Event]) -> None:
        if event.item == ABSENT:
            return
        peek = json.decode_as(_typed, event.item)
        kind = peek.type or ""
        if kind not in _ITEMS:
            self._foreign("output_item.added", event, events)
            return
        self._begin(events)
        place = self._place(event)
        item = json.decode_as(_ITEMS[kind], event.item)
        reading = self._at(place, kind, events)
        identity = getattr(item, "id", None)
        if identity:
            self._places.setdefault(identity, place)
        if isinstance(reading, CallReading):
            reading.begin(item, events)

    def _item_done(self, event: EventShape, events: list[Event]) -> None:
        if event.item == ABSENT:
            return
        kind = json.decode_as(_typed, event.item).type or ""
        if kind not in _ITEMS:
            self._foreign("output_item.done", event, events)
            return
        self._begin(events)
        self._whole_item(self._place(event), kind, event.item, events)

    def _catch_up(self, place: int, raw: msgspec.Raw, events: list[Event]) -> None:
        """An item of the last event: the same as was streamed there, or one that was not streamed at all."""
        peek = json.decode_as(_typed, raw)
        kind = peek.type or ""
        if kind not in _ITEMS:
            return
        known = self._kinds.get(place)
        if known == kind or (known is None and place >= len(self._items)):
            self._whole_item(place, kind, raw, events)

    def _whole_item(self, place: int, kind: str, raw: msgspec.Raw, events: list[Event]) -> None:
        item = json.decode_as(_ITEMS[kind], raw)
        reading: Any = self._at(place, kind, events)
        reading.done(item, events)

    def _foreign(self, name: str, event: EventShape, events: list[Event]) -> None:
        """An item that only clients of this dialect know: tools that the vendor runs."""
        if self._started:
            events.append(Unknown(PREFIX + name, bytes(event.item)))

    def _at(self, place: int, kind: str, events: list[Event]) -> ItemReading:
        """The item at this place; another kind than before is another item."""
        if self._kinds.get(place) == kind:
            return self._items[place]
        known = self._items.get(place)
        if known is not None:
            known.close(events)
        elif len(self._items) == ITEMS_CAP:
            raise WireError(f"more than {ITEMS_CAP} items")
        reading = self._reading(kind)
        self._items[place], self._kinds[place] = reading, kind
        return reading

    def _reading(self, kind: str) -> ItemReading:
        if kind == _MESSAGE:
            return MessageReading(self._number)
        if kind == _THOUGHT:
            return ThoughtReading(self._number)
        if kind == _PICTURE:
            return PictureReading(self._number)
        return CallReading(self._number, self._named, free=kind == FREE_FORM_TYPE)

    def _place(self, event: EventShape) -> int:
        """Where in the output this is: by its index, else by the item's id, else where the last one was."""
        place = event.output_index
        if place is None:
            place = self._places.get(event.item_id or "")
        self._last = self._last if place is None else place
        return self._last

    def _named(self, item: CallItem, part: int) -> tuple[str, str]:
        self._called = True
        name = item.name or ""
        if item.namespace:
            name = self._one_name.get((item.namespace, name)) or flat_name(item.namespace, name)
        return call_id(item.call_id or item.id, self._seed, part, self._ids), name

    def _number(self) -> int:
        self._parts += 1
        return self._parts - 1

    # -- what is in them ----------------------------------------------------------------------------------------------

    def _message(self, event: EventShape, events: list[Event]) -> MessageReading:
        self._begin(events)
        reading = self._at(self._place(event), _MESSAGE, events)
        assert isinstance(reading, MessageReading)
        return reading

    def _text_delta(self, event: EventShape, events: list[Event]) -> None:
        self._message(event, events).add(event.content_index or 0, PartKind.TEXT, event.delta or "", events)

    def _text_done(self, event: EventShape, events: list[Event]) -> None:
        self._message(event, events).end(event.content_index or 0, PartKind.TEXT, event.text, events)

    def _refusal_delta(self, event: EventShape, events: list[Event]) -> None:
        self._message(event, events).add(event.content_index or 0, PartKind.REFUSAL, event.delta or "", events)

    def _refusal_done(self, event: EventShape, events: list[Event]) -> None:
        self._message(event, events).end(event.content_index or 0, PartKind.REFUSAL, event.refusal, events)

    def _thought(self, event: EventShape, events: list[Event]) -> ThoughtReading:
        self._begin(events)
        reading = self._at(self._place(event), _THOUGHT, events)
        assert isinstance(reading, ThoughtReading)
        return reading

    def _summary_added(self, event: EventShape, events: list[Event]) -> None:
        self._thought(event, events).begin()

    def _summary_delta(self, event: EventShape, events: list[Event]) -> None:
        self._thought(event, events).add(SUMMARY, event.delta or "", events)

    def _thought_delta(self, event: EventShape, events: list[Event]) -> None:
        self._thought(event, events).add(CONTENT, event.delta or "", events)

    def _call(self, event: EventShape, kind: str, events: list[Event]) -> CallReading:
        self._begin(events)
        reading = self._at(self._place(event), kind, events)
        assert isinstance(reading, CallReading)
        return reading

    def _args_delta(self, event: EventShape, events: list[Event]) -> None:
        self._call(event, _CALL, events).add(event.delta or "", events)

    def _args_done(self, event: EventShape, events: list[Event]) -> None:
        self._call(event, _CALL, events).rest(event.arguments, events)

    def _input_delta(self, event: EventShape, events: list[Event]) -> None:
        self._call(event, FREE_FORM_TYPE, events).add(event.delta or "", events)

    def _input_done(self, event: EventShape, events: list[Event]) -> None:
        self._call(event, FREE_FORM_TYPE, events).rest(event.input, events)

    def _nothing(self, event: EventShape, events: list[Event]) -> None:
        """What is said again by another event."""

    _HANDLERS: ClassVar[dict[str, Callable[[Decoder, EventShape, list[Event]], None]]] = {
        "response.created": _lifecycle,
        "response.in_progress": _lifecycle,
        "response.queued": _lifecycle,
        "response.output_item.added": _added,
        "response.content_part.added": _nothing,
        "response.output_text.delta": _text_delta,
        "response.output_text.done": _text_done,
        "response.refusal.delta": _refusal_delta,
        "response.refusal.done": _refusal_done,
        "response.content_part.done": _nothing,
        "response.reasoning_summary_part.added": _summary_added,
        "response.reasoning_summary_text.delta": _summary_delta,
        "response.reasoning_summary_text.done": _nothing,
        "response.reasoning_summary_part.done": _nothing,
        "response.reasoning_text.delta": _thought_delta,
        "response.reasoning_text.done": _nothing,
        "response.function_call_arguments.delta": _args_delta,
        "response.function_call_arguments.done": _args_done,
        "response.custom_tool_call_input.delta": _input_delta,
        "response.custom_tool_call_input.done": _input_done,
        "response.output_item.done": _item_done,
        "response.completed": _ended,
        "response.incomplete": _ended,
        "response.failed": _failed,
        "error": _error,
    }


def failure_of(value: Any) -> ApiError:
    """The error of a response that failed, or of an error event."""
    error = read_error(value)
    kind = FAILED_IN.get(error.code or "", error.kind)
    return ApiError(kind, error.message, param=error.param, code=error.code)

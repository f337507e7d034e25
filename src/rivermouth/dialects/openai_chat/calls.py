"""Which tool call a piece belongs to, when servers omit or repeat ids and indices (O5, F19, F20)."""

from __future__ import annotations

from collections.abc import Callable

from rivermouth.dialects.openai_chat.shapes import CustomCall, FunctionCall, ToolCallShape
from rivermouth.ir.errors import ApiError, Kind, WireError
from rivermouth.ir.events import ArgsDelta, Event, PartEnd, PartKind, PartStart
from rivermouth.vendors.openai import free_form
from rivermouth.wire import json
from rivermouth.wire.frame import FRAME_CAP_BYTES


class Call:
    """One call.  It opens when its name is known; what came before waits in `pending`."""

    __slots__ = ("custom", "id", "name", "part", "pending")

    def __init__(self) -> None:
        self.id: str | None = None
        self.name: str | None = None
        self.part: int | None = None
        self.pending: list[str] = []
        self.custom = False


class Calls:
    """The calls of one choice, in the order of their opening.

    number: gives the next part number.  mint: makes an id for a call that has none, from its position.
    """

    __slots__ = ("_by_id", "_by_index", "_calls", "_choice", "_last", "_mint", "_number", "_pending_chars")

    def __init__(self, choice: int, number: Callable[[], int], mint: Callable[[int, int], str]) -> None:
        self._choice = choice
        self._number = number
        self._mint = mint
        self._calls: list[Call] = []
        self._by_index: dict[int, Call] = {}
        self._by_id: dict[str, Call] = {}
        self._last: Call | None = None
        self._pending_chars = 0  # of the calls that have no name yet

    @property
    def made(self) -> bool:
        """True when at least one call was opened."""
        return any(call.name for call in self._calls)

    def feed(self, wire: ToolCallShape, events: list[Event]) -> None:
        """One entry of a delta's `tool_calls`."""
        body: FunctionCall | CustomCall | None = wire.function or wire.custom
        name = (body.name if body is not None else None) or None
        call = self._find(wire.index, wire.id or None, name)
        if body is None:
            return
        if isinstance(body, CustomCall):
            call.custom = True
            text = free_form.inner(body.input) if body.input else ""
        else:
            text = _arguments(body)
        if call.part is None and name is not None:
            self._open(call, name, events)
        if not text:
            return
        if call.part is None:
            self._pending_chars += len(text)
            if self._pending_chars > FRAME_CAP_BYTES:
                raise WireError("tool calls without a name are larger than a frame may be")
            call.pending.append(text)
        else:
            events.append(ArgsDelta(call.part, text))

    def close(self, events: list[Event]) -> None:
        """The choice has ended.  Raises `ApiError` for a call that never had a name, unless it was empty."""
        for call in self._calls:
            if call.part is not None:
                if call.custom:
                    events.append(ArgsDelta(call.part, free_form.TAIL))
                events.append(PartEnd(call.part))
                call.part = None
            elif call.pending:
                raise ApiError(Kind.UPSTREAM, "the upstream sent a tool call without a name", code="nameless_tool_call")
        self._by_index.clear()
        self._last = None

    def _find(self, index: int | None, identity: str | None, name: str | None) -> Call:
        if index is not None:
            call = self._by_index.get(index)
            # Some servers give every whole call index 0: another id with a name is another call.
            if call is not None and name and identity and call.id and call.id != identity:
                call = None
        elif identity is not None:
            call = self._by_id.get(identity)
            if call is None and not name and self._last is not None and self._last.id is None:
                call = self._last
        else:
            call = self._last
            if call is not None and name and call.name:
                call = None
        if call is None:
            call = Call()
            self._calls.append(call)
        if index is not None:
            self._by_index[index] = call
        if identity is not None and call.id is None and identity not in self._by_id:
            call.id = identity
            self._by_id[identity] = call
        self._last = call
        return call

    def _open(self, call: Call, name: str, events: list[Event]) -> None:
        call.name = name
        call.part = self._number()
        if call.id is None:
            call.id = self._mint(self._choice, call.part)
            self._by_id[call.id] = call
        events.append(PartStart(call.part, PartKind.TOOL, self._choice, call.id, name))
        if call.custom:
            events.append(ArgsDelta(call.part, free_form.HEAD))
        events.extend(ArgsDelta(call.part, text) for text in call.pending)
        self._pending_chars -= sum(map(len, call.pending))
        call.pending.clear()


def _arguments(body: FunctionCall) -> str:
    if isinstance(body.arguments, dict):
        return json.encode(body.arguments).decode()
    return body.arguments or ""

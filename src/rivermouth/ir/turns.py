"""A talk as vendors accept it: every call of a turn is answered, once, right after the turn.

A turn may have been interrupted (the user stopped it, a tool crashed, an old part of the talk was cut off), a client
may answer in the order of completion, or between its own words.  Servers refuse such a talk, or pair by position; so
every dialect that has tools writes `paired(request.messages)`:

* the results of a turn's calls are one message right after it, in the order of the calls; they are paired by id;
* a result belongs to the last turn before it that has a call of its id, and moves there;
* a call that nothing answers gets a result that says so, and is an error;
* a result that answers nothing, or comes twice, is left out: a loss;
* calls that a client says in several messages, one after the other, are those of one turn.

The talk that a client sends to an upstream of its own dialect is not touched: it goes as it came.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

from rivermouth.ir.request import File, Image, Message, Part, Role, Text, ToolCall, ToolResult

NO_RESULT: Final = "No result: the call was interrupted."
ERROR: Final = "Error: "
LOST: Final = "messages.tool_result"


class Paired(NamedTuple):
    """lost: some results answered nothing."""

    messages: tuple[Message, ...]
    lost: bool


def paired(messages: Iterable[Message]) -> Paired:
    """The talk in which every call has its one result.  A talk that is so already comes back as it is."""
    talk = _Talk()
    for message in messages:
        talk.add(message)
    return Paired(talk.whole(), talk.lost)


def told(result: ToolResult) -> tuple[Text | Image | File, ...]:
    """What a result says where the wire has no mark for a failure: its text begins with one."""
    content = result.content
    if not result.is_error:
        return content
    if content and isinstance(content[0], Text):
        return (Text(ERROR + content[0].text), *content[1:])
    return (Text(ERROR), *content)


class _Turn:
    """The calls of one message, and the results that came for each."""

    def __init__(self, calls: list[ToolCall]) -> None:
        self.calls = calls
        self.answered = False
        self.results: list[ToolResult | None] = [None] * len(calls)
        self.waiting: dict[str, deque[int]] = {}
        for at, call in enumerate(calls):
            self.waiting.setdefault(call.id, deque()).append(at)

    def message(self) -> Message:
        answers = zip(self.calls, self.results, strict=True)
        return Message(Role.TOOL, tuple(_missing(call) if result is None else result for call, result in answers))


class _Talk:
    def __init__(self) -> None:
        self.lost = False
        self._out: list[Message | _Turn] = []
        self._last: dict[str, _Turn] = {}  # the last turn with a call of that id

    def add(self, message: Message) -> None:
        parts = message.parts
        if message.role is Role.TOOL or any(isinstance(p, ToolResult) for p in parts):
            for part in parts:
                if isinstance(part, ToolResult):
                    self._answer(part)
            parts = tuple(p for p in parts if not isinstance(p, ToolResult))
            if not parts:
                return
            message = Message(Role.USER if message.role is Role.TOOL else message.role, parts, message.name)
        if message.role is Role.ASSISTANT:
            message = self._joined(message)
            parts = message.parts
        self._out.append(message)
        calls = [p for p in parts if isinstance(p, ToolCall)]
        if calls and message.role is Role.ASSISTANT:
            turn = _Turn(calls)
            self._out.append(turn)
            self._last.update(dict.fromkeys(turn.waiting, turn))

    def whole(self) -> tuple[Message, ...]:
        return tuple(m.message() if isinstance(m, _Turn) else m for m in self._out)

    def _joined(self, message: Message) -> Message:
        """The message, with the one before it if that has calls and nothing was said in between."""
        last = self._out[-1] if self._out else None
        if not isinstance(last, _Turn) or last.answered:
            return message
        del self._out[-1]
        before = self._out.pop()
        assert isinstance(before, Message)
        return Message(message.role, (*before.parts, *message.parts), before.name or message.name)

    def _answer(self, result: ToolResult) -> None:
        turn = self._last.get(result.id)
        waiting = turn.waiting[result.id] if turn is not None else None
        if turn is None or not waiting:
            self.lost = True
            return
        turn.results[waiting.popleft()] = result
        turn.answered = True


def _missing(call: ToolCall) -> ToolResult:
    return ToolResult(call.id, (Text(NO_RESULT),), is_error=True, name=call.name)


def joined(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Neighbours of one role and name as one message, for wires on which roles have to take turns.

    Results are messages of their own wherever they stand.
    """
    out: list[Message] = []
    for message in messages:
        last = out[-1] if out else None
        if last is not None and last.role is message.role and last.name == message.name:
            parts: tuple[Part, ...] = (*last.parts, *message.parts)
            out[-1] = Message(message.role, parts, message.name)
        else:
            out.append(message)
    return tuple(out)

"""A client's preamble, history, message and tool results to neutral messages.

The wire divides the talk: what is past is `chat_history`, what is new is `message` or `tool_results`.  Results name
their call and not its id, so each finds its call by the id we may have given it, else by name and parameters, else by
name.  A result whose call is nowhere in the talk (single-step use sends the question again instead) brings the call
along, and the call is then said right before it.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import msgspec

from rivermouth.dialects.cohere_v1.calls import Call, arguments_text, read_outputs
from rivermouth.dialects.cohere_v1.tables import ROLES
from rivermouth.ir.errors import invalid
from rivermouth.ir.request import Message, Part, Role, Text, ToolCall, ToolResult
from rivermouth.wire import json


class Result(msgspec.Struct):
    call: Call
    outputs: list[msgspec.Raw] = []


class Turn(msgspec.Struct):
    role: str
    message: str | None = None
    tool_calls: list[Call] | None = None
    tool_results: list[Result] | None = None


class Talk(NamedTuple):
    system: tuple[Text, ...]
    messages: tuple[Message, ...]


def parse_talk(preamble: str | None, history: list[Turn], message: str, results: list[Result]) -> Talk:
    """The whole talk in its order.  Raises `ApiError` naming the field at fault."""
    talk = _Talk(preamble)
    for i, turn in enumerate(history):
        talk.add(turn, i)
    again = bool(message) and not any(talk.answers(result.call) for result in results)
    if again:
        talk.say(Role.USER, message)
    if results:
        talk.answer(results, "now")
    if message and not again:
        talk.say(Role.USER, message)
    return Talk(tuple(talk.system), tuple(talk.messages))


class _Talk:
    """The talk as far as it was read."""

    def __init__(self, preamble: str | None) -> None:
        self.system: list[Text] = [Text(preamble)] if preamble else []
        self.messages: list[Message] = []
        self._open = _Open()

    def add(self, turn: Turn, index: int) -> None:
        role = ROLES.get(turn.role.upper())
        if role is None:
            raise invalid(f"role must be one of {', '.join(ROLES)}", f"chat_history[{index}].role")
        if role is Role.TOOL:
            self.answer(turn.tool_results or [], str(index))
        elif role is Role.ASSISTANT:
            self._speak(turn, index)
        else:
            self.say(role, turn.message or "")

    def say(self, role: Role, text: str) -> None:
        if role is Role.SYSTEM and not self.messages:
            self.system += [Text(text)] if text else []
            return
        self._open = _Open()
        self.messages.append(Message(role, (Text(text),) if text else ()))

    def answers(self, call: Call) -> bool:
        """Whether the last turn made this call and nothing has answered it."""
        return self._open.find(call) is not None

    def answer(self, results: list[Result], place: str) -> None:
        parts: list[Part] = []
        brought: list[Part] = []
        for i, result in enumerate(results):
            identity = self._open.find(result.call)
            if identity is None:
                identity = result.call.id or f"call_{place}_{i}"
                brought.append(ToolCall(identity, result.call.name, arguments_text(result.call.parameters)))
            else:
                self._open.close(identity)
            text = read_outputs(result.outputs)
            parts.append(ToolResult(identity, (Text(text),) if text else (), name=result.call.name))
        if brought:
            self._bring(brought)
        if parts:
            self.messages.append(Message(Role.TOOL, tuple(parts)))

    def _speak(self, turn: Turn, index: int) -> None:
        parts: list[Part] = [Text(turn.message)] if turn.message else []
        self._open = _Open()
        for i, call in enumerate(turn.tool_calls or ()):
            identity = call.id or f"call_{index}_{i}"
            self._open.add(identity, call)
            parts.append(ToolCall(identity, call.name, arguments_text(call.parameters)))
        self.messages.append(Message(Role.ASSISTANT, tuple(parts)))

    def _bring(self, calls: list[Part]) -> None:
        if self.messages and self.messages[-1].role is Role.ASSISTANT:
            spoken = self.messages.pop()
            calls = [*spoken.parts, *calls]
        self.messages.append(Message(Role.ASSISTANT, tuple(calls)))


class _Open:
    """The calls of one turn that nothing has answered.  Each is found in constant time, whatever their number."""

    def __init__(self) -> None:
        self._waiting: set[str] = set()
        self._exact: dict[tuple[str, bytes], deque[str]] = {}
        self._named: dict[str, deque[str]] = {}

    def add(self, identity: str, call: Call) -> None:
        self._waiting.add(identity)
        self._exact.setdefault(_key(call), deque()).append(identity)
        self._named.setdefault(call.name, deque()).append(identity)

    def find(self, call: Call) -> str | None:
        if call.id:
            return call.id if call.id in self._waiting else None
        return self._first(self._exact.get(_key(call))) or self._first(self._named.get(call.name))

    def close(self, identity: str) -> None:
        self._waiting.discard(identity)

    def _first(self, waiting: deque[str] | None) -> str | None:
        while waiting and waiting[0] not in self._waiting:
            waiting.popleft()
        return waiting[0] if waiting else None


def _key(call: Call) -> tuple[str, bytes]:
    return call.name, json.encode(json.decode(call.parameters))

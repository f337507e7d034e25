"""Neutral messages to `preamble`, `chat_history` and what is new: `message` or `tool_results`, never both.

Each call is answered by exactly one result in the turn after it (`ir.turns`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from rivermouth.dialects.cohere_v1.calls import write_call, write_outputs
from rivermouth.dialects.cohere_v1.tables import WIRE_ROLES
from rivermouth.ir.errors import invalid
from rivermouth.ir.request import (
    Audio,
    File,
    Image,
    Message,
    Part,
    Reasoning,
    Refusal,
    Request,
    Role,
    Text,
    ToolCall,
    ToolResult,
)
from rivermouth.ir.turns import LOST, paired, told

Wire = dict[str, Any]


def write_talk(request: Request, losses: set[str]) -> Wire:
    """The members that hold the talk; what could not be said is added to `losses`.  Raises `ApiError` for what would
    make the answer wrong: media, and a talk that does not end with something to answer."""
    talk = paired(request.messages)
    if talk.lost:
        losses.add(LOST)
    turns = _Turns(losses)
    for message in talk.messages:
        turns.add(message)
    preamble = "\n\n".join(t.text for t in request.system)
    if not turns.wire:
        return {"message": preamble}
    *history, last = turns.wire
    wire: Wire = {"preamble": preamble} if preamble else {}
    if history:
        wire["chat_history"] = history
    if "tool_results" in last:
        return {**wire, "message": "", "tool_results": last["tool_results"]}
    if last["role"] == WIRE_ROLES[Role.ASSISTANT]:
        raise invalid("this upstream answers a user or tool results, and does not go on with its own words", "messages")
    if last["role"] == WIRE_ROLES[Role.SYSTEM]:
        losses.add("messages.system")
    return {**wire, "message": last["message"]}


class _Turns:
    """The talk as far as it is written."""

    def __init__(self, losses: set[str]) -> None:
        self.wire: list[Wire] = []
        self._losses = losses
        self._calls: list[ToolCall] = []  # of the last turn

    def add(self, message: Message) -> None:
        if message.name is not None:
            self._losses.add("message.name")
        if message.role is Role.TOOL:
            self._results([part for part in message.parts if isinstance(part, ToolResult)])
            return
        calls = [p for p in message.parts if isinstance(p, ToolCall)]
        text = self._text(message)
        if text or calls:
            called = {"tool_calls": [write_call(call) for call in calls]} if calls else {}
            self.wire.append({"role": WIRE_ROLES[message.role], "message": text, **called})
        self._calls = calls

    def _results(self, results: list[ToolResult]) -> None:
        """One turn with all results; each names its call."""
        pairs = zip(self._calls, results, strict=True)
        written = [{"call": write_call(call), "outputs": write_outputs(_words(told(r)))} for call, r in pairs]
        self.wire.append({"role": WIRE_ROLES[Role.TOOL], "tool_results": written})

    def _text(self, message: Message) -> str:
        if message.role is not Role.ASSISTANT:
            return _words(message.parts)
        if any(isinstance(p, Reasoning) for p in message.parts):
            self._losses.add("messages.reasoning")
        if any(isinstance(p, Image | File | Audio) for p in message.parts):
            self._losses.add("messages.image")
        return "".join(p.text for p in message.parts if isinstance(p, Text | Refusal))


_REFUSED: Final[dict[type, str]] = {Image: "images", File: "files but those of plain text", Audio: "audio"}


def _words(parts: Iterable[Part]) -> str:
    words: list[str] = []
    for part in parts:
        match part:
            case Text() | Refusal():
                words.append(part.text)
            case File(text=str() as text):
                words.append(f"{part.name}:\n{text}\n\n" if part.name else f"{text}\n\n")
            case Image() | File() | Audio():
                raise invalid(f"this upstream takes no {_REFUSED[type(part)]}", "messages")
            case _:  # of an assistant's message, and written there
                pass
    return "".join(words)

"""Neutral messages to the `messages` that Cohere accepts.

* Text beside tool calls is refused: what the model said before its calls is `tool_plan`.
* Thinking is refused where thinking is not switched on.
* Every call is answered by exactly one tool message right after it; what a tool message cannot hold (an image) follows
  in a user message.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

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
from rivermouth.ir.turns import ERROR, LOST, paired, told

EMPTY: Final = "(no result)"  # an empty content is refused
SEE_NEXT: Final = "(the result is in the next message)"

Wire = dict[str, Any]


def write_turns(request: Request, losses: set[str]) -> list[Wire]:
    """The whole talk; what could not be said is added to `losses`.  Raises `ApiError` for media that are refused."""
    turns = _Turns(losses, thinks=request.thinking is not None and request.thinking.enabled)
    talk = paired(request.messages)
    if talk.lost:
        losses.add(LOST)
    if request.system:
        turns.wire.append({"role": "system", "content": "\n\n".join(t.text for t in request.system)})
    for message in talk.messages:
        turns.add(message)
    return turns.wire


class _Turns:
    """The talk as far as it is written."""

    def __init__(self, losses: set[str], *, thinks: bool) -> None:
        self.wire: list[Wire] = []
        self._losses = losses
        self._thinks = thinks

    def add(self, message: Message) -> None:
        if message.name is not None:
            self._losses.add("message.name")
        if message.role is Role.TOOL:
            self._results([part for part in message.parts if isinstance(part, ToolResult)])
        elif message.role is Role.ASSISTANT:
            self._assistant(message)
        else:
            content = _content(message.parts)
            if content:
                self.wire.append({"role": message.role.value, "content": content})

    def _assistant(self, message: Message) -> None:
        thoughts = [p for p in message.parts if isinstance(p, Reasoning)]
        calls = [p for p in message.parts if isinstance(p, ToolCall)]
        if any(isinstance(p, Image | File | Audio) for p in message.parts):
            self._losses.add("messages.image")
        if any(not self._thinks or p.redacted for p in thoughts):
            self._losses.add("messages.reasoning")
        thinking = [{"type": "thinking", "thinking": p.text} for p in thoughts if self._thinks and p.text]
        text = "".join(p.text for p in message.parts if isinstance(p, Text | Refusal))
        wire: Wire = {"role": "assistant"}
        if thinking:
            wire["content"] = [*thinking, *([{"type": "text", "text": text}] if text and not calls else [])]
        elif text and not calls:
            wire["content"] = text
        if calls:
            wire |= {"tool_plan": text} if text else {}
            wire["tool_calls"] = [_call(call) for call in calls]
        if len(wire) > 1:
            self.wire.append(wire)

    def _results(self, results: Sequence[ToolResult]) -> None:
        """A tool message for each result, then what these cannot hold, as the user would show it."""
        media: list[Wire] = []
        for result in results:
            content = told(result)
            text = "\n".join(words for p in content if (words := _words(p)))
            shown = [p for p in content if not _words(p) and not isinstance(p, Text)]
            if shown:
                media.append({"type": "text", "text": f"What the tool call {result.id} gave:"})
                media += _entries(shown)
            if not text.removeprefix(ERROR):
                text += SEE_NEXT if shown else EMPTY
            self.wire.append({"role": "tool", "tool_call_id": result.id, "content": text})
        if media:
            self.wire.append({"role": "user", "content": media})


def _call(call: ToolCall) -> Wire:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments or "{}"}}


def _words(part: Text | Image | File) -> str:
    """The text of a part that is nothing but text."""
    return "" if isinstance(part, Image) else part.text or ""


def _content(parts: Sequence[Part]) -> str | list[Wire]:
    """A string where a string will do."""
    kept = [p for p in parts if not isinstance(p, Text) or p.text]
    if len(kept) == 1 and isinstance(kept[0], Text):
        return kept[0].text
    return _entries(kept)


def _entries(parts: Iterable[Part]) -> list[Wire]:
    entries: list[Wire] = []
    for part in parts:
        match part:
            case Text() | Refusal():
                entries.append({"type": "text", "text": part.text})
            case Image():
                entries.append(_image(part))
            case File(text=str() as text):
                entries.append({"type": "text", "text": f"{part.name}:\n{text}" if part.name else text})
            case File():
                raise invalid("this upstream takes no files but those of plain text", "messages")
            case Audio():
                raise invalid("this upstream takes no audio", "messages")
            case _:  # of an assistant's or a tool's message, and written there
                pass
    return entries


def _image(image: Image) -> Wire:
    link = image.url if image.data is None else f"data:{image.media_type or 'image/png'};base64,{image.data}"
    if link is None:
        raise invalid("an image needs its data or a URL", "messages")
    detail = {"detail": image.detail} if image.detail is not None else {}
    return {"type": "image_url", "image_url": {"url": link, **detail}}

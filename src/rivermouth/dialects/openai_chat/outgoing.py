"""Neutral messages to `messages`, in the strictest form that servers of this dialect take.

Plain texts are strings; every call is answered by exactly one tool message right after it; what a tool message cannot
hold (an image, a file) follows in a user message; nothing is sent that the other side would refuse as unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from rivermouth.dialects.openai_chat.opaque import own_detail
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

SEE_NEXT: Final = "(the result is in the next message)"

Wire = dict[str, Any]


def write_messages(request: Request, losses: list[str]) -> list[Wire]:
    """The whole talk; what could not be said is added to `losses`."""
    wire: list[Wire] = []
    if request.system:
        wire.append({"role": "system", "content": "\n\n".join(t.text for t in request.system)})
    talk = paired(request.messages)
    if talk.lost:
        losses.append(LOST)
    for message in talk.messages:
        if message.role is Role.TOOL:
            _results(message, wire)
        elif message.role is Role.ASSISTANT:
            wire.append(_assistant(message, losses))
        else:
            wire.append(_said(message))
    return wire


def _said(message: Message) -> Wire:
    """A system or user message."""
    wire: Wire = {"role": message.role.value, "content": _content(message.parts)}
    if message.name is not None:
        wire["name"] = message.name
    return wire


def _assistant(message: Message, losses: list[str]) -> Wire:
    thoughts = [p for p in message.parts if isinstance(p, Reasoning)]
    calls = [p for p in message.parts if isinstance(p, ToolCall)]
    details = [own_detail(p) for p in thoughts]
    if any(p.redacted and own is None for p, own in zip(thoughts, details, strict=True)):
        losses.append("messages.reasoning")
    if any(isinstance(p, Image | File | Audio) for p in message.parts):
        losses.append("messages.image")
    text = message.text
    wire: Wire = {"role": "assistant", "content": text if text or not calls else None}
    if message.name is not None:
        wire["name"] = message.name
    refusal = "".join(p.text for p in message.parts if isinstance(p, Refusal))
    if refusal:
        wire["refusal"] = refusal
    thought = "".join(p.text for p in thoughts if not p.redacted)
    if thought:
        wire["reasoning_content"] = thought
    if any(details):
        wire["reasoning_details"] = _details(thoughts)
    if calls:
        wire["tool_calls"] = [_call(call) for call in calls]
    return wire


def _details(thoughts: Sequence[Reasoning]) -> list[Wire]:
    """What this upstream's own model thought, block by block, with its signatures; the rest is text."""
    entries: list[Wire] = []
    for thought in thoughts:
        detail = own_detail(thought)
        if detail is None and thought.text:
            detail = {"type": "reasoning.text", "text": thought.text}
        if detail is not None:
            entries.append({**detail, "index": len(entries)})
    return entries


def _call(call: ToolCall) -> Wire:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments or "{}"}}


def _results(message: Message, wire: list[Wire]) -> None:
    """A tool message for each result, then what these cannot hold, as the user would show it."""
    media: list[Wire] = []
    for result in message.parts:
        if not isinstance(result, ToolResult):
            continue
        content = told(result)
        text = "\n".join(words for p in content if (words := _words(p)))
        shown = [p for p in content if not _words(p) and not isinstance(p, Text)]
        if shown and not text.removeprefix(ERROR):
            text += SEE_NEXT
        wire.append({"role": "tool", "tool_call_id": result.id, "content": text})
        if shown:
            media.append({"type": "text", "text": f"What the tool call {result.id} gave:"})
            media.extend(_entries(shown))
    if media:
        wire.append({"role": "user", "content": media})


def _words(part: Text | Image | File) -> str:
    """The text of a part that is nothing but text."""
    if isinstance(part, Image):
        return ""
    return part.text or ""


def _content(parts: Sequence[Part]) -> str | list[Wire]:
    """A string where a string will do: more servers take it."""
    kept = [p for p in parts if not isinstance(p, Text) or p.text]
    if not kept:
        return ""
    if len(kept) == 1 and isinstance(kept[0], Text):
        return kept[0].text
    return list(_entries(kept))


def _entries(parts: Iterable[Part]) -> Iterable[Wire]:
    for part in parts:
        match part:
            case Text():
                yield {"type": "text", "text": part.text}
            case Image():
                yield _image(part)
            case Audio():
                yield {"type": "input_audio", "input_audio": {"data": part.data, "format": part.format}}
            case File():
                yield _file(part)
            case _:  # of an assistant's message, and written there
                pass


def _image(image: Image) -> Wire:
    link = image.url if image.data is None else f"data:{image.media_type or 'image/png'};base64,{image.data}"
    detail = {"detail": image.detail} if image.detail is not None else {}
    return {"type": "image_url", "image_url": {"url": link, **detail}}


def _file(file: File) -> Wire:
    if file.text is not None:
        title = f"{file.name}:\n" if file.name else ""
        return {"type": "text", "text": title + file.text}
    if file.file_id is not None:
        return {"type": "file", "file": {"file_id": file.file_id}}
    if file.data is None:
        raise invalid("a file must be sent as data here: this upstream takes no URLs of files", "messages")
    link = f"data:{file.media_type or 'application/pdf'};base64,{file.data}"
    return {"type": "file", "file": {"filename": file.name or "file.pdf", "file_data": link}}

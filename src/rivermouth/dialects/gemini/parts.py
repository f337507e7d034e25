"""Neutral parts of a model's turn to the parts of this wire, for answers and for history alike.

What differs is which signatures are known (`sign`): a client is given any, the vendor's models only their own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from rivermouth.dialects.gemini.opaque import Place, Signed
from rivermouth.ir.request import Audio, File, Image, Reasoning, Refusal, Text, ToolCall
from rivermouth.wire import json
from rivermouth.wire.arguments import as_object, to_object

WirePart = dict[str, Any]
TurnPart = Text | Refusal | Reasoning | ToolCall | Image | File | Audio

UNKNOWN_TYPE: Final = "application/octet-stream"
_SOME_IMAGE: Final = "image/jpeg"
_IMAGES: Final = {
    "avif": "image/avif",
    "gif": "image/gif",
    "heic": "image/heic",
    "heif": "image/heif",
    "jpeg": "image/jpeg",
    "jpg": "image/jpeg",
    "png": "image/png",
    "webp": "image/webp",
}


def write_parts(
    parts: Iterable[TurnPart], sign: Callable[[Reasoning], Signed | None], *, past: bool = False
) -> list[WirePart]:
    """The parts of a turn, in order.  A signature of a call waits for the call, whatever is said before that."""
    out: list[WirePart] = []
    waiting: deque[str] = deque()
    spoken = past_call if past else call
    for part in parts:
        if isinstance(part, ToolCall):
            out.append(signed(spoken(part), waiting.popleft() if waiting else None))
            continue
        if not isinstance(part, Reasoning):
            out += plain(part)
            continue
        if part.text:
            out.append(thought(part.text))
        found = sign(part)
        if found is not None and found.place is Place.CALL:
            waiting.append(found.wire)
        elif found is not None:
            _place(out, found, begun=bool(part.text))
    return [*out, *(signed(thought(""), wire) for wire in waiting)]


def _place(out: list[WirePart], found: Signed, *, begun: bool) -> None:
    """Puts a signature where it belongs: on the last part, if that is it, else on an empty one."""
    last = out[-1] if out else {}
    own_thought = found.place is Place.THOUGHT and begun
    own_text = found.place is Place.TEXT and last.keys() == {"text"}
    if own_thought or own_text:
        out[-1] = signed(last, found.wire)
    else:
        out.append(signed(thought("") if found.place is Place.THOUGHT else text(""), found.wire))


def plain(part: Text | Refusal | Image | File | Audio) -> list[WirePart]:
    """A part that either side may say; an empty text is none."""
    match part:
        case Text() | Refusal():
            return [text(part.text)] if part.text else []
        case Image():
            return [image(part.media_type, part.data, part.url)]
        case File(text=str() as content):
            return [text(content)] if content else []
        case File():
            return [media(part.media_type, part.data, part.url or part.file_id)]
        case Audio():
            return [media(f"audio/{part.format}", part.data, None)]


def text(content: str) -> WirePart:
    return {"text": content}


def thought(content: str) -> WirePart:
    return {"text": content, "thought": True}


def signed(part: WirePart, wire: str | None) -> WirePart:
    return part if wire is None else {**part, "thoughtSignature": wire}


def call(part: ToolCall) -> WirePart:
    """A model's call, whole.  Arguments that are no object cannot be spoken as a call: they are passed on as text."""
    arguments = as_object(part.arguments)
    if arguments is None:
        return text(f'{{"name": {json.encode(part.name).decode()}, "arguments": {part.arguments}}}')
    return {"functionCall": {"id": part.id, "name": part.name, "args": arguments}}


def past_call(part: ToolCall) -> WirePart:
    """A call of the talk, which has a result: always spoken as a call."""
    return {"functionCall": {"id": part.id, "name": part.name, "args": msgspec.Raw(to_object(part.arguments))}}


def image(media_type: str | None, data: str | None, url: str | None) -> WirePart:
    """A reference is known for an image by its type alone: where nobody said one, the address may (R28)."""
    if media_type is None and data is None and url is not None and url[:5].lower() != "data:":
        name = url.partition("#")[0].partition("?")[0].rpartition("/")[2]
        media_type = _IMAGES.get(name.rpartition(".")[2].lower(), _SOME_IMAGE)
    return media(media_type, data, url)


def media(media_type: str | None, data: str | None, url: str | None) -> WirePart:
    """Bytes inline, or where they are; a data: URL is bytes."""
    if data is None and url is not None and url[:5].lower() == "data:":
        head, found, inline = url[5:].partition(";base64,")
        if found:
            media_type, data = head or media_type, inline
    if data is not None:
        return {"inlineData": {"mimeType": media_type or UNKNOWN_TYPE, "data": data}}
    typed = {"mimeType": media_type} if media_type else {}
    return {"fileData": {**typed, "fileUri": url or ""}}

"""Neutral messages to the turns that Anthropic accepts.

The rules, each a 400 when broken:
* turns alternate: neighbours of one role are merged, empty ones vanish, the first is the user's;
* the results of an assistant turn's calls open the one user turn after it, one for each (`ir.turns`);
* ids of calls are unique in the whole talk and are spelled in a small alphabet;
* no text is empty, and the last assistant text does not end in blanks;
* reasoning goes back only to its maker.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from rivermouth.dialects.anthropic.content import ANY_IMAGE
from rivermouth.dialects.anthropic.opaque import native, tool_id_to_wire
from rivermouth.dialects.anthropic.tables import IMAGE_TYPES
from rivermouth.ir.errors import invalid
from rivermouth.ir.request import (
    Audio,
    File,
    Image,
    Message,
    Part,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
)
from rivermouth.ir.sides import ASSISTANT, USER, Block, Side, append, gathered
from rivermouth.ir.turns import LOST, paired
from rivermouth.wire import arguments, json

NO_USER: Final = "Continue."


class Turns:
    """The turns of a talk.  `losses` names what could not be carried."""

    def __init__(self, messages: Iterable[Message]) -> None:
        talk = paired(messages)
        self.losses: set[str] = {LOST} if talk.lost else set()
        self._ids: set[str] = set()
        self._numbers: dict[str, int] = {}  # how often an id was wanted: asking from 1 each time would be quadratic
        self.wire = self._write(gathered(talk.messages, self._add))

    def _add(self, turn: Side, part: Part) -> None:
        match part:
            case ToolResult():
                turn.results.append(part)
            case ToolCall():
                turn.blocks.append({"type": "tool_use", "id": part.id, "name": part.name, "input": _input(part)})
            case Reasoning():
                self._add_reasoning(turn, part)
            case Image() | File() if turn.role == ASSISTANT:
                self.losses.add("messages.image")
            case _:
                turn.blocks += block_of(part)

    def _add_reasoning(self, turn: Side, part: Reasoning) -> None:
        signature = native(part.signature)
        if signature is None:
            self.losses.add("messages.reasoning")
        elif part.redacted:
            turn.blocks.append({"type": "redacted_thinking", "data": signature})
        else:
            turn.blocks.append({"type": "thinking", "thinking": part.text, "signature": signature})

    def _write(self, turns: list[Side]) -> list[Block]:
        """Results open the user's turn after the calls, whose order they have."""
        wire: list[Block] = []
        names: list[str] = []  # ids on the wire of the last assistant turn's calls
        for turn in turns:
            if turn.role == USER:
                append(wire, USER, [*map(_result, turn.results, names), *turn.blocks])
            else:
                if not wire:
                    append(wire, USER, [_text(NO_USER)])
                names = self._name_calls(turn)
                append(wire, turn.role, turn.blocks)
        _trim_last(wire)
        return wire or [{"role": USER, "content": [_text(NO_USER)]}]

    def _name_calls(self, turn: Side) -> list[str]:
        """The calls' ids as they go out: spelled for the wire, and numbered where the talk has had them before."""
        calls = [block for block in turn.blocks if block["type"] == "tool_use"]
        for block in calls:
            wanted = name = tool_id_to_wire(block["id"])
            number = self._numbers.get(wanted, 1)
            while name in self._ids:
                number += 1
                name = f"{wanted}_{number}"
            self._numbers[wanted] = number
            self._ids.add(name)
            block["id"] = name
        return [block["id"] for block in calls]


def thinking_allowed(turns: list[Block]) -> bool:
    """False when the last turn answers calls whose turn does not begin with reasoning: then thinking is refused."""
    if len(turns) < 2 or not any(kind == "tool_result" for kind in _kinds(turns[-1])):
        return True
    return _kinds(turns[-2])[:1] in (["thinking"], ["redacted_thinking"])


def _kinds(turn: Block) -> list[Any]:
    """The types of a turn's blocks."""
    content = turn.get("content")
    return [b.get("type") for b in content if isinstance(b, dict)] if isinstance(content, list) else []


def block_of(part: Part) -> list[Block]:
    """A part that either side may say, as at most one block; an empty text is none.  Raises `ApiError`."""
    match part:
        case Text() | Refusal():
            return [_text(part.text)] if part.text.strip() else []
        case Image():
            return [_image(part)]
        case File():
            return [_file(part)]
        case Audio():
            raise invalid("the Messages protocol takes no audio", "messages")
        case _:
            raise AssertionError(part)


def _trim_last(wire: list[Block]) -> None:
    """A last assistant turn is continued by the model; its text may not end in blanks."""
    if wire and wire[-1]["role"] == ASSISTANT:
        last = wire[-1]["content"][-1]
        if last["type"] == "text":
            last["text"] = last["text"].rstrip()


def _text(text: str) -> Block:
    return {"type": "text", "text": text}


def _input(call: ToolCall) -> json.Raw:
    return msgspec.Raw(arguments.to_object(call.arguments))


def _result(result: ToolResult, name: str) -> Block:
    content = [block for part in result.content for block in block_of(part)]
    block: Block = {"type": "tool_result", "tool_use_id": name}
    if content:
        block["content"] = content
    if result.is_error:
        block["is_error"] = True
    return block


def _image(image: Image) -> Block:
    if image.data is not None:
        if image.media_type not in IMAGE_TYPES:
            raise invalid(f"images of type {image.media_type} are not taken; use jpeg, png, gif or webp", "messages")
        return {"type": "image", "source": {"type": "base64", "media_type": image.media_type, "data": image.data}}
    if image.url is not None:
        return {"type": "image", "source": {"type": "url", "url": image.url}}
    raise invalid("an image needs data or a URL", "messages")


def _file(file: File) -> Block:
    kind = file.media_type or ""
    if kind in IMAGE_TYPES and file.data is not None:
        return _image(Image(media_type=kind, data=file.data))
    if kind == ANY_IMAGE and file.file_id is not None:
        return {"type": "image", "source": {"type": "file", "file_id": file.file_id}}
    block: Block = {"type": "document", "source": _source(file, kind)}
    if file.name:
        block["title"] = file.name
    return block


def _plain_text(data: str) -> str:
    try:
        return b64decode(data, validate=True).decode()
    except ValueError:
        raise invalid("a text file's data is not base64 of UTF-8 text", "messages") from None


def _source(file: File, kind: str) -> Block:
    if file.text is not None:
        return {"type": "text", "media_type": "text/plain", "data": file.text}
    if file.url is not None:
        return {"type": "url", "url": file.url}
    if file.file_id is not None:
        return {"type": "file", "file_id": file.file_id}
    if file.data is None:
        raise invalid("a file needs data, text, a URL or an id", "messages")
    if kind == "application/pdf":
        return {"type": "base64", "media_type": kind, "data": file.data}
    if kind.startswith("text/") or kind == "application/json":
        return {"type": "text", "media_type": "text/plain", "data": _plain_text(file.data)}
    raise invalid(f"files of type {kind or 'unknown'} are not taken; use PDF or plain text", "messages")

"""Neutral messages to the turns that Converse accepts.

The rules, each a 400 when broken:
* turns alternate: neighbours of one role are merged, empty ones vanish, the first is the user's;
* the results of an assistant turn's calls are in the one user turn after it, one for each (`ir.turns`);
* ids of calls are unique in the whole talk and are spelled in a small alphabet;
* no text is blank, and a last text of the assistant does not end in blanks;
* documents have names of few characters, each once, and a text beside them;
* reasoning goes back only to its maker.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable
from typing import Final

import msgspec

from rivermouth.dialects.bedrock_converse.opaque import hidden_to_wire
from rivermouth.dialects.bedrock_converse.tables import DOCUMENT_FORMATS, IMAGE_FORMATS, SOUNDS
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
from rivermouth.vendors.anthropic.signatures import native
from rivermouth.wire import arguments, json

NO_USER: Final = "Continue."
DOCUMENT: Final = "document"
SEE_DOCUMENT: Final = "See the document."
_DATA_URL: Final = re.compile(r"data:([\w.+/-]+);base64,(.+)", re.S)
_ID: Final = re.compile(r"[A-Za-z0-9_.:-]{1,64}")
_NO_ID: Final = re.compile(r"[^A-Za-z0-9_.:-]")
_ID_CHARS: Final = 48  # with room for a number
_NO_NAME: Final = re.compile(r"[^\w\s()\[\]-]|_", re.ASCII)
_SPACES: Final = re.compile(r"\s+")
_NAME_CHARS: Final = 180


class Turns:
    """The turns of a talk.  `losses` names what could not be carried, `called` the tools that were called in it.

    reasons: the model takes signed reasoning back.
    """

    def __init__(self, messages: Iterable[Message], *, reasons: bool) -> None:
        talk = paired(messages)
        self.losses: set[str] = {LOST} if talk.lost else set()
        self.called: dict[str, None] = {}
        self._reasons = reasons
        self._taken: set[str] = set()
        self._numbers: dict[str, int] = {}  # how often a name was wanted: asking from 1 each time would be quadratic
        self.wire = self._write(gathered(talk.messages, self._add))

    def _add(self, turn: Side, part: Part) -> None:
        match part:
            case ToolResult():
                turn.results.append(part)
            case ToolCall():
                self.called[part.name] = None
                turn.blocks.append({"toolUse": {"toolUseId": part.id, "name": part.name, "input": _input(part)}})
            case Reasoning():
                self._add_reasoning(turn, part)
            case Image() | File() if turn.role == ASSISTANT:
                self.losses.add("messages.image")
            case _:
                turn.blocks += self._block(part)

    def _add_reasoning(self, turn: Side, part: Reasoning) -> None:
        signature = native(part.signature)
        if signature is None or part.signature is None or not self._reasons:
            self.losses.add("messages.reasoning")
        elif part.redacted:
            turn.blocks.append({"reasoningContent": {"redactedContent": hidden_to_wire(part.signature)}})
        else:
            told = {"text": part.text, "signature": signature}
            turn.blocks.append({"reasoningContent": {"reasoningText": told}})

    def _write(self, turns: list[Side]) -> list[Block]:
        """Results open the user's turn after the calls, whose order they have."""
        wire: list[Block] = []
        names: list[str] = []  # ids on the wire of the last assistant turn's calls
        for turn in turns:
            if turn.role == USER:
                append(wire, USER, [*map(self._result, turn.results, names), *_with_text(turn.blocks)])
            else:
                if not wire:
                    append(wire, USER, [_text(NO_USER)])
                names = self._name_calls(turn)
                append(wire, turn.role, turn.blocks)
        _trim_last(wire)
        return wire or [{"role": USER, "content": [_text(NO_USER)]}]

    def _name_calls(self, turn: Side) -> list[str]:
        """The calls' ids as they go out: spelled for the wire, and numbered where the talk has had them before."""
        calls = [block["toolUse"] for block in turn.blocks if "toolUse" in block]
        for call in calls:
            neutral = call["toolUseId"]
            wanted = neutral if _ID.fullmatch(neutral) else _NO_ID.sub("_", neutral)[:_ID_CHARS] or "call"
            call["toolUseId"] = self._fresh(wanted, "_", _ID_CHARS)
        return [call["toolUseId"] for call in calls]

    def _fresh(self, wanted: str, joint: str, cap_chars: int) -> str:
        """The name, with a number behind it where it was there before."""
        number, name = self._numbers.get(wanted, 1), wanted
        while name in self._taken:
            number += 1
            name = f"{wanted[:cap_chars]}{joint}{number}"
        self._numbers[wanted] = number
        self._taken.add(name)
        return name

    def _result(self, result: ToolResult, name: str) -> Block:
        block: Block = {
            "toolUseId": name,
            "content": [block for part in result.content for block in self._block(part)],
        }
        if result.is_error:
            block["status"] = "error"
        return {"toolResult": block}

    def _block(self, part: Part) -> list[Block]:
        """A part that either side may say, as at most one block; a blank text is none.  Raises `ApiError`."""
        match part:
            case Text() | Refusal():
                return [_text(part.text)] if part.text.strip() else []
            case Image():
                return [_image(part)]
            case File():
                return [self._file(part)]
            case Audio():
                return [_audio(part)]
            case _:
                raise AssertionError(part)

    def _file(self, file: File) -> Block:
        kind = file.media_type or ""
        if file.data is not None and kind in IMAGE_FORMATS:
            return _image(Image(media_type=kind, data=file.data))
        if file.text is not None:
            named, data = DOCUMENT_FORMATS.get(kind, "txt"), b64encode(file.text.encode("utf-8", "replace")).decode()
        elif file.data is not None and kind in DOCUMENT_FORMATS:
            named, data = DOCUMENT_FORMATS[kind], file.data
        elif file.data is not None:
            raise invalid(f"files of type {kind or 'unknown'} are not taken", "messages")
        else:
            raise invalid("a file is taken with its data or its text, not by a URL or an id", "messages")
        return {DOCUMENT: {"format": named, "name": self._title(file), "source": {"bytes": data}}}

    def _title(self, file: File) -> str:
        """A document's name in the few characters that are allowed, each name once."""
        plain = _SPACES.sub(" ", _NO_NAME.sub(" ", file.name or DOCUMENT)).strip()[:_NAME_CHARS].strip() or DOCUMENT
        name = self._fresh(plain, " ", _NAME_CHARS)
        if file.name is not None and name != file.name:
            self.losses.add("file.name")
        return name


def reasoned_first(turns: list[Block]) -> bool:
    """False when the last turn answers calls whose turn does not begin with reasoning: then Claude refuses to think."""
    if len(turns) < 2 or not any("toolResult" in block for block in _blocks(turns[-1])):
        return True
    return "reasoningContent" in next(iter(_blocks(turns[-2])), {})


def _blocks(turn: Block) -> list[Block]:
    content = turn.get("content")
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _with_text(blocks: list[Block]) -> list[Block]:
    """A document needs a text beside it."""
    if any(DOCUMENT in block for block in blocks) and not any("text" in block for block in blocks):
        return [*blocks, _text(SEE_DOCUMENT)]
    return blocks


def _trim_last(wire: list[Block]) -> None:
    """A last assistant turn is continued by the model; its text may not end in blanks."""
    if wire and wire[-1]["role"] == ASSISTANT:
        last = wire[-1]["content"][-1]
        if "text" in last:
            last["text"] = last["text"].rstrip()


def _text(text: str) -> Block:
    return {"text": text}


def _input(call: ToolCall) -> json.Raw:
    return msgspec.Raw(arguments.to_object(call.arguments))


def _image(image: Image) -> Block:
    media_type, data = image.media_type, image.data
    if data is None and (inline := _DATA_URL.fullmatch(image.url or "")) is not None:
        media_type, data = inline[1], inline[2]
    if data is None:
        raise invalid("an image is taken with its data, not by a URL", "messages")
    named = IMAGE_FORMATS.get(media_type or "")
    if named is None:
        raise invalid(f"images of type {media_type} are not taken; use {', '.join(IMAGE_FORMATS)}", "messages")
    return {"image": {"format": named, "source": {"bytes": data}}}


def _audio(audio: Audio) -> Block:
    if audio.format not in SOUNDS:
        raise invalid(f"sounds of this format are not taken; use {', '.join(sorted(SOUNDS))}", "messages")
    return {"audio": {"format": audio.format, "source": {"bytes": audio.data}}}

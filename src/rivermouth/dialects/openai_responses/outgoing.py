"""Neutral messages to `input`, in the order in which they were said.

Every call is answered by exactly one output; a thought goes back to its maker alone, and only before what it led to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from rivermouth.dialects.openai_responses.opaque import native
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
from rivermouth.vendors.openai import free_form

NO_RESULT: Final = "(no result)"
ERROR_PREFIX: Final = "Error: "
ANY_IMAGE: Final = "image/*"

Wire = dict[str, Any]


def write_input(request: Request, losses: list[str]) -> list[Wire]:
    """The whole talk; what could not be said is added to `losses`."""
    writing = _Writing({t.name for t in request.tools if t.free_form is not None}, losses)
    for message in request.messages:
        writing.add(message)
    writing.settle()
    return writing.items


class _Writing:
    """The talk as far as it was written; `waiting`: the calls that are not answered yet, and the type of each."""

    def __init__(self, free_forms: set[str], losses: list[str]) -> None:
        self.items: list[Wire] = []
        self._free_forms = free_forms
        self._losses = losses
        self._waiting: dict[str, str] = {}

    def add(self, message: Message) -> None:
        if message.name is not None:
            self._losses.append("message.name")
        if message.role is Role.TOOL:
            self._results(message.parts)
            return
        self.settle()
        if message.role is Role.ASSISTANT:
            self._assistant(message.parts)
        else:
            self.items.append({"role": message.role.value, "content": _content(message.parts)})

    def settle(self) -> None:
        """Before the next turn: answer what was never answered."""
        self.items += [_output(kind, identity, NO_RESULT) for identity, kind in self._waiting.items()]
        self._waiting = {}

    def _results(self, parts: Iterable[Part]) -> None:
        """Paired by id, never by position."""
        for result in parts:
            if not isinstance(result, ToolResult):
                continue
            kind = self._waiting.pop(result.id, None)
            if kind is None:
                self._losses.append("messages.tool_result")
            else:
                self.items.append(_output(kind, result.id, _given(result)))

    def _assistant(self, parts: Iterable[Part]) -> None:
        said: list[Text | Refusal] = []
        thoughts: list[Wire] = []  # that led to nothing yet
        for part in parts:
            match part:
                case Text() | Refusal():
                    said += [part] if part.text else []
                case Reasoning():
                    self._say(said, thoughts)
                    thoughts += self._thought(part)
                case ToolCall():
                    self._say(said, thoughts)
                    self._call(part, thoughts)
                case _:
                    self._losses.append("messages.image")
        self._say(said, thoughts)
        if thoughts:
            self._losses.append("messages.reasoning")

    def _say(self, said: list[Text | Refusal], thoughts: list[Wire]) -> None:
        if not said:
            return
        self.items += thoughts
        thoughts.clear()
        alone = said[0] if len(said) == 1 else None
        content = alone.text if isinstance(alone, Text) else [_spoken(part) for part in said]
        self.items.append({"role": "assistant", "content": content})
        said.clear()

    def _thought(self, part: Reasoning) -> list[Wire]:
        own = native(part.signature)
        if own is None:
            self._losses.append("messages.reasoning")
            return []
        summary = [{"type": "summary_text", "text": part.text}] if part.text else []
        identity = {"id": own.id} if own.id else {}
        return [{"type": "reasoning", **identity, "summary": summary, "encrypted_content": own.encrypted}]

    def _call(self, call: ToolCall, thoughts: list[Wire]) -> None:
        self.items += thoughts
        thoughts.clear()
        free = call.name in self._free_forms
        self._waiting[call.id] = "custom_tool_call" if free else "function_call"
        body = {"input": free_form.unwrap(call.arguments)} if free else {"arguments": call.arguments or "{}"}
        self.items.append({"type": self._waiting[call.id], "call_id": call.id, "name": call.name, **body})


def _output(kind: str, identity: str, output: Any) -> Wire:
    return {"type": f"{kind}_output", "call_id": identity, "output": output}


def _given(result: ToolResult) -> str | list[Wire]:
    """A string where a string will do."""
    prefix = ERROR_PREFIX if result.is_error else ""
    if all(isinstance(p, Text) for p in result.content):
        return prefix + "\n".join(p.text for p in result.content if isinstance(p, Text))
    said = [{"type": "input_text", "text": prefix.rstrip()}] if prefix else []
    return [*said, *(_entry(part) for part in result.content)]


def _content(parts: Iterable[Part]) -> str | list[Wire]:
    kept = [p for p in parts if not isinstance(p, Text) or p.text]
    if not kept:
        return ""
    if len(kept) == 1 and isinstance(kept[0], Text):
        return kept[0].text
    return [_entry(part) for part in kept]


def _spoken(part: Text | Refusal) -> Wire:
    if isinstance(part, Refusal):
        return {"type": "refusal", "refusal": part.text}
    return {"type": "output_text", "text": part.text, "annotations": []}


def _entry(part: Part) -> Wire:
    match part:
        case Text() | Refusal():
            return {"type": "input_text", "text": part.text}
        case Image():
            link = part.url if part.data is None else _data_uri(part.media_type or "image/png", part.data)
            return {"type": "input_image", "image_url": link, "detail": part.detail or "auto"}
        case File():
            return _file(part)
        case Audio():
            raise invalid("the Responses protocol takes no audio", "messages")
        case _:
            raise invalid(f"a message of the user's cannot hold a {part.__struct_config__.tag}", "messages")


def _file(file: File) -> Wire:
    if file.text is not None:
        return {"type": "input_text", "text": f"{file.name}:\n{file.text}" if file.name else file.text}
    if file.file_id is not None:
        if file.media_type == ANY_IMAGE:
            return {"type": "input_image", "file_id": file.file_id, "detail": "auto"}
        return {"type": "input_file", "file_id": file.file_id}
    name: Mapping[str, str] = {"filename": file.name} if file.name else {}
    if file.data is not None:
        link = _data_uri(file.media_type or "application/pdf", file.data)
        return {"type": "input_file", "filename": "file.pdf", **name, "file_data": link}
    if file.url is None:
        raise invalid("a file needs data, text, a URL or an id", "messages")
    return {"type": "input_file", **name, "file_url": file.url}


def _data_uri(media_type: str, data: str) -> str:
    return f"data:{media_type};base64,{data}"

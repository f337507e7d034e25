"""The client's `messages` to neutral ones.

Leading system and developer messages become the request's `system`; later ones, and those that nothing follows, stay
where they are.  Tool messages that follow each other become one message with several results.  Empty texts and nulls
are absent parts (F21).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from rivermouth.dialects.openai_chat.opaque import Placed, client_reasoning, in_order
from rivermouth.dialects.openai_chat.shapes import ContentPart, MessageShape, ToolCallShape
from rivermouth.dialects.openai_chat.tables import ROLES_IN
from rivermouth.ir.errors import invalid
from rivermouth.ir.request import (
    Audio,
    File,
    Image,
    Message,
    Part,
    Reasoning,
    Refusal,
    Role,
    Text,
    ToolCall,
    ToolResult,
    instructions,
)
from rivermouth.vendors.openai import free_form
from rivermouth.vendors.openai.links import LINK, split_data_uri
from rivermouth.wire import json


class Talk(NamedTuple):
    """`messages`, divided."""

    system: tuple[Text, ...]
    messages: tuple[Message, ...]


def parse_messages(wire: list[MessageShape]) -> Talk:
    """Raises `ApiError` naming the field at fault, as in `messages[2].content[0].type`."""
    if not wire:
        raise invalid("messages must not be empty", "messages", "empty_array")
    talk: list[Message] = []
    results: list[ToolResult] = []  # of the tool messages that have just come
    functions: dict[str, str] = {}  # the id that was made for a call of before 2023, by the function's name
    for position, shape in enumerate(wire):
        at = f"messages[{position}]"
        role = ROLES_IN.get(shape.role)
        if role is None:
            raise invalid(f"unknown role; known are {', '.join(ROLES_IN)}", f"{at}.role")
        if role is Role.TOOL:
            results.append(_tool_result(shape, at, functions))
            continue
        _close_results(talk, results)
        parts = _content(shape, role, at)
        if role is Role.ASSISTANT:
            parts = in_order(_reasoning(shape), parts, _calls(shape, at, functions))
        talk.append(Message(role, parts, shape.name))
    _close_results(talk, results)
    return Talk(*instructions(talk))


def _close_results(talk: list[Message], results: list[ToolResult]) -> None:
    """What came in adjacent tool messages, as one message."""
    if results:
        talk.append(Message(Role.TOOL, tuple(results)))
        results.clear()


# -- parts ------------------------------------------------------------------------------------------------------------


def _text(part: ContentPart, at: str) -> Part:
    if part.text is None:
        raise invalid("a text part needs its text", f"{at}.text")
    return Text(part.text)


def _refusal(part: ContentPart, at: str) -> Part:
    return Refusal(part.refusal or "")


def _thinking(part: ContentPart, at: str) -> Part:
    entries = part.thinking if isinstance(part.thinking, list) else [{"text": part.thinking}]
    return Reasoning("".join(str(e.get("text") or "") for e in entries if isinstance(e, dict)))


def _image(part: ContentPart, at: str) -> Part:
    wire = part.image_url
    if wire is None:
        raise invalid("an image_url part needs its image_url", f"{at}.image_url")
    url, detail = (wire, None) if isinstance(wire, str) else (wire.url, wire.detail)
    inline = split_data_uri(url, f"{at}.image_url.url")
    if inline is not None:
        return Image(media_type=inline[0] or "image/png", data=inline[1], detail=detail)
    if LINK.fullmatch(url) is None:
        raise invalid("an image is an http(s) URL or a data: URI", f"{at}.image_url.url")
    return Image(url=url, detail=detail)


def _audio(part: ContentPart, at: str) -> Part:
    if part.input_audio is None:
        raise invalid("an input_audio part needs its input_audio", f"{at}.input_audio")
    return Audio(part.input_audio.data, part.input_audio.format)


def _file(part: ContentPart, at: str) -> Part:
    wire = part.file
    if wire is None or not (wire.file_data or wire.file_id):
        raise invalid("a file part needs file_data or file_id", f"{at}.file")
    if not wire.file_data:
        return File(file_id=wire.file_id, name=wire.filename)
    inline = split_data_uri(wire.file_data, f"{at}.file.file_data")
    if inline is not None:
        return File(media_type=inline[0] or "application/pdf", data=inline[1], name=wire.filename)
    if LINK.fullmatch(wire.file_data):
        return File(url=wire.file_data, name=wire.filename)
    return File(media_type="application/pdf", data=wire.file_data, name=wire.filename)


PART_READERS: Final[dict[str, Callable[[ContentPart, str], Part]]] = {
    "text": _text,
    "refusal": _refusal,
    "thinking": _thinking,
    "image_url": _image,
    "input_audio": _audio,
    "file": _file,
}

# Images in tool results are no part of the vendor's protocol, but agents send them.
ROLE_PARTS: Final[dict[Role, frozenset[str]]] = {
    Role.SYSTEM: frozenset({"text"}),
    Role.USER: frozenset({"text", "image_url", "input_audio", "file"}),
    Role.ASSISTANT: frozenset({"text", "refusal", "thinking", "image_url"}),
    Role.TOOL: frozenset({"text", "image_url", "file"}),
}


_WORDS: Final = (Text, Refusal, Reasoning)


def _content(shape: MessageShape, role: Role, at: str) -> tuple[Part, ...]:
    """The parts of `content`; an assistant may have none."""
    content = shape.content
    if content is None:
        if role in (Role.SYSTEM, Role.USER):
            raise invalid(f"a {shape.role} message needs content", f"{at}.content")
        return (Refusal(shape.refusal),) if shape.refusal else ()
    if isinstance(content, str):
        parts: tuple[Part, ...] = (Text(content),)
    else:
        parts = tuple(_part(part, role, f"{at}.content[{i}]") for i, part in enumerate(content))
    kept = tuple([p for p in parts if not isinstance(p, _WORDS) or p.text])
    return (*kept, Refusal(shape.refusal)) if shape.refusal else kept


def _part(part: ContentPart, role: Role, at: str) -> Part:
    kind = part.type if part.type is not None else "text" if part.text is not None else ""
    if kind not in ROLE_PARTS[role]:
        known = ", ".join(sorted(ROLE_PARTS[role]))
        raise invalid(f"a message of this role has parts of type {known} only", f"{at}.type")
    return PART_READERS[kind](part, at)


# -- what an assistant said -------------------------------------------------------------------------------------------


def _reasoning(shape: MessageShape) -> list[Placed]:
    """Both spellings are one text, which the details may say once more."""
    text = shape.reasoning_content or (shape.reasoning if isinstance(shape.reasoning, str) else "")
    return client_reasoning(text, shape.reasoning_details or ())


def _calls(shape: MessageShape, at: str, functions: dict[str, str]) -> list[ToolCall]:
    calls = [_call(call, f"{at}.tool_calls[{i}]") for i, call in enumerate(shape.tool_calls or ())]
    old = shape.function_call
    if old is not None and old.name:
        functions[old.name] = f"call_{at[9:-1]}_{old.name}"
        calls.append(ToolCall(functions[old.name], old.name, _arguments(old.arguments)))
    return calls


def _call(call: ToolCallShape, at: str) -> ToolCall:
    if not call.id:
        raise invalid("a tool call needs its id", f"{at}.id")
    if call.custom is not None and call.custom.name:
        return ToolCall(call.id, call.custom.name, free_form.wrap(call.custom.input or ""))
    if call.function is None or not call.function.name:
        raise invalid("a tool call needs the function's name", f"{at}.function.name")
    return ToolCall(call.id, call.function.name, _arguments(call.function.arguments))


def _arguments(value: object) -> str:
    return value if isinstance(value, str) else json.encode(value).decode() if value is not None else ""


def _tool_result(shape: MessageShape, at: str, functions: dict[str, str]) -> ToolResult:
    identity = shape.tool_call_id
    if not identity and shape.role == "function":
        identity = functions.get(shape.name or "")
        if identity is None:
            raise invalid("a function message answers a function_call of the same name", f"{at}.name")
    if not identity:
        raise invalid("a tool message needs the id of the call that it answers", f"{at}.tool_call_id")
    parts = _content(shape, Role.TOOL, at)
    content = tuple(p for p in parts if isinstance(p, Text | Image | File))
    return ToolResult(identity, content, name=shape.name)

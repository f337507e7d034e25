"""A client's `messages` to neutral ones.

Leading system messages become the request's `system`; later ones, and those that nothing follows, stay where they are.
`tool_plan` is what the model said before its calls, so it is text.  Tool messages that follow each other become one
message with several results.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

import msgspec

from rivermouth.dialects.cohere_v2.tables import ROLES
from rivermouth.ir.errors import invalid
from rivermouth.ir.request import (
    Image,
    Message,
    Part,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolResult,
    instructions,
)
from rivermouth.wire import json

_DATA_URI: Final = re.compile(
    r"data:(?P<type>[\w.+-]+/[\w.+-]+)?(?:;[\w=.-]+)*;base64,(?P<data>[A-Za-z0-9+/=_-]+)", re.I
)
_LINK: Final = re.compile(r"https?://\S+", re.I)


class ImageUrl(msgspec.Struct):
    url: str
    detail: str | None = None


class Document(msgspec.Struct):
    data: Any = None
    id: str | None = None


class Block(msgspec.Struct):
    """One entry of a `content` list, whichever its type."""

    type: str
    text: str | None = None
    thinking: str | None = None
    image_url: ImageUrl | None = None
    document: Document | None = None


class Function(msgspec.Struct):
    name: str | None = None
    arguments: Any = None


class Call(msgspec.Struct):
    function: Function
    id: str | None = None


class Turn(msgspec.Struct):
    role: str
    content: str | list[Block] | None = None
    tool_plan: str | None = None
    tool_calls: list[Call] | None = None
    tool_call_id: str | None = None


class Talk(NamedTuple):
    """`messages`, divided.  `skipped`: the content types that are not known here, as losses."""

    system: tuple[Text, ...]
    messages: tuple[Message, ...]
    skipped: tuple[str, ...]


def parse_turns(turns: list[Turn]) -> Talk:
    """Raises `ApiError` naming the field at fault, as in `messages[2].content[0].image_url.url`."""
    if not turns:
        raise invalid("messages must not be empty", "messages")
    talk: list[Message] = []
    results: list[Part] = []  # of the tool messages that have just come
    skipped: dict[str, None] = {}
    for i, turn in enumerate(turns):
        at = f"messages[{i}]"
        role = ROLES.get(turn.role.lower())
        if role is None:
            raise invalid(f"role must be one of {', '.join(ROLES)}", f"{at}.role")
        parts = _parts(turn, role, at, skipped)
        if role is Role.TOOL:
            results += parts
            continue
        _close_results(talk, results)
        talk.append(Message(role, tuple(parts)))
    _close_results(talk, results)
    return Talk(*instructions(talk), tuple(skipped))


def _close_results(talk: list[Message], results: list[Part]) -> None:
    """What came in adjacent tool messages, as one message."""
    if results:
        talk.append(Message(Role.TOOL, tuple(results)))
        results.clear()


def arguments_text(value: Any) -> str:
    """Always text: a string as it stands, an object as JSON, "" for null (F20)."""
    if value is None or isinstance(value, str):
        return value or ""
    return json.encode(value).decode()


def _parts(turn: Turn, role: Role, at: str, skipped: dict[str, None]) -> list[Part]:
    parts = _content(turn.content, at, skipped)
    if role is Role.TOOL:
        if not turn.tool_call_id:
            raise invalid("a tool message needs the id of the call that it answers", f"{at}.tool_call_id")
        return [ToolResult(turn.tool_call_id, tuple(p for p in parts if isinstance(p, Text | Image)))]
    if role is Role.ASSISTANT:
        parts += [Text(turn.tool_plan)] if turn.tool_plan else []
        parts += [_call(call, f"{at}.tool_calls[{i}]") for i, call in enumerate(turn.tool_calls or ())]
    return parts


def _content(content: str | list[Block] | None, at: str, skipped: dict[str, None]) -> list[Part]:
    if not isinstance(content, list):
        return [Text(content)] if content else []
    parts: list[Part] = []
    for i, block in enumerate(content):
        match block.type:
            case "text":
                parts += [Text(block.text)] if block.text else []
            case "thinking":
                parts += [Reasoning(block.thinking)] if block.thinking else []
            case "image_url":
                parts.append(_image(block, f"{at}.content[{i}].image_url"))
            case "document":
                parts += [Text(_said(block.document))] if block.document is not None else []
            case _:
                skipped[f"messages.content.{block.type[:64]}"] = None
    return parts


def _image(block: Block, at: str) -> Image:
    wire = block.image_url
    if wire is None:
        raise invalid("an image needs its image_url", at)
    if wire.url[:5].lower() != "data:":
        if _LINK.fullmatch(wire.url) is None:
            raise invalid("an image is an http(s) URL or a data: URI", f"{at}.url")
        return Image(url=wire.url, detail=wire.detail)
    found = _DATA_URI.fullmatch(wire.url)
    if found is None:
        raise invalid("a data: URI must be base64, as in data:image/png;base64,...", f"{at}.url")
    return Image(media_type=found["type"] or "image/png", data=found["data"], detail=wire.detail)


def _said(document: Document) -> str:
    """What a tool's document says: its text, or its members as JSON."""
    return document.data if isinstance(document.data, str) else json.encode(document.data).decode()


def _call(call: Call, at: str) -> ToolCall:
    if not call.id:
        raise invalid("a tool call needs its id", f"{at}.id")
    if not call.function.name:
        raise invalid("a tool call needs the function's name", f"{at}.function.name")
    return ToolCall(call.id, call.function.name, arguments_text(call.function.arguments))

"""Content blocks of a request, read into neutral parts.

One row for each block type.  A block of a type without a row (server tools and their results, betas) is skipped: only
an upstream of this dialect gets it, from the original body.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from rivermouth.dialects.anthropic.fields import field_error, field_path
from rivermouth.dialects.anthropic.opaque import signature_from_wire, tool_id_from_wire
from rivermouth.ir.errors import ApiError, WireError, invalid
from rivermouth.ir.request import File, Image, Part, Reasoning, Role, Text, ToolCall, ToolResult
from rivermouth.wire import json

Blocks = str | list[json.Raw]

ANY_IMAGE: Final = "image/*"


class _Typed(msgspec.Struct):
    type: str


class _Text(msgspec.Struct):
    text: str


class _Source(msgspec.Struct):
    type: str
    media_type: str | None = None
    data: str | None = None
    url: str | None = None
    file_id: str | None = None
    content: Blocks | None = None


class _Image(msgspec.Struct):
    source: _Source


class _Document(msgspec.Struct):
    source: _Source
    title: str | None = None


class _ToolUse(msgspec.Struct):
    id: str
    name: str
    input: json.Raw = json.Raw(b"{}")


class _ToolResult(msgspec.Struct):
    tool_use_id: str
    content: Blocks | None = None
    is_error: bool | None = None


class _Thinking(msgspec.Struct):
    thinking: str = ""
    signature: str | None = None


class _Redacted(msgspec.Struct):
    data: str


class _SearchResult(msgspec.Struct):
    source: str = ""
    title: str = ""
    content: Blocks = ""


def parse_blocks(content: Blocks, where: str) -> list[Part]:
    """The parts of a `content`, in order; `where` is its path in the request.  Raises `ApiError` naming the field."""
    if isinstance(content, str):
        return [Text(content)] if content else []
    parts: list[Part] = []
    for i, raw in enumerate(content):
        path = f"{where}.{i}"
        try:
            row = _ROWS.get(json.decode_as(_typed, raw).type)
            if row is not None:
                parts += row.read(json.decode_as(row.shape, raw), path)
        except WireError as error:
            raise field_error(error, path) from None
    return parts


def check_role(parts: Sequence[Part], role: Role, where: str) -> None:
    """Raises `ApiError` for a part that the role may not say."""
    for part in parts:
        if not isinstance(part, _ALLOWED[role]):
            raise invalid(f"{role.value} messages cannot hold {_NOUNS[type(part)]} blocks", where)


def _text(block: _Text, where: str) -> list[Part]:
    return [Text(block.text)] if block.text else []


def _image(block: _Image, where: str) -> list[Part]:
    source = block.source
    match source.type:
        case "base64":
            return [Image(media_type=_said(source, "media_type", where), data=_said(source, "data", where))]
        case "url":
            return [Image(url=_said(source, "url", where))]
        case "file":
            return [File(media_type=ANY_IMAGE, file_id=_said(source, "file_id", where))]
    raise _no_source(source, where)


def _document(block: _Document, where: str) -> list[Part]:
    source, name = block.source, block.title
    match source.type:
        case "base64":
            kind = _said(source, "media_type", where)
            return [File(media_type=kind, data=_said(source, "data", where), name=name)]
        case "text":
            return [File(media_type="text/plain", text=_said(source, "data", where), name=name)]
        case "url":
            return [File(url=_said(source, "url", where), name=name)]
        case "file":
            return [File(file_id=_said(source, "file_id", where), name=name)]
        case "content":
            inner = parse_blocks(source.content or "", f"{where}.source.content")
            text = "\n".join(p.text for p in inner if isinstance(p, Text))
            rest = [p for p in inner if not isinstance(p, Text)]
            return [File(media_type="text/plain", text=text, name=name), *rest]
    raise _no_source(source, where)


def _tool_use(block: _ToolUse, where: str) -> list[Part]:
    text = bytes(block.input).decode()
    return [ToolCall(tool_id_from_wire(block.id), block.name, "" if text == "null" else text)]


def _tool_result(block: _ToolResult, where: str) -> list[Part]:
    inner = parse_blocks(block.content or "", f"{where}.content")
    content = tuple(p for p in inner if isinstance(p, (Text, Image, File)))
    return [ToolResult(tool_id_from_wire(block.tool_use_id), content, bool(block.is_error))]


def _thinking(block: _Thinking, where: str) -> list[Part]:
    signature = signature_from_wire(block.signature)
    return [Reasoning(block.thinking, signature)] if block.thinking or signature else []


def _redacted(block: _Redacted, where: str) -> list[Part]:
    signature = signature_from_wire(block.data)
    return [Reasoning(signature=signature, redacted=True)] if signature else []


def _search_result(block: _SearchResult, where: str) -> list[Part]:
    inner = parse_blocks(block.content, f"{where}.content")
    lines = [block.title, block.source, *(p.text for p in inner if isinstance(p, Text))]
    return [Text("\n".join(line for line in lines if line))]


def _said(source: _Source, name: str, where: str) -> str:
    value = getattr(source, name)
    if not isinstance(value, str):
        raise invalid("Field required", f"{where}.source.{name}")
    return value


def _no_source(source: _Source, where: str) -> ApiError:
    return invalid(f"{source.type!r} is no source type of this block", field_path(f"{where}.source", "type"))


class _Row(NamedTuple):
    shape: Any
    read: Callable[[Any, str], list[Part]]


_typed: Final = json.typed(_Typed)
_ROWS: Final[dict[str, _Row]] = {
    "text": _Row(json.typed(_Text), _text),
    "image": _Row(json.typed(_Image), _image),
    "document": _Row(json.typed(_Document), _document),
    "tool_use": _Row(json.typed(_ToolUse), _tool_use),
    "tool_result": _Row(json.typed(_ToolResult), _tool_result),
    "thinking": _Row(json.typed(_Thinking), _thinking),
    "redacted_thinking": _Row(json.typed(_Redacted), _redacted),
    "search_result": _Row(json.typed(_SearchResult), _search_result),
}
_ALLOWED: Final[dict[Role, tuple[type, ...]]] = {
    Role.USER: (Text, Image, File, ToolResult),
    Role.ASSISTANT: (Text, Image, File, Reasoning, ToolCall),
    Role.SYSTEM: (Text,),
}
_NOUNS: Final[dict[type, str]] = {
    Text: "text",
    Image: "image",
    File: "document",
    Reasoning: "thinking",
    ToolCall: "tool_use",
    ToolResult: "tool_result",
}

"""Content blocks of a request, read into neutral parts.

One row for each block type.  A block of a type without a row (server tools and their results, betas) is skipped, and
named: only an upstream of this dialect gets it, from the original body.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from rivermouth.dialects.anthropic.fields import field_error
from rivermouth.dialects.anthropic.opaque import signature_from_wire, tool_id_from_wire
from rivermouth.ir.errors import ApiError, WireError, invalid
from rivermouth.ir.names import quoted
from rivermouth.ir.request import File, Image, Part, Reasoning, Role, Text, ToolCall, ToolResult
from rivermouth.wire import json

Blocks = str | list[json.Raw]

ANY_IMAGE: Final = "image/*"
DEPTH_CAP: Final = 3  # a result may hold a document, and that a content of its own


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


class Place(NamedTuple):
    """Where in the request something stands.

    depth: how many blocks it is within.  skipped: takes the names of blocks that have no neutral form, as
    "messages.<type>".
    """

    path: str
    skipped: list[str]
    depth: int = 0

    def step(self, *names: object) -> Place:
        """Further in."""
        return self._replace(path=".".join((self.path, *map(str, names))))

    def skip(self, kind: str) -> None:
        self.skipped.append(f"{self.path.partition('.')[0]}.{kind}")


def parse_blocks(content: Blocks, at: Place) -> list[Part]:
    """The parts of a `content`, in order.  Raises `ApiError` naming the field.

    What is within a block is read once more for each block around it, so only a few may be.
    """
    if isinstance(content, str):
        return [Text(content)] if content else []
    if at.depth > DEPTH_CAP:
        raise invalid("content is nested too deeply", at.path)
    parts: list[Part] = []
    for i, raw in enumerate(content):
        place = Place(f"{at.path}.{i}", at.skipped, at.depth + 1)
        try:
            kind = json.decode_as(_typed, raw).type
            row = _ROWS.get(kind)
            if row is None:
                place.skip(kind)
            else:
                parts += row.read(json.decode_as(row.shape, raw), place)
        except WireError as error:
            raise field_error(error, place.path) from None
    return parts


def check_role(parts: Sequence[Part], role: Role, where: str) -> None:
    """Raises `ApiError` for a part that the role may not say."""
    for part in parts:
        if not isinstance(part, _ALLOWED[role]):
            raise invalid(f"{role.value} messages cannot hold {_NOUNS[type(part)]} blocks", where)


def _text(block: _Text, at: Place) -> list[Part]:
    return [Text(block.text)] if block.text else []


def _image(block: _Image, at: Place) -> list[Part]:
    source = block.source
    match source.type:
        case "base64":
            return [Image(media_type=_said(source, "media_type", at), data=_said(source, "data", at))]
        case "url":
            return [Image(url=_said(source, "url", at))]
        case "file":
            return [File(media_type=ANY_IMAGE, file_id=_said(source, "file_id", at))]
    raise _no_source(source, at)


def _document(block: _Document, at: Place) -> list[Part]:
    source, name = block.source, block.title
    match source.type:
        case "base64":
            kind = _said(source, "media_type", at)
            return [File(media_type=kind, data=_said(source, "data", at), name=name)]
        case "text":
            return [File(media_type="text/plain", text=_said(source, "data", at), name=name)]
        case "url":
            return [File(url=_said(source, "url", at), name=name)]
        case "file":
            return [File(file_id=_said(source, "file_id", at), name=name)]
        case "content":
            inner = parse_blocks(source.content or "", at.step("source", "content"))
            text = "\n".join(p.text for p in inner if isinstance(p, Text))
            rest = [p for p in inner if not isinstance(p, Text)]
            return [File(media_type="text/plain", text=text, name=name), *rest]
    raise _no_source(source, at)


def _tool_use(block: _ToolUse, at: Place) -> list[Part]:
    text = bytes(block.input).decode()
    return [ToolCall(tool_id_from_wire(block.id), block.name, "" if text == "null" else text)]


def _tool_result(block: _ToolResult, at: Place) -> list[Part]:
    inner = parse_blocks(block.content or "", at.step("content"))
    content: list[Text | Image | File] = []
    for part in inner:
        if isinstance(part, Text | Image | File):
            content.append(part)
        else:
            at.skip(_NOUNS[type(part)])
    return [ToolResult(tool_id_from_wire(block.tool_use_id), tuple(content), bool(block.is_error))]


def _thinking(block: _Thinking, at: Place) -> list[Part]:
    signature = signature_from_wire(block.signature)
    return [Reasoning(block.thinking, signature)] if block.thinking or signature else []


def _redacted(block: _Redacted, at: Place) -> list[Part]:
    signature = signature_from_wire(block.data)
    return [Reasoning(signature=signature, redacted=True)] if signature else []


def _search_result(block: _SearchResult, at: Place) -> list[Part]:
    inner = parse_blocks(block.content, at.step("content"))
    lines = [block.title, block.source, *(p.text for p in inner if isinstance(p, Text))]
    return [Text("\n".join(line for line in lines if line))]


def _said(source: _Source, name: str, at: Place) -> str:
    value = getattr(source, name)
    if not isinstance(value, str):
        raise invalid("Field required", at.step("source", name).path)
    return value


def _no_source(source: _Source, at: Place) -> ApiError:
    return invalid(f"{quoted(source.type)} is no source type of this block", at.step("source", "type").path)


class _Row(NamedTuple):
    shape: Any
    read: Callable[[Any, Place], list[Part]]


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

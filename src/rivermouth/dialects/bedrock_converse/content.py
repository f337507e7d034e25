"""Content blocks of a request, read into neutral parts.

A block is an object with one member, which says what it is; one row for each.  A block without a row is skipped, and
named: only an upstream of this dialect gets it, from the original body.  What only such an upstream can be asked at all
(an object in a bucket, a video) is named in `only`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from rivermouth.dialects.bedrock_converse.opaque import hidden_from_wire
from rivermouth.dialects.bedrock_converse.tables import DOCUMENTS, IMAGES, SOUNDS
from rivermouth.ir.errors import ApiError, WireError, invalid
from rivermouth.ir.names import quoted
from rivermouth.ir.request import Audio, File, Image, Part, Reasoning, Role, Text, ToolCall, ToolResult
from rivermouth.vendors.anthropic.signatures import signature_from_wire
from rivermouth.wire import json


class _Source(msgspec.Struct):
    """Exactly one of them."""

    data: str | None = msgspec.field(name="bytes", default=None)
    bucket: dict[str, Any] | None = msgspec.field(name="s3Location", default=None)
    text: str | None = None
    content: list[dict[str, Any]] | None = None


class _Media(msgspec.Struct):
    source: _Source
    format: str = "txt"
    name: str | None = None


class _ToolUse(msgspec.Struct):
    id: str = msgspec.field(name="toolUseId")
    name: str
    input: json.Raw = json.Raw(b"{}")
    type: str | None = None


class _ToolResult(msgspec.Struct):
    id: str = msgspec.field(name="toolUseId")
    content: list[json.Raw] = []
    status: str | None = None
    type: str | None = None


class _ReasoningText(msgspec.Struct):
    text: str = ""
    signature: str | None = None


class _Reasoning(msgspec.Struct):
    told: _ReasoningText | None = msgspec.field(name="reasoningText", default=None)
    hidden: str | None = msgspec.field(name="redactedContent", default=None)


class _Words(msgspec.Struct):
    text: str = ""


class _Guarded(msgspec.Struct):
    text: _Words | None = None
    image: _Media | None = None


class _Cited(msgspec.Struct):
    content: list[_Words] = []


class _Found(msgspec.Struct):
    source: str = ""
    title: str = ""
    content: list[_Words] = []


class Place(NamedTuple):
    """Where in the request something stands.

    skipped: takes the names of blocks that have no neutral form.  only: takes the places of what nothing but an
    upstream of this dialect can be asked.
    """

    path: str
    skipped: list[str]
    only: list[str]

    def step(self, *names: object) -> Place:
        """Further in."""
        return self._replace(path=".".join((self.path, *map(str, names))))

    def skip(self, kind: str) -> None:
        self.skipped.append(f"{self.path.partition('.')[0]}.{kind}")


class _Row(NamedTuple):
    shape: Any
    read: Callable[[Any, Place], list[Part]]


def parse_blocks(blocks: list[json.Raw], at: Place) -> list[Part]:
    """The parts of a message's `content`, in order.  Raises `ApiError` naming the field."""
    return _parse(blocks, at, _ROWS)


def _parse(blocks: list[json.Raw], at: Place, rows: Mapping[str, _Row]) -> list[Part]:
    parts: list[Part] = []
    for i, raw in enumerate(blocks):
        place = at.step(i)
        kind, value = one_member(raw, place)
        row = rows.get(kind)
        if row is None:
            place.skip(kind)
            continue
        place = place.step(kind)
        try:
            parts += row.read(json.decode_as(row.shape, value), place)
        except WireError as error:
            raise misfit(error, place.path) from None
    return parts


def one_member(raw: json.Raw, at: Place) -> tuple[str, json.Raw]:
    """The one member of a union.  Raises `ApiError` for none and for several."""
    try:
        said = [(name, value) for name, value in json.fields(raw).items() if bytes(value) != b"null"]
    except WireError as error:
        raise misfit(error, at.path) from None
    if len(said) != 1:
        raise invalid("a block has exactly one member", at.path)
    return said[0]


def misfit(error: WireError, path: str = "") -> ApiError:
    """The client's error, with the whole path of the field."""
    words, param, _ = json.misfit(error)
    whole = ".".join(filter(None, (path, (param or "").replace("[", ".").replace("]", ""))))
    return invalid(words, whole or None)


def check_role(parts: Sequence[Part], role: Role, where: str) -> None:
    """Raises `ApiError` for a part that the role may not say."""
    for part in parts:
        if not isinstance(part, _ALLOWED[role]):
            raise invalid(f"{role.value} messages cannot hold {_NOUNS[type(part)]} blocks", where)


def _text(text: str, at: Place) -> list[Part]:
    return [Text(text)] if text else []


def _image(block: _Media, at: Place) -> list[Part]:
    media_type = _known(IMAGES, block, at)
    data = _data(block.source, at)
    return [] if data is None else [Image(media_type=media_type, data=data)]


def _document(block: _Media, at: Place) -> list[Part]:
    media_type, source = _known(DOCUMENTS, block, at), block.source
    text = source.text
    if source.content is not None:
        text = "\n".join(str(piece.get("text", "")) for piece in source.content)
    if text is not None:
        return [File(media_type="text/plain", text=text, name=block.name)]
    data = _data(source, at)
    return [] if data is None else [File(media_type=media_type, data=data, name=block.name)]


def _audio(block: _Media, at: Place) -> list[Part]:
    data = _data(block.source, at)
    if data is None:
        return []
    if block.format not in SOUNDS:
        at.only.append(at.path)
        return []
    return [Audio(data, block.format)]


def _video(block: _Media, at: Place) -> list[Part]:
    at.only.append(at.path)
    return []


def _known(formats: Mapping[str, str], block: _Media, at: Place) -> str:
    media_type = formats.get(block.format)
    if media_type is None:
        text = f"{quoted(block.format)} is no format of this block; use {', '.join(formats)}"
        raise invalid(text, at.step("format").path)
    return media_type


def _data(source: _Source, at: Place) -> str | None:
    """The base64 of a source; None for what lies in a bucket, which is named in `only`."""
    if source.bucket is not None:
        at.only.append(at.step("source", "s3Location").path)
        return None
    if not source.data:
        raise invalid("a source has bytes", at.step("source", "bytes").path)
    return source.data


def _tool_use(block: _ToolUse, at: Place) -> list[Part]:
    if block.type is not None:  # a tool of the service's own
        at.skip(block.type)
        return []
    text = bytes(block.input).decode()
    return [ToolCall(block.id, block.name, "" if text == "null" else text)]


def _tool_result(block: _ToolResult, at: Place) -> list[Part]:
    if block.type is not None:
        at.skip(block.type)
        return []
    inner = _parse(block.content, at.step("content"), _RESULT_ROWS)
    content = tuple(part for part in inner if isinstance(part, Text | Image | File))
    return [ToolResult(block.id, content, block.status == "error")]


def _json(value: json.Raw, at: Place) -> list[Part]:
    return [Text(bytes(value).decode())]


def _reasoning(block: _Reasoning, at: Place) -> list[Part]:
    if block.hidden is not None:
        hidden = hidden_from_wire(block.hidden)
        return [Reasoning(signature=hidden, redacted=True)] if hidden else []
    told = block.told or _ReasoningText()
    signature = signature_from_wire(told.signature)
    return [Reasoning(told.text, signature)] if told.text or signature else []


def _guarded(block: _Guarded, at: Place) -> list[Part]:
    """Content that a guardrail looks at; it is content all the same."""
    if block.image is not None:
        return _image(block.image, at.step("image"))
    return _text(block.text.text if block.text else "", at)


def _cited(block: _Cited, at: Place) -> list[Part]:
    at.skip("citations")
    return _text("".join(piece.text for piece in block.content), at)


def _found(block: _Found, at: Place) -> list[Part]:
    lines = [block.title, block.source, *(piece.text for piece in block.content)]
    return [Text("\n".join(line for line in lines if line))]


def _nothing(block: object, at: Place) -> list[Part]:
    """A hint that changes nothing of the answer: another target goes without it in silence."""
    return []


_media: Final = json.typed(_Media)
_RESULT_ROWS: Final[dict[str, _Row]] = {
    "text": _Row(json.typed(str), _text),
    "json": _Row(json.typed(msgspec.Raw), _json),
    "image": _Row(_media, _image),
    "document": _Row(_media, _document),
    "video": _Row(_media, _video),
    "searchResult": _Row(json.typed(_Found), _found),
    "cachePoint": _Row(json.typed(dict[str, Any]), _nothing),
}
_ROWS: Final[dict[str, _Row]] = {
    **{kind: row for kind, row in _RESULT_ROWS.items() if kind != "json"},
    "audio": _Row(_media, _audio),
    "toolUse": _Row(json.typed(_ToolUse), _tool_use),
    "toolResult": _Row(json.typed(_ToolResult), _tool_result),
    "reasoningContent": _Row(json.typed(_Reasoning), _reasoning),
    "guardContent": _Row(json.typed(_Guarded), _guarded),
    "citationsContent": _Row(json.typed(_Cited), _cited),
}
_ALLOWED: Final[dict[Role, tuple[type, ...]]] = {
    Role.USER: (Text, Image, File, Audio, ToolResult),
    Role.ASSISTANT: (Text, Image, File, Reasoning, ToolCall),
    Role.SYSTEM: (Text,),
}
_NOUNS: Final[dict[type, str]] = {
    Text: "text",
    Image: "image",
    File: "document",
    Audio: "audio",
    Reasoning: "reasoningContent",
    ToolCall: "toolUse",
    ToolResult: "toolResult",
}

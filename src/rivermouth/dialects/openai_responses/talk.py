"""The client's `input` to neutral messages.

Items are flat: what an assistant thought, said and called in one turn are items of their own, and become one message;
what its tools gave becomes another.  Instructions that lead become the request's `system`.
An item of a type that has no neutral form (tools that the vendor runs, a compacted history) is left out and named.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from rivermouth.dialects.openai_responses.opaque import from_wire
from rivermouth.dialects.openai_responses.pictures import media_type_of
from rivermouth.dialects.openai_responses.shapes import (
    CallItem,
    Link,
    MessageItem,
    OutputItem,
    PartShape,
    PictureItem,
    ReasoningItem,
    Reference,
    Typed,
)
from rivermouth.dialects.openai_responses.tables import ROLES_IN
from rivermouth.dialects.openai_responses.tools import flat_name
from rivermouth.ir.errors import WireError, invalid
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
from rivermouth.vendors.openai.bodies import misfit
from rivermouth.vendors.openai.links import LINK, split_data_uri
from rivermouth.wire import json

BETWEEN_SUMMARIES: Final = "\n\n"
CONTENT: Final = "content"
SUMMARY: Final = "summary"


class Talk(NamedTuple):
    """`input`, divided.  left_out: names of what has no neutral form.  references: as in `Keeping`."""

    system: tuple[Text, ...]
    messages: tuple[Message, ...]
    left_out: list[str]
    references: tuple[tuple[str, str], ...]


class _Reading:
    """The talk as far as it was read."""

    def __init__(self, one_name: Mapping[tuple[str, str], str]) -> None:
        self.talk: list[Message] = []
        self.left_out: list[str] = []
        self.references: list[tuple[str, str]] = []
        self._one_name = one_name
        self._role: Role | None = None  # of the message that is being gathered
        self._parts: list[Part] = []

    def add(self, role: Role, *parts: Part) -> None:
        """More of a turn; the user's messages and instructions stay apart, as they came."""
        if role is not self._role or role in (Role.USER, Role.SYSTEM):
            self.close()
        self._role = role
        self._parts += parts

    def close(self) -> None:
        if self._role is not None and self._parts:
            self.talk.append(Message(self._role, tuple(self._parts)))
        self._role, self._parts = None, []

    def name_of(self, item: CallItem, at: str) -> str:
        if not item.name:
            raise invalid("a call needs the name of its tool", f"{at}.name", "missing_required_parameter")
        if not item.namespace:
            return item.name
        return self._one_name.get((item.namespace, item.name)) or flat_name(item.namespace, item.name)


def parse_input(wire: str | list[msgspec.Raw], one_name: Mapping[tuple[str, str], str]) -> Talk:
    """Raises `ApiError` naming the field at fault, as in `input[2].content[0].type`."""
    if isinstance(wire, str):
        said = (Message(Role.USER, (Text(wire),)),) if wire else ()
        return Talk((), said, [], ())
    reading = _Reading(one_name)
    for position, raw in enumerate(wire):
        at = f"input[{position}]"
        try:
            peek = json.decode_as(_typed, raw)
            kind = peek.type or ("message" if peek.role is not None else "")
            row = _ROWS.get(kind)
            if row is not None:
                row.read(json.decode_as(row.shape, raw), reading, at)
                continue
        except WireError as error:
            raise misfit(error, at) from None
        if not kind:
            raise invalid("an item needs its type", f"{at}.type", "missing_required_parameter")
        reading.left_out.append(f"input.{kind}")
    reading.close()
    return Talk(*instructions(reading.talk), reading.left_out, tuple(reading.references))


# -- items ------------------------------------------------------------------------------------------------------------


def _message(item: MessageItem, reading: _Reading, at: str) -> None:
    role = ROLES_IN.get(item.role)
    if role is None:
        raise invalid(f"unknown role; known are {', '.join(ROLES_IN)}", f"{at}.role", "invalid_value")
    if item.content is None:
        raise invalid("a message needs content", f"{at}.content", "missing_required_parameter")
    reading.add(role, *_parts(item.content, role, f"{at}.content"))


def _function_call(item: CallItem, reading: _Reading, at: str) -> None:
    reading.add(Role.ASSISTANT, ToolCall(_call_id(item.call_id, at), reading.name_of(item, at), item.arguments or ""))


def _custom_call(item: CallItem, reading: _Reading, at: str) -> None:
    name, arguments = reading.name_of(item, at), free_form.wrap(item.input or "")
    reading.add(Role.ASSISTANT, ToolCall(_call_id(item.call_id, at), name, arguments))


def _output(item: OutputItem, reading: _Reading, at: str) -> None:
    parts = _parts(item.output or "", Role.TOOL, f"{at}.output")
    content = tuple(p for p in parts if isinstance(p, Text | Image | File))
    reading.add(Role.TOOL, ToolResult(_call_id(item.call_id, at), content))


def _reasoning(item: ReasoningItem, reading: _Reading, at: str) -> None:
    """A thought without a text and without a signature is nothing; it never becomes something said."""
    text = thought(item)
    signed = from_wire(item.id, item.encrypted_content, silent=not text)
    if signed is not None:
        reading.add(Role.ASSISTANT, Reasoning(text, signed.signature, signed.redacted))
    elif text:
        reading.add(Role.ASSISTANT, Reasoning(text))


def _picture(item: PictureItem, reading: _Reading, at: str) -> None:
    if item.result:
        reading.add(Role.ASSISTANT, Image(media_type=media_type_of(item.output_format, item.result), data=item.result))


def _reference(item: Reference, reading: _Reading, at: str) -> None:
    reading.references.append((at, item.id))


class _Row(NamedTuple):
    shape: Any
    read: Callable[[Any, _Reading, str], None]


_typed: Final = json.typed(Typed)
_calls: Final = json.typed(CallItem)
_outputs: Final = json.typed(OutputItem)
_ROWS: Final[dict[str, _Row]] = {
    "message": _Row(json.typed(MessageItem), _message),
    "function_call": _Row(_calls, _function_call),
    "custom_tool_call": _Row(_calls, _custom_call),
    "function_call_output": _Row(_outputs, _output),
    "custom_tool_call_output": _Row(_outputs, _output),
    "reasoning": _Row(json.typed(ReasoningItem), _reasoning),
    "image_generation_call": _Row(json.typed(PictureItem), _picture),
    "item_reference": _Row(json.typed(Reference), _reference),
}


def thought(item: ReasoningItem, member: str | None = None) -> str:
    """What a reasoning item says in this member; without one its own text, else what sums it up."""
    own = "".join(p.text for p in item.content or () if p.text)
    summary = BETWEEN_SUMMARIES.join(p.text for p in item.summary or () if p.text)
    return {CONTENT: own, SUMMARY: summary}.get(member or "", own or summary)


def _call_id(identity: str | None, at: str) -> str:
    if not identity:
        raise invalid("a call and its output share a call_id", f"{at}.call_id", "missing_required_parameter")
    return identity


# -- parts ------------------------------------------------------------------------------------------------------------


def _parts(content: str | list[PartShape], role: Role, at: str) -> list[Part]:
    """The parts; empty texts are absent (F21)."""
    if isinstance(content, str):
        return [Text(content)] if content else []
    parts = [_part(part, role, f"{at}[{i}]") for i, part in enumerate(content)]
    return [p for p in parts if not isinstance(p, Text | Refusal) or p.text]


def _part(part: PartShape, role: Role, at: str) -> Part:
    kind = part.type if part.type is not None else "text"
    if kind not in ROLE_PARTS[role]:
        known = ", ".join(sorted(ROLE_PARTS[role]))
        raise invalid(f"a message of this role has parts of type {known} only", f"{at}.type", "invalid_value")
    return PART_READERS[kind](part, at)


def _text(part: PartShape, at: str) -> Part:
    if part.text is None:
        raise invalid("a text part needs its text", f"{at}.text", "missing_required_parameter")
    return Text(part.text)


def _refusal(part: PartShape, at: str) -> Part:
    return Refusal(part.refusal or "")


def _image(part: PartShape, at: str) -> Part:
    wire = part.image_url
    url, detail = (wire.url, wire.detail or part.detail) if isinstance(wire, Link) else (wire, part.detail)
    if url is None:
        if not part.file_id:
            raise invalid("an image needs image_url or file_id", f"{at}.image_url", "missing_required_parameter")
        return File(media_type="image/*", file_id=part.file_id)
    inline = split_data_uri(url, f"{at}.image_url")
    if inline is not None:
        return Image(media_type=inline[0] or "image/png", data=inline[1], detail=detail)
    if LINK.fullmatch(url) is None:
        raise invalid("an image is an http(s) URL or a data: URI", f"{at}.image_url", "invalid_value")
    return Image(url=url, detail=detail)


def _file(part: PartShape, at: str) -> Part:
    name = part.filename
    if part.file_data:
        inline = split_data_uri(part.file_data, f"{at}.file_data")
        media_type, data = inline if inline is not None else (None, part.file_data)
        return File(media_type=media_type or "application/pdf", data=data, name=name)
    if part.file_url:
        return File(url=part.file_url, name=name)
    if part.file_id:
        return File(file_id=part.file_id, name=name)
    raise invalid("a file needs file_data, file_url or file_id", at, "missing_required_parameter")


def _audio(part: PartShape, at: str) -> Part:
    if part.input_audio is None:
        raise invalid("an input_audio part needs its input_audio", f"{at}.input_audio", "missing_required_parameter")
    return Audio(part.input_audio.data, part.input_audio.format)


PART_READERS: Final[dict[str, Callable[[PartShape, str], Part]]] = {
    "input_text": _text,
    "output_text": _text,
    "text": _text,
    "refusal": _refusal,
    "input_image": _image,
    "input_file": _file,
    "input_audio": _audio,
}
_TEXTS: Final = frozenset({"input_text", "output_text", "text"})  # some clients mix them
ROLE_PARTS: Final[dict[Role, frozenset[str]]] = {
    Role.SYSTEM: _TEXTS,
    Role.USER: _TEXTS | {"input_image", "input_file", "input_audio"},
    Role.ASSISTANT: _TEXTS | {"refusal"},
    Role.TOOL: _TEXTS | {"input_image", "input_file"},
}

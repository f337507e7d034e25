"""The `contents` of a request, read into neutral messages.

* A stream's chunks come back as one content each, so neighbours of the model's are one message again, its texts joined.
* Responses to tool calls are messages of their own.  Calls and responses are paired by id, else by name, else in order;
  a call without an id gets one made from its position, the same for the same body.
* A signature becomes part of the reasoning before it, or reasoning of its own (see `opaque`).
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from rivermouth.dialects.gemini.opaque import Place, from_wire
from rivermouth.dialects.gemini.proto import standard_base64
from rivermouth.ir.call_ids import Pairing
from rivermouth.ir.errors import invalid
from rivermouth.ir.names import quoted
from rivermouth.ir.request import Audio, File, Image, Message, Part, Reasoning, Role, Text, ToolCall, ToolResult
from rivermouth.wire import json


class Blob(msgspec.Struct, rename="camel"):
    data: str
    mime_type: str = ""


class FileRef(msgspec.Struct, rename="camel"):
    file_uri: str
    mime_type: str | None = None


class _Call(msgspec.Struct):
    name: str
    id: str | None = None
    args: dict[str, Any] | None = None


class _ResponsePart(msgspec.Struct, rename="camel"):
    inline_data: Blob | None = None
    file_data: FileRef | None = None


class _Response(msgspec.Struct):
    name: str | None = None
    id: str | None = None
    response: dict[str, Any] | None = None
    parts: list[_ResponsePart] | None = None


class WirePart(msgspec.Struct, rename="camel"):
    """A part; fields that are not named here are ignored, as the vendor's servers do."""

    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    inline_data: Blob | None = None
    file_data: FileRef | None = None
    function_call: _Call | None = None
    function_response: _Response | None = None
    executable_code: Any = None
    code_execution_result: Any = None


class WireContent(msgspec.Struct):
    parts: list[WirePart] | None = None
    role: str | None = None


_ROLES: Final[dict[str, Role]] = {
    "": Role.USER,
    "user": Role.USER,
    "function": Role.USER,
    "tool": Role.USER,
    "model": Role.ASSISTANT,
}
# The vendor's own tools: parts that no other target can say or read.
_VENDOR_PARTS: Final = ("executable_code", "code_execution_result")
_MEMBERS: Final = {"executable_code": "executableCode", "code_execution_result": "codeExecutionResult"}


class Contents:
    """`messages`, and `vendor`: the kinds of parts that only the vendor's own models understand."""

    def __init__(self, contents: list[WireContent]) -> None:
        self.vendor: list[str] = []
        self.messages: list[Message] = []
        calls = (p.function_call for c in contents for p in c.parts or [])
        self._pairing = Pairing(c.id for c in calls if c is not None and c.id)
        self._turn: _ModelTurn | None = None
        for index, content in enumerate(contents):
            self._add(content, index)
        self._end_turn()

    def _add(self, content: WireContent, index: int) -> None:
        role = _ROLES.get(content.role or "")
        if role is None:
            raise invalid(f"{quoted(content.role or '')} is no role; use user or model", f"contents[{index}].role")
        parts = content.parts or []
        for part in parts:
            for name in _VENDOR_PARTS:
                if getattr(part, name) is not None:
                    self.vendor.append(f"contents.{_MEMBERS[name]}")
        if role is Role.ASSISTANT:
            self._turn = self._turn or _ModelTurn(self._pairing)
            for number, part in enumerate(parts):
                self._turn.add(part, f"contents[{index}].parts[{number}]", f"{index}_{number}")
        else:
            self._end_turn()
            self._add_user(parts, index)

    def _end_turn(self) -> None:
        parts = self._turn.whole() if self._turn is not None else ()
        if parts:
            self.messages.append(Message(Role.ASSISTANT, parts))
        self._turn = None

    def _add_user(self, parts: list[WirePart], index: int) -> None:
        results: list[Part] = []
        rest: list[Part] = []
        for number, part in enumerate(parts):
            where = f"contents[{index}].parts[{number}]"
            if part.function_call is not None:
                raise invalid("a function call belongs to a content of the role model", where)
            if part.function_response is not None:
                results.append(_result(part.function_response, self._pairing, f"{index}_{number}"))
            elif not part.thought:
                rest += said(part)
        if results:
            self.messages.append(Message(Role.TOOL, tuple(results)))
        if rest:
            self.messages.append(Message(Role.USER, tuple(rest)))


class _Run:
    """Texts that follow each other, joined once: a turn may come back in as many pieces as it was streamed in."""

    __slots__ = ("kind", "pieces")

    def __init__(self, kind: type[Text | Reasoning], text: str) -> None:
        self.kind = kind
        self.pieces = [text]

    def part(self, signature: str | None = None) -> Text | Reasoning:
        text = "".join(self.pieces)
        return Text(text) if self.kind is Text else Reasoning(text, signature)


class _ModelTurn:
    """The parts of one turn of the model, being joined."""

    def __init__(self, pairing: Pairing) -> None:
        self._parts: list[Part | _Run] = []
        self._pairing = pairing

    def whole(self) -> tuple[Part, ...]:
        return tuple(part.part() if isinstance(part, _Run) else part for part in self._parts)

    def add(self, part: WirePart, where: str, position: str) -> None:
        call = part.function_call
        if call is not None:
            self._sign(Place.CALL, part.thought_signature)
            self._parts.append(_called(call, self._pairing, where, position))
        elif part.function_response is not None:
            raise invalid("a function response belongs to a content of the role user", where)
        elif part.thought:
            self._say(Reasoning, part.text or "")
            self._sign(Place.THOUGHT, part.thought_signature)
        else:
            found = said(part)
            for each in found:
                if isinstance(each, Text):
                    self._say(Text, each.text)
                else:
                    self._parts.append(each)
            self._sign(Place.TEXT if found else Place.END, part.thought_signature)

    def _say(self, kind: type[Text | Reasoning], text: str) -> None:
        last = self._parts[-1] if self._parts else None
        if not text:
            return
        if isinstance(last, _Run) and last.kind is kind:
            last.pieces.append(text)
        else:
            self._parts.append(_Run(kind, text))

    def _sign(self, place: Place, wire: str | None) -> None:
        if not wire:
            return
        signature, redacted = from_wire(place, wire)
        if signature is None:
            return
        last = self._parts[-1] if self._parts else None
        if isinstance(last, _Run) and last.kind is Reasoning and not redacted:
            self._parts[-1] = last.part(signature)
        else:
            self._parts.append(Reasoning("", signature, redacted))


def _called(call: _Call, pairing: Pairing, where: str, position: str) -> ToolCall:
    if not call.name:
        raise invalid("a function call needs the function's name", f"{where}.functionCall.name")
    identity = pairing.call(call.id, call.name, position)
    return ToolCall(identity, call.name, json.encode(call.args).decode() if call.args else "")


def _result(response: _Response, pairing: Pairing, position: str) -> ToolResult:
    identity, name = pairing.result(response.id, response.name, position)
    text, is_error = _result_text(response.response)
    content: list[Text | Image | File] = [Text(text)] if text else []
    for part in response.parts or []:
        content += [p for p in media(part.inline_data, part.file_data) if isinstance(p, Image | File)]
    return ToolResult(identity, tuple(content), is_error, name)


def said(part: WirePart) -> list[Part]:
    """What a part says that is neither a thought nor about tools; an empty text is nothing."""
    if part.text is not None:
        return [Text(part.text)] if part.text else []
    return media(part.inline_data, part.file_data)


def media(blob: Blob | None, reference: FileRef | None) -> list[Part]:
    """An image, audio or any other file, by its media type."""
    if blob is not None:
        kind, data = blob.mime_type, standard_base64(blob.data)
        if kind.startswith("image/"):
            return [Image(media_type=kind, data=data)]
        if kind.startswith("audio/"):
            return [Audio(data=data, format=kind.removeprefix("audio/"))]
        return [File(media_type=kind or None, data=data)]
    if reference is not None:
        if (reference.mime_type or "").startswith("image/"):
            return [Image(media_type=reference.mime_type, url=reference.file_uri)]
        return [File(media_type=reference.mime_type, url=reference.file_uri)]
    return []


def _result_text(response: dict[str, Any] | None) -> tuple[str, bool]:
    """The text of a response, and whether it tells of an error.

    `output` (or the SDK's `result`) or `error`, where it is the only member, is the text; anything else is all of it.
    """
    if not response:
        return "", False
    if len(response) == 1:
        ((name, value),) = response.items()
        if name in ("output", "result", "error"):
            return value if isinstance(value, str) else json.encode(value).decode(), name == "error"
    return json.encode(response).decode(), False

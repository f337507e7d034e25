"""Neutral messages to the contents that the vendor's models accept.

The rules, each a 400 when broken:
* the responses to a turn's calls are the content right after it, one for each call (`ir.turns`);
* no content is empty, and no part is;
* a thought signature goes back only to its maker, to where it stood, and newer models refuse a call of the turn that
  runs without one (`vouch`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from rivermouth.dialects.gemini import parts as wire
from rivermouth.dialects.gemini.opaque import NOT_OURS, Signed, native
from rivermouth.ir.errors import WireError
from rivermouth.ir.request import (
    File,
    Image,
    Message,
    Part,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolResult,
)
from rivermouth.ir.turns import LOST, paired
from rivermouth.wire import json

Content = dict[str, Any]

NO_USER: Final = "Continue."
USER: Final = "user"
MODEL: Final = "model"
_CALLS: Final = ("functionCall", "function_call")
_SIGNATURES: Final = ("thoughtSignature", "thought_signature")
_RESPONSES: Final = ("functionResponse", "function_response")


class Turns:
    """`contents`, and `losses`, which names what could not be carried.

    nested: media in a tool's result stand inside its response; else they follow it, which older models need.
    """

    def __init__(self, messages: Iterable[Message], *, nested: bool) -> None:
        talk = paired(messages)
        self.losses: set[str] = {LOST} if talk.lost else set()
        self.contents: list[Content] = []
        self._nested = nested
        self._calls: list[ToolCall] = []  # of the model's last turn
        for message in talk.messages:
            self._add(message)
        if not self.contents:
            self.contents.append({"role": USER, "parts": [wire.text(NO_USER)]})

    def _add(self, message: Message) -> None:
        if message.name:
            self.losses.add("message.name")
        if message.role is Role.ASSISTANT:
            self._calls = [p for p in message.parts if isinstance(p, ToolCall)]
            self._append(MODEL, self._model(message.parts))
        elif message.role is Role.TOOL:
            self._append(USER, self._responses([p for p in message.parts if isinstance(p, ToolResult)]))
        else:
            self._append(USER, self._user(message.parts))

    def _append(self, role: str, parts: list[wire.WirePart]) -> None:
        """One more content; neighbours of the model's are one, since its calls must stand right before the results."""
        last = self.contents[-1] if self.contents else None
        if not parts:
            return
        if last is not None and role == MODEL == last["role"]:
            last["parts"] += parts
        else:
            self.contents.append({"role": role, "parts": parts})

    def _model(self, parts: Sequence[Part]) -> list[wire.WirePart]:
        said = []
        for part in parts:
            self._note(part)
            if isinstance(part, Reasoning) and native(part.signature) is None:
                self.losses.add("messages.reasoning")
            else:
                said.append(part)
        return wire.write_parts(said, _own, past=True)  # type: ignore[arg-type]  # a result is a message of its own

    def _user(self, parts: Sequence[Part]) -> list[wire.WirePart]:
        out: list[wire.WirePart] = []
        for part in parts:
            self._note(part)
            if isinstance(part, Reasoning | ToolCall | ToolResult):
                self.losses.add("messages.reasoning" if isinstance(part, Reasoning) else "messages.tool_result")
            else:
                out += wire.plain(part)
        return out

    def _note(self, part: Part) -> None:
        if isinstance(part, Image) and part.detail not in (None, "auto"):
            self.losses.add("image.detail")
        if isinstance(part, File) and part.name:
            self.losses.add("file.name")

    def _responses(self, results: Sequence[ToolResult]) -> list[wire.WirePart]:
        pairs = zip(results, self._calls, strict=True)
        return [part for result, called in pairs for part in self._response(result, called)]

    def _response(self, result: ToolResult, called: ToolCall) -> list[wire.WirePart]:
        texts = "".join(p.text for p in result.content if isinstance(p, Text))
        files = [p for p in result.content if isinstance(p, Image | File)]
        for file in files:
            self._note(file)
        media = [part for file in files for part in wire.plain(file)]
        response: wire.WirePart = {"id": called.id, "name": called.name, "response": _object(texts, result.is_error)}
        if self._nested and media:
            return [{"functionResponse": {**response, "parts": media}}]
        return [{"functionResponse": response}, *media]


def vouch(contents: list[Any]) -> list[Any]:
    """The contents with the vendor's own stand-in where a call of the turn that runs has no signature.

    Such calls were made by another vendor's model, or their signatures were lost.  Only the first call of a content is
    signed, and only what follows the user's last words is looked at.
    """
    begin = max((i for i, content in enumerate(contents) if _speaks(content)), default=-1) + 1
    return [*contents[:begin], *(_vouched(content) for content in contents[begin:])]


def _speaks(content: Any) -> bool:
    """True for a content of the user's that is more than responses."""
    return content.get("role") != MODEL and not any(
        name in part for part in content.get("parts") or () for name in _RESPONSES
    )


def _vouched(content: Any) -> Any:
    parts = content.get("parts") or []
    first = next((i for i, part in enumerate(parts) if any(name in part for name in _CALLS)), None)
    if first is None or any(name in parts[first] for name in _SIGNATURES):
        return content
    return {**content, "parts": [*parts[:first], wire.signed(parts[first], NOT_OURS), *parts[first + 1 :]]}


def _own(part: Reasoning) -> Signed | None:
    return native(part.signature)


def _object(text: str, is_error: bool) -> Any:
    """A response's object: what the tool wrote, if that is one, else its text under the name that the vendor reads."""
    if is_error:
        return {"error": text}
    if text[:1] == "{":
        try:
            value = json.decode(text.encode("utf-8", "replace"))
        except WireError:
            value = None
        if isinstance(value, dict):
            return value
    return {"output": text}

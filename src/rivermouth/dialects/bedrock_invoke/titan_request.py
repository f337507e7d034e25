"""A Titan body to a neutral request, and a neutral talk to the one prompt that Titan takes."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from rivermouth.dialects.bedrock_invoke.tables import NAME
from rivermouth.dialects.dialect import Outgoing, Route
from rivermouth.ir.errors import WireError, invalid
from rivermouth.ir.names import loss_names, unread
from rivermouth.ir.request import (
    Choose,
    File,
    Format,
    Message,
    Original,
    Reasoning,
    Refusal,
    Request,
    Role,
    Sampling,
    Text,
    check_translatable,
)
from rivermouth.wire import json

_SPEAKERS: Final = {Role.USER: "User", Role.ASSISTANT: "Bot", Role.SYSTEM: "User"}
_CONFIG: Final = "textGenerationConfig"
_READ: Final = frozenset({"inputText", _CONFIG, "model"})
_CONFIG_READ: Final = frozenset({"maxTokenCount", "temperature", "topP", "stopSequences"})
_encode: Final = json.encode


class _Config(msgspec.Struct):
    max_tokens: int | None = msgspec.field(name="maxTokenCount", default=None)
    temperature: float | None = None
    top_p: float | None = msgspec.field(name="topP", default=None)
    stop: list[str] | None = msgspec.field(name="stopSequences", default=None)


class _Asked(msgspec.Struct):
    text: str = msgspec.field(name="inputText")
    config: _Config | None = msgspec.field(name=_CONFIG, default=None)


_asked: Final = json.typed(_Asked)


def tells(fields: dict[str, json.Raw]) -> bool:
    return "inputText" in fields


def parse(fields: dict[str, json.Raw], route: Route, model: str) -> Request:
    """Raises `ApiError` with the field at fault."""
    try:
        asked = json.decode_as(_asked, _encode(fields))
        sent = json.fields(fields[_CONFIG]) if asked.config is not None else {}
    except WireError as error:
        fault = json.misfit(error)
        raise invalid(fault.words, fault.param) from None
    config = asked.config or _Config()
    _check(asked, config)
    return Request(
        model=model,
        messages=(Message(Role.USER, (Text(asked.text),)),),
        stream=route.streams,
        include_usage=True,
        max_tokens=config.max_tokens,
        stop=tuple(s for s in config.stop or () if s),
        sampling=Sampling(temperature=config.temperature, top_p=config.top_p),
        original=Original(NAME, fields),
        unmodelled=loss_names([*unread(fields, _READ), *(f"{_CONFIG}.{n}" for n in unread(sent, _CONFIG_READ))]),
    )


def _check(asked: _Asked, config: _Config) -> None:
    if not asked.text:
        raise invalid("the prompt is empty", "inputText")
    if config.max_tokens is not None and config.max_tokens < 0:
        raise invalid("must not be negative", f"{_CONFIG}.maxTokenCount")
    for name, value in (("temperature", config.temperature), ("topP", config.top_p)):
        if value is not None and not 0 <= value <= 1:
            raise invalid("must be between 0 and 1", f"{_CONFIG}.{name}")


def build(request: Request, model: str) -> Outgoing:
    """The talk as one prompt.  Raises `ApiError` where leaving something out would make the answer wrong."""
    original = request.original
    if original is not None and original.dialect == NAME and tells(original.fields):
        return Outgoing(path="", body=_encode({n: raw for n, raw in original.fields.items() if n != "model"}))
    _refuse(request)
    losses = set(request.unmodelled)
    fields = {"inputText": _prompt(request, losses), **_config(request, losses)}
    return Outgoing(path="", body=_encode(fields), losses=tuple(sorted(losses)))


def _refuse(request: Request) -> None:
    check_translatable(request)
    if request.n > 1:
        raise invalid("this model gives one answer for each request", "n")
    choice = request.tool_choice
    if request.tools and (choice is None or choice.mode is not Choose.NONE):
        raise invalid("this model has no tools", "tools")
    if request.response_format is not None and request.response_format.kind is not Format.TEXT:
        raise invalid("this model has no output formats", "response_format")


def _prompt(request: Request, losses: set[str]) -> str:
    """One question goes as it is; a longer talk in the form that the vendor gives for talks."""
    lead = "".join(f"{t.text}\n" for t in request.system if t.text)
    turns = [(m.role, _words(m, losses)) for m in request.messages]
    if len(turns) == 1 and turns[0][0] in (Role.USER, Role.SYSTEM):
        return lead + turns[0][1]
    said = "".join(f"{_SPEAKERS[role]}: {text}\n" for role, text in turns)
    return f"{lead}{said}Bot:"


def _words(message: Message, losses: set[str]) -> str:
    texts: list[str] = []
    for part in message.parts:
        match part:
            case Text() | Refusal():
                texts.append(part.text)
            case File() if part.text is not None:
                texts.append(part.text)
            case Reasoning():
                losses.add("messages.reasoning")
            case _:
                raise invalid("this model reads nothing but text", "messages")
    return "".join(texts)


def _config(request: Request, losses: set[str]) -> dict[str, Any]:
    sampling = request.sampling
    for name in sampling.__struct_fields__:
        if name not in ("temperature", "top_p") and getattr(sampling, name) not in (None, False):
            losses.add(name)
    losses.update(request.local.wishes())
    for name in ("metadata", "user"):
        if getattr(request, name):
            losses.add(name)
    if request.thinking is not None and request.thinking.enabled:
        losses.add("thinking")
    wanted: dict[str, Any] = {
        "maxTokenCount": request.max_tokens,
        "temperature": None if sampling.temperature is None else min(sampling.temperature, 1.0),
        "topP": sampling.top_p,
        "stopSequences": list(request.stop) or None,
    }
    if sampling.temperature is not None and sampling.temperature > 1:
        losses.add("temperature")
    config = {name: value for name, value in wanted.items() if value is not None}
    return {_CONFIG: config} if config else {}

"""A Titan body to a neutral request, and a neutral talk to the one prompt that Titan takes."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from rivermouth.dialects.bedrock_invoke.tables import NAME
from rivermouth.dialects.bedrock_invoke.text_request import note_losses, refuse, said, temperature_of, words
from rivermouth.dialects.dialect import Outgoing, Route
from rivermouth.ir.errors import WireError, invalid
from rivermouth.ir.names import loss_names, unread
from rivermouth.ir.request import Message, Original, Request, Role, Sampling, Text
from rivermouth.wire import json

_SPEAKERS: Final = {Role.USER: "User", Role.ASSISTANT: "Bot", Role.SYSTEM: "User"}
_CONFIG: Final = "textGenerationConfig"
_READ: Final = frozenset({"inputText", _CONFIG, "model"})
_SAMPLED: Final = frozenset({"temperature", "top_p"})
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
    refuse(request)
    losses = set(request.unmodelled)
    fields = {"inputText": _prompt(request, losses), **_config(request, losses)}
    return Outgoing(path="", body=_encode(fields), losses=tuple(sorted(losses)))


def _prompt(request: Request, losses: set[str]) -> str:
    """One question goes as it is; a longer talk in the form that the vendor gives for talks."""
    lead = "".join(f"{t.text}\n" for t in request.system if t.text)
    turns = [(m.role, words(m, losses)) for m in request.messages]
    if len(turns) == 1 and turns[0][0] in (Role.USER, Role.SYSTEM):
        return lead + turns[0][1]
    told = "".join(f"{_SPEAKERS[role]}: {text}\n" for role, text in turns)
    return f"{lead}{told}Bot:"


def _config(request: Request, losses: set[str]) -> dict[str, Any]:
    note_losses(request, _SAMPLED, losses)
    config = said(
        {
            "maxTokenCount": request.max_tokens,
            "temperature": temperature_of(request, losses),
            "topP": request.sampling.top_p,
            "stopSequences": list(request.stop) or None,
        }
    )
    return {_CONFIG: config} if config else {}

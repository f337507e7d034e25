"""A client's prompt to a neutral request, and a neutral talk to the one text that this protocol takes.

A prompt of tokens, or of several texts, has no neutral form: only an upstream of this dialect gets such a request.
"""

from __future__ import annotations

from typing import Any, Final

from rivermouth.dialects.dialect import Outgoing, Route
from rivermouth.dialects.openai_completions.shapes import RequestShape
from rivermouth.dialects.openai_completions.tables import (
    NAME,
    PATH,
    RANGES,
    SAMPLING,
    SPEAKERS,
    UNMET,
)
from rivermouth.ir.errors import WireError, invalid
from rivermouth.ir.names import loss_names, model_name, unread
from rivermouth.ir.request import (
    Choose,
    File,
    Format,
    Local,
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
from rivermouth.vendors.openai.bodies import check_ranges, misfit, read_fields
from rivermouth.vendors.openai.repeat import repeated
from rivermouth.wire import json

_request: Final = json.typed(RequestShape)
_READ: Final = frozenset(RequestShape.__struct_fields__)
_READ_SAMPLING: Final = tuple(n for n in Sampling.__struct_fields__ if n not in ("logprobs", "top_logprobs"))


def parse_request(body: bytes, route: Route, path_model: str | None) -> Request:
    """Raises `ApiError(invalid_request)`; `param` is the path of the field."""
    fields = read_fields(body)
    try:
        wire = json.decode_as(_request, body)
    except WireError as error:
        raise misfit(error) from None
    model = model_name(wire.model, path_model)
    check_ranges(wire, RANGES)
    prompt = _prompt(wire.prompt)
    options = wire.stream_options
    stop = [wire.stop] if isinstance(wire.stop, str) else wire.stop or []
    return Request(
        model=model,
        messages=(Message(Role.USER, (Text(prompt),)),) if prompt is not None else (),
        stream=bool(wire.stream),
        include_usage=bool(wire.stream and options is not None and options.include_usage),
        n=1 if wire.n is None else wire.n,
        max_tokens=wire.max_tokens,
        stop=tuple(value for value in stop if value),
        sampling=Sampling(**{name: getattr(wire, name) for name in _READ_SAMPLING}),
        local=Local(raw=True),
        user=wire.user,
        original=Original(NAME, fields),
        untranslatable=() if prompt is not None else ("prompt",),
        unmodelled=loss_names([*unread(fields, _READ), *(name for name in UNMET if _asked(wire, name))]),
    )


def _asked(wire: RequestShape, name: str) -> bool:
    value = getattr(wire, name)
    if value is None or value is False or value == "":
        return False
    return name != "best_of" or value > (wire.n or 1)


def _prompt(wire: str | list[str | int | list[int]] | None) -> str | None:
    """The one text that is to go on; None for what has no neutral form.  Raises `ApiError` when there is nothing."""
    if not wire:
        raise invalid("a prompt is required", "prompt", "missing_required_parameter")
    if isinstance(wire, str):
        return wire
    if len(wire) == 1 and isinstance(wire[0], str):
        return _prompt(wire[0])
    return None


# -- out --------------------------------------------------------------------------------------------------------------


def build_request(request: Request, model: str) -> Outgoing:
    """The call to make.  Raises `ApiError` where leaving something out would make the answer wrong."""
    original = request.original
    if original is not None and original.dialect == NAME:
        return Outgoing(path=PATH, body=repeated(original, request, model))
    _refuse(request)
    losses = list(request.unmodelled)
    fields: dict[str, Any] = {"model": model, "prompt": _text(request, losses)}
    if request.n != 1:
        fields["n"] = request.n
    if request.max_tokens is not None:
        fields["max_tokens"] = request.max_tokens
    if request.stop:
        fields["stop"] = list(request.stop)
    for name in Sampling.__struct_fields__:
        value = getattr(request.sampling, name)
        if value is not None and name in SAMPLING:
            fields[name] = value
        elif value not in (None, False):
            losses.append(name)
    if request.user is not None:
        fields["user"] = request.user
    losses += ["metadata"] if request.metadata else []
    losses += ["thinking"] if request.thinking is not None and request.thinking.enabled else []
    losses += [name for name in request.local.wishes() if name != "raw"]
    if request.stream:
        fields |= {"stream": True, "stream_options": {"include_usage": True}}
    return Outgoing(path=PATH, body=json.encode(fields), losses=tuple(dict.fromkeys(losses)))


def _refuse(request: Request) -> None:
    check_translatable(request)
    choice = request.tool_choice
    if request.tools and (choice is None or choice.mode is not Choose.NONE):
        raise invalid("a completion has no tools", "tools")
    if request.response_format is not None and request.response_format.kind is not Format.TEXT:
        raise invalid("a completion has no output formats", "response_format")


def _text(request: Request, losses: list[str]) -> str:
    """One text goes as it is; a longer talk line by line, with the names of those who speak."""
    lead = "".join(f"{t.text}\n" for t in request.system if t.text)
    turns = [(m.role, _words(m, losses)) for m in request.messages]
    if len(turns) == 1 and turns[0][0] is not Role.ASSISTANT:
        return lead + turns[0][1]
    said = "".join(f"{SPEAKERS[role]}: {text}\n" for role, text in turns)
    return f"{lead}{said}{SPEAKERS[Role.ASSISTANT]}:"


def _words(message: Message, losses: list[str]) -> str:
    texts: list[str] = []
    for part in message.parts:
        match part:
            case Text() | Refusal():
                texts.append(part.text)
            case File() if part.text is not None:
                texts.append(part.text)
            case Reasoning():
                losses.append("messages.reasoning")
            case _:
                raise invalid("a completion reads nothing but text", "messages")
    return "".join(texts)

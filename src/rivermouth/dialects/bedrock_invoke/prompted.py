"""A body with a `prompt` to a neutral request; what else it asks for is its own body's to add."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from rivermouth.dialects.bedrock_invoke.tables import NAME
from rivermouth.dialects.dialect import Route
from rivermouth.ir.errors import WireError, invalid
from rivermouth.ir.names import loss_names, unread
from rivermouth.ir.request import Message, Original, Request, Role, Text, instructions
from rivermouth.wire import json


class Prompted(msgspec.Struct):
    """What every such body has."""

    prompt: str
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None


T = TypeVar("T", bound=Prompted)


def parse_prompted(
    decode: Callable[[bytes], T],
    fields: dict[str, json.Raw],
    route: Route,
    model: str,
    read: Callable[[str], list[Message] | None],
) -> tuple[T, Request]:
    """The body, and the request that its prompt is: a talk where `read` finds the model's layout in it, else one text.

    Raises `ApiError` with the field at fault.
    """
    try:
        asked = decode(json.encode(fields))
    except WireError as error:
        fault = json.misfit(error)
        raise invalid(fault.words, fault.param) from None
    if not asked.prompt:
        raise invalid("the prompt is empty", "prompt")
    names = {field.name: field.encode_name for field in msgspec.structs.fields(asked)}
    _check(asked, names)
    system, messages = instructions(read(asked.prompt) or [Message(Role.USER, (Text(asked.prompt),))])
    return asked, Request(
        model=model,
        messages=messages,
        system=system,
        stream=route.streams,
        include_usage=True,
        max_tokens=asked.max_tokens,
        original=Original(NAME, fields),
        unmodelled=loss_names(unread(fields, {*names.values(), "model"})),
    )


def _check(asked: Prompted, names: dict[str, str]) -> None:
    if asked.max_tokens is not None and asked.max_tokens < 0:
        raise invalid("must not be negative", names["max_tokens"])
    for name in ("temperature", "top_p"):
        value = getattr(asked, name)
        if value is not None and not 0 <= value <= 1:
            raise invalid("must be between 0 and 1", name)

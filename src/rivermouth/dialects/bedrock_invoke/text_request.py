"""What the bodies that have one text for the whole talk share: what they refuse, what they go without."""

from __future__ import annotations

from typing import Any

from rivermouth.ir.errors import invalid
from rivermouth.ir.request import (
    Choose,
    File,
    Format,
    Message,
    Reasoning,
    Refusal,
    Request,
    Text,
    check_translatable,
)


def refuse(request: Request) -> None:
    """Raises `ApiError` where leaving something out would make the answer wrong."""
    check_translatable(request)
    if request.n > 1:
        raise invalid("this model gives one answer for each request", "n")
    choice = request.tool_choice
    if request.tools and (choice is None or choice.mode is not Choose.NONE):
        raise invalid("this model has no tools in this protocol; Converse may have them", "tools")
    if request.response_format is not None and request.response_format.kind is not Format.TEXT:
        raise invalid("this model has no output formats", "response_format")


def words(message: Message, losses: set[str]) -> str:
    """What a message says, as one text.  Raises `ApiError` for what is no text."""
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


def note_losses(request: Request, kept: frozenset[str], losses: set[str]) -> None:
    """Names every wish that has no place; `kept` are the fields of sampling that have one."""
    sampling = request.sampling
    for name in sampling.__struct_fields__:
        if name not in kept and getattr(sampling, name) not in (None, False):
            losses.add(name)
    losses.update(request.local.wishes())
    for name in ("metadata", "user"):
        if getattr(request, name):
            losses.add(name)
    if request.thinking is not None:
        losses.add("thinking")


def temperature_of(request: Request, losses: set[str]) -> float | None:
    """The temperature, which is at most 1 here."""
    wanted = request.sampling.temperature
    if wanted is None or wanted <= 1:
        return wanted
    losses.add("temperature")
    return 1.0


def said(wanted: dict[str, Any]) -> dict[str, Any]:
    """The members that have a value."""
    return {name: value for name, value in wanted.items() if value is not None}

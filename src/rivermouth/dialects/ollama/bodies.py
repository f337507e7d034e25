"""Reading what a client sent: JSON to a shape, and every refusal with the field that is at fault."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeVar

from rivermouth.ir.errors import ApiError, WireError, invalid
from rivermouth.wire import json

T = TypeVar("T")

_PLACE: Final = re.compile(r" - at `(?:key in )?\$\.?([^`]*)`$")
_MISSING: Final = re.compile(r"missing required field `([^`]+)`")


def reader(shape: type[T]) -> Callable[[bytes], T]:
    """A reader of bodies of that shape, which raises `ApiError` (invalid_request) with the field's path as `param`."""
    decoder = json.typed(shape)

    def read(body: bytes) -> T:
        try:
            return json.decode_as(decoder, body)
        except WireError as error:
            raise refusal(error) from None

    return read


def refusal(error: WireError) -> ApiError:
    """A body that does not fit, as the client's error."""
    text = str(error)
    place = _PLACE.search(text)
    missing = _MISSING.search(text)
    path = [place[1] if place else "", missing[1] if missing else ""]
    return invalid(_PLACE.sub("", text), ".".join(p for p in path if p) or None)


def model_name(model: str, legacy: str) -> str:
    """The model asked for; old clients say `name`."""
    name = model or legacy
    if not name:
        raise invalid("model is required", "model")
    return name

"""Reading what a client sent: JSON to a shape, and every refusal with the field that is at fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rivermouth.ir.errors import WireError, invalid
from rivermouth.wire import json

T = TypeVar("T")


def reader(shape: type[T]) -> Callable[[bytes], T]:
    """A reader of bodies of that shape, which raises `ApiError` (invalid_request) with the field's path as `param`."""
    decoder = json.typed(shape)

    def read(body: bytes) -> T:
        try:
            return json.decode_as(decoder, body)
        except WireError as error:
            fault = json.misfit(error)
            raise invalid(fault.words, fault.param) from None

    return read

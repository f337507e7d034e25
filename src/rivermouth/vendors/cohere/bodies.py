"""Reading what a client sent: JSON to a shape, and every refusal with the field that is at fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rivermouth.ir.errors import ApiError, WireError, invalid
from rivermouth.wire import json

T = TypeVar("T")


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
    words, param, _ = json.misfit(error)
    return invalid(words, param)


def said(fields: dict[str, json.Raw], name: str) -> bool:
    """Whether the body says this field, null and false and empty lists being nothing said."""
    return name in fields and bytes(fields[name]) not in (b"null", b"false", b"[]")

"""What a client sent: read, with every refusal naming the field that is at fault, and passed on as it came."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rivermouth.ir.errors import ApiError, WireError, invalid
from rivermouth.ir.request import Original, Request
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


def as_it_came(original: Original, request: Request, model: str) -> bytes:
    """A client's body for an upstream of the same protocol: untouched, but for the model and `stream`."""
    fields = {**original.fields, "model": json.raw(model)}
    if request.stream is not ("stream" in fields and bytes(fields["stream"]) == b"true"):
        fields["stream"] = json.raw(request.stream)
    return json.encode(fields)


def said(fields: dict[str, json.Raw], name: str) -> bool:
    """Whether the body says this field, null and false and empty lists being nothing said."""
    return name in fields and bytes(fields[name]) not in (b"null", b"false", b"[]")

"""What a client of OpenAI's APIs sent: read, with every refusal naming the field that is at fault."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from rivermouth.ir.errors import ApiError, WireError, invalid
from rivermouth.wire import json

T = TypeVar("T")

Ranges = Mapping[str, tuple[float, float | None]]
"""Field -> its least value, and its greatest if it has one."""


def read_fields(body: bytes) -> dict[str, json.Raw]:
    """The body's top-level fields.  Raises `ApiError` when it is no JSON object."""
    try:
        return json.fields(body)
    except WireError as error:
        raise invalid(f"the body is not a JSON object: {error}", code="invalid_json") from None


def misfit(error: WireError, at: str = "") -> ApiError:
    """The JSON decoder's complaint as the client's fault, with the field's path in `param`; it stands below `at`."""
    words, param, missing = json.misfit(error)
    path = ".".join(filter(None, (at, param))) or None
    if missing:
        return invalid("a required field is missing", path, "missing_required_parameter")
    return invalid(words, path, "invalid_type")


def check_ranges(wire: object, ranges: Ranges) -> None:
    """Raises `ApiError` for a number that is out of its range."""
    for name, (least, greatest) in ranges.items():
        value = getattr(wire, name)
        if value is None:
            continue
        if value < least or (greatest is not None and value > greatest):
            upto = f" and at most {greatest}" if greatest is not None else ""
            raise invalid(f"{name} must be at least {least}{upto}", name, "invalid_value")


def known(word: str, words: Mapping[str, T], param: str) -> T:
    """What a word of the client's means.  Raises `ApiError`, which names those that are known."""
    if word not in words:
        raise invalid(f"known are {', '.join(words)}", param, "invalid_value")
    return words[word]

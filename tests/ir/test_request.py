"""The neutral request: values are immutable, comparable, and read as text where a text-only target needs it."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given

from rivermouth.ir.request import Image, Message, Request, Role, Text
from tests.strategies import requests


def test_text_joins_only_the_text_parts() -> None:
    message = Message(Role.USER, (Text("a"), Image(url="https://x/y.png"), Text("b")))
    assert message.text == "ab"


def test_a_request_is_a_value() -> None:
    one = Request(model="m", messages=(Message(Role.USER, (Text("a"),)),))
    assert one == Request(model="m", messages=(Message(Role.USER, (Text("a"),)),))
    with pytest.raises(AttributeError):
        one.model = "n"  # type: ignore[misc]


@given(requests())
def test_a_request_survives_its_own_serialisation(request: Request) -> None:
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(request), type=Request) == request

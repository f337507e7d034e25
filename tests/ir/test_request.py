"""The neutral request: values are immutable, comparable, and read as text where a text-only target needs it."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given

from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.request import (
    Image,
    Keeping,
    Message,
    Request,
    Role,
    Text,
    check_translatable,
    instructions,
    unkept,
)
from tests.strategies import requests


def test_text_joins_only_the_text_parts() -> None:
    message = Message(Role.USER, (Text("a"), Image(url="https://x/y.png"), Text("b")))
    assert message.text == "ab"


def test_a_request_is_a_value() -> None:
    one = Request(model="m", messages=(Message(Role.USER, (Text("a"),)),))
    assert one == Request(model="m", messages=(Message(Role.USER, (Text("a"),)),))
    with pytest.raises(AttributeError):
        one.model = "n"  # type: ignore[misc]


def test_instructions_lead_unless_nothing_follows_them() -> None:
    first, later = Message(Role.SYSTEM, (Text("a"), Text("b"))), Message(Role.SYSTEM, (Text("c"),))
    asked = Message(Role.USER, (Text("d"),))
    assert instructions([first, asked, later]) == ((Text("a"), Text("b")), (asked, later))
    assert instructions([asked, first]) == ((), (asked, first))
    assert instructions([first, later]) == ((), (first, later)), "they are what is to be answered"
    assert instructions([]) == ((), ())


def test_what_only_its_own_dialect_can_say_is_refused_by_name() -> None:
    request = Request(model="m", messages=())
    check_translatable(request)
    with pytest.raises(ApiError) as caught:
        check_translatable(msgspec.structs.replace(request, untranslatable=("tools[1]", "x")))
    assert (caught.value.kind, caught.value.param) == (Kind.INVALID_REQUEST, "tools[1]")


@given(requests())
def test_a_request_survives_its_own_serialisation(request: Request) -> None:
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(request), type=Request) == request


@pytest.mark.parametrize(
    ("kept", "param"),
    [
        (Keeping(previous="resp_1"), "previous_response_id"),
        (Keeping(conversation="conv_1"), "conversation"),
        (Keeping(background=True), "background"),
        (Keeping(references=(("input[2]", "msg_1"),)), "input[2]"),
    ],
)
def test_what_only_kept_answers_could_serve_is_refused_without_them(kept: Keeping, param: str) -> None:
    with pytest.raises(ApiError) as caught:
        unkept(Request(model="m", messages=(), kept=kept))
    assert (caught.value.status, caught.value.param) == (400, param)


def test_the_wish_to_have_an_answer_stored_changes_nothing_of_it() -> None:
    plain = Request(model="m", messages=())
    assert unkept(plain) is plain
    for store in (None, True, False):
        assert unkept(Request(model="m", messages=(), kept=Keeping(store=store))) == plain

from __future__ import annotations

import msgspec
import pytest

from rivermouth.ir.errors import ApiError
from rivermouth.vendors.cohere.bodies import reader, said
from rivermouth.wire import json


class Inner(msgspec.Struct):
    n: int


class Outer(msgspec.Struct):
    inner: list[Inner]
    table: dict[str, Inner] = {}


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b"{}", "inner"),
        (b'{"inner":[{}]}', "inner[0].n"),
        (b'{"inner":[{"n":"x"}]}', "inner[0].n"),
        (b'{"inner":[],"table":{"a":{}}}', "table.n"),
        (b"[]", None),
        (b"{", None),
    ],
)
def test_a_refusal_names_the_field(body: bytes, param: str | None) -> None:
    with pytest.raises(ApiError) as raised:
        reader(Outer)(body)
    assert raised.value.param == param
    assert "$" not in raised.value.message


def test_what_a_body_says() -> None:
    fields = json.fields(b'{"a":null,"b":false,"c":[],"d":0,"e":"","f":[1]}')
    assert [name for name in (*"abcdef", "z") if said(fields, name)] == ["d", "e", "f"]

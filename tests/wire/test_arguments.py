from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.wire.arguments import OneObject, as_object, to_object


@given(st.one_of(st.text(), st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps)))
def test_arguments_are_always_an_object_on_one_line(text: str) -> None:
    data = to_object(text)
    assert isinstance(json.loads(data), dict)
    assert len(data.decode().splitlines()) == 1


@pytest.mark.fault("F20")
@pytest.mark.parametrize(
    ("text", "written", "is_object"),
    [
        ("", b"{}", True),
        (" \n", b"{}", True),
        ("null", b"{}", True),
        ('{"n": 1.0, "big": 12345678901234567890123}', b'{"n":1.0,"big":12345678901234567890123}', True),
        ('{\n "a": 1}', b'{"a":1}', True),
        ('{"q": ', b'{"input":"{\\"q\\": "}', False),
        ('{"a":1}{"a":1}', b'{"a":1}', True),
        ('{"a":"}\\"{"}</call>', b'{"a":"}\\"{"}', True),
        ("[1]", b'{"input":[1]}', False),
        ('"rain"', b'{"input":"rain"}', False),
        ("rain", b'{"input":"rain"}', False),
        ('{"a":"\ud800"}', b'{"a":"?"}', False),
    ],
)
def test_what_is_no_object_is_wrapped(text: str, written: bytes, is_object: bool) -> None:
    assert to_object(text) == written
    assert (as_object(text) is not None) is is_object
    assert not is_object or json.loads(bytes(as_object(text) or b"")) == json.loads(written)


objects = st.dictionaries(st.text(), st.recursive(st.none() | st.integers() | st.text(), st.lists), max_size=3)


@given(objects, st.sampled_from(("", " ", "}", '{"a":1}', "</tool_call>", '"')), st.integers(0, 40), st.booleans())
def test_an_object_ends_where_it_ends_however_it_comes(value: object, behind: str, cut: int, plain: bool) -> None:
    written = json.dumps(value, ensure_ascii=not plain)
    text = written + behind
    whole = OneObject()
    assert whole.feed(text[:cut]) + whole.feed(text[cut:]) == written
    assert whole.over
    assert json.loads(to_object(text)) == json.loads(bytes(as_object(text) or b"")) == value

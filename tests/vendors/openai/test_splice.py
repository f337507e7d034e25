from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.ir.errors import WireError
from rivermouth.vendors.openai.splice import drop_member, replace_member, set_member, write
from rivermouth.wire import json as wire

names = st.sampled_from(["model", "usage", "a", 'q"', "é"])
values = st.recursive(
    st.none() | st.integers(-9, 9) | st.sampled_from(["", "model", '"usage":null', ',"usage":null', "x"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(names, inner, max_size=2),
    max_leaves=5,
)
objects = st.dictionaries(names, values, max_size=4)
spacings = st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", " :\t")])


def dump(value: Any, spacing: tuple[str, str]) -> bytes:
    return json.dumps(value, separators=spacing, ensure_ascii=False).encode()


@given(objects, names, values, spacings)
def test_an_edit_changes_the_member_and_nothing_else(
    fields: Any, name: str, value: Any, spacing: tuple[str, str]
) -> None:
    data = dump(fields, spacing)
    new = dump(value, (",", ":"))
    replaced = {k: (value if k == name else v) for k, v in fields.items()}
    assert json.loads(replace_member(data, name, new)) == replaced
    assert json.loads(set_member(data, name, new)) == {**fields, name: value}
    assert json.loads(drop_member(data, name)) == {k: v for k, v in fields.items() if k != name}


@pytest.mark.parametrize(
    "form", [b'{"a":1.50, "usage": null, "b":[ ]}', b'{ "usage":null,"a":1.50}', b'{"a":1.50,"usage":null}']
)
def test_bytes_around_a_member_are_kept(form: bytes) -> None:
    dropped = drop_member(form, "usage")
    assert b"usage" not in dropped
    assert b"1.50" in dropped
    assert set_member(form, "c", b"2") == form[:-1] + b',"c":2}'
    assert replace_member(form, "usage", b"7") == form.replace(b"null", b"7")


def test_members_are_written_as_they_are() -> None:
    assert write(wire.fields(b'{"a": 1.50 , "b":"\xe2\x80\xa8"}')) == b'{"a":1.50,"b":"\xe2\x80\xa8"}'
    assert set_member(b"{}", "a", b"1") == b'{"a":1}'


@pytest.mark.parametrize("value", [b"{}", b"3"])
def test_a_cut_that_would_hit_another_member_is_not_made(value: bytes) -> None:
    edited = replace_member(b'{"usage" : 1,"x":{"usage":12}}', "usage", value)
    assert edited == b'{"usage":%b,"x":{"usage":12}}' % value


@pytest.mark.parametrize("data", [b"[]", b"{", b""])
def test_only_objects_have_members(data: bytes) -> None:
    with pytest.raises(WireError):
        set_member(data, "a", b"1")

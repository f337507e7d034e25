"""JSON that line-framed clients can read, and bytes that are no JSON raise `WireError` and nothing else."""

from __future__ import annotations

import contextlib
import json as reference

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.ir.errors import WireError
from rivermouth.wire import json
from tests.strategies import texts

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.fault("F5")
@given(values)
def test_encoded_is_one_line_for_every_way_to_split_lines_and_loses_nothing(value: object) -> None:
    encoded = json.encode(value)
    assert len(encoded.decode().splitlines()) == 1
    assert reference.loads(encoded) == value
    assert json.decode(encoded) == value


@pytest.mark.fault("F5")
@pytest.mark.parametrize("char", ["\u2028", "\u2029", "\u0085", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e"])
def test_each_separator_of_str_splitlines_is_escaped(char: str) -> None:
    line = json.encode({char: f"a{char}b"})
    assert len(line.decode().splitlines()) == 1
    assert reference.loads(line) == {char: f"a{char}b"}


@given(values)
def test_line_safe_changes_no_meaning_and_nothing_without_separators(value: object) -> None:
    raw = reference.dumps(value, ensure_ascii=False).encode()
    safe = json.line_safe(raw)
    assert reference.loads(safe) == value
    if not any(c in raw.decode() for c in "\u2028\u2029\u0085"):
        assert safe == raw
    assert json.line_safe(safe) == safe


@pytest.mark.parametrize(
    ("text", "want"),
    [
        (rb'"\ud83d\ude00"', "😀"),
        (rb'"\ud83d"', "\ufffd"),
        (rb'"\ude00"', "\ufffd"),
        (rb'"a\uD83Db"', "a\ufffdb"),
        (rb'"\ud83d\ud83d\ude00"', "\ufffd😀"),
        (rb'"\ude00\ud83d"', "\ufffd\ufffd"),
        (rb'"\\ud83d"', r"\ud83d"),
        (rb'"\\\ud83d"', "\\\ufffd"),
        (rb'"\ud83d\n"', "\ufffd\n"),
    ],
)
def test_half_an_emoji_reads_as_a_replacement_and_all_else_stays(text: bytes, want: str) -> None:
    assert json.decode(text) == want
    assert json.decode(b'{"a":' + text + b"}") == {"a": want}


class Leaf(msgspec.Struct):
    text: str


class Tree(msgspec.Struct):
    leaves: list[Leaf]
    weights: dict[str, int] = {}
    numbered: dict[int, int] = {}


@pytest.mark.parametrize(
    ("data", "param", "missing"),
    [
        (b"{}", "leaves", True),
        (b'{"leaves":[{"text":""},{}]}', "leaves[1].text", True),
        (b'{"leaves":[{"text":7}]}', "leaves[0].text", False),
        (b'{"leaves":7}', "leaves", False),
        (b'{"leaves":[],"weights":{"x":"y"}}', "weights", False),
        (b'{"leaves":[],"numbered":{"x":1}}', "numbered", False),
        (b"[]", None, False),
        (b"[", None, False),
        (b"", None, False),
    ],
)
def test_what_does_not_fit_is_named_by_its_path(data: bytes, param: str | None, missing: bool) -> None:
    with pytest.raises(WireError) as caught:
        json.decode_as(json.typed(Tree), data)
    fault = json.misfit(caught.value)
    assert (fault.param, fault.missing) == (param, missing)
    assert fault.words
    assert "$" not in fault.words


class Piece(msgspec.Struct):
    text: str
    inner: dict[str, list[str]] = {}


@pytest.mark.parametrize(
    "value", ["a\ud83d", {"\ud83d": ["x", "\ude00"]}, ("\ud83d",), Piece("\ud83d", {"k": ["\ud83d"]})]
)
def test_half_an_emoji_is_encoded_as_a_replacement(value: object) -> None:
    encoded = json.encode(value)
    assert "\ufffd" in encoded.decode()
    reference.loads(encoded)


def test_two_halves_side_by_side_become_whole_when_encoded() -> None:
    assert reference.loads(json.encode("\ud83d\ude00\ud83d")) == "😀\ufffd"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[" * 200_000,
        b'{"x":' * 100_000,
        b'"\xff"',
        b"\x00",
        b"1" * 6000,
        b"1e999",
        b"nul",
        b'"\\ud83d\xff"',
        b"{} {}",
    ],
    ids=lambda data: repr(data[:8]),
)
def test_what_is_no_json_is_a_wire_error(data: bytes) -> None:
    for decode in (json.decode, json.fields, lambda d: json.decode_as(json.typed(Piece), d)):
        with pytest.raises(WireError) as caught:
            decode(data)
        assert caught.value.__cause__ is None


@given(st.one_of(st.binary(max_size=60), st.text('{}[]",:\\ud8', max_size=40).map(str.encode)))
def test_no_bytes_raise_anything_but_a_wire_error(data: bytes) -> None:
    for decode in (json.decode, json.fields, lambda d: json.decode_as(json.typed(Piece), d)):
        with contextlib.suppress(WireError):
            decode(data)


@given(st.dictionaries(texts, values, max_size=4))
def test_fields_keep_each_value_as_its_own_bytes(value: dict[str, object]) -> None:
    found = json.fields(json.encode(value))
    assert {k: json.decode(v) for k, v in found.items()} == value
    assert reference.loads(json.encode(found)) == value


def test_fields_keep_what_no_number_type_holds() -> None:
    found = json.fields(b'{"a": 1.50, "b": 123456789012345678901234567890, "c":{ "d":null}}')
    assert [bytes(v) for v in found.values()] == [b"1.50", b"123456789012345678901234567890", b'{ "d":null}']


def test_convert_names_the_path_and_not_the_value() -> None:
    with pytest.raises(WireError, match=r"\$\.text"):
        json.convert({"text": 17}, Piece)


def test_raw_stands_among_others_as_it_is() -> None:
    assert json.encode({"a": json.raw([1, "x"])}) == b'{"a":[1,"x"]}'


@given(st.dictionaries(texts, values, max_size=4))
def test_an_object_of_members_is_these_members_and_their_bytes(fields: dict[str, object]) -> None:
    members = {name: json.raw(value) for name, value in fields.items()}
    written = json.object_of(members)
    assert reference.loads(written) == fields
    assert json.fields(written) == members


@pytest.mark.fault("F5")
def test_a_members_name_is_one_line() -> None:
    assert json.object_of({"a\u2028": json.raw("b")}) == b'{"a\\u2028":"b"}'

"""The reader of a streamed JSON array: one frame for each whole element, whatever the cuts, never more than its cap."""

from __future__ import annotations

import itertools
import json as reference

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.ir.errors import WireError
from rivermouth.wire import json_array
from rivermouth.wire.frame import Frame
from rivermouth.wire.json_array import JsonArrayReader
from tests.every_way import every_way, run
from tests.wire.cost import assert_linear

A, B = b'{"a":1}', b'{"b":{"c":[{}]}}'
TRICKY = rb'{"a":"}\"]{,[\\","\u0022}":["\\\\\"{"]}'
SEPARATORS = '{"a":"\u2028\u2029\u0085😀"}'.encode()

CORPUS: dict[str, tuple[bytes, list[bytes]]] = {
    "as it is written here": (json_array.OPEN + A + json_array.BETWEEN + B + json_array.CLOSE, [A, B]),
    "compact": (b"[" + A + b"," + B + b"]", [A, B]),
    "pretty": (b'[{\n  "a": 1\n}\n,\n\r\n{\n  "b": 2\n}\n]\n', [b'{\n  "a": 1\n}', b'{\n  "b": 2\n}']),
    "white space around": (b" \r\n[ \t" + A + b" , " + B + b" ] \n\n", [A, B]),
    "byte order mark": (b"\xef\xbb\xbf[" + A + b"]", [A]),
    "braces and quotes in strings": (b"[" + TRICKY + b"," + TRICKY + b"]", [TRICKY, TRICKY]),
    "line separators are text": (b"[" + SEPARATORS + b"]", [SEPARATORS]),
    "an element that was cut off": (b"[" + A + b',{"b":', [A]),
    "an array that was cut off after an element": (b"[" + A, [A]),
    "empty": (b"[]", []),
    "nothing": (b"", []),
}


@pytest.mark.fault("F1", "F2", "F5")
@pytest.mark.parametrize("name", CORPUS)
def test_the_corpus_reads_the_same_in_every_split(name: str) -> None:
    data, want = CORPUS[name]
    every_way(JsonArrayReader, data, [Frame("", element) for element in want])


@pytest.mark.parametrize(
    "data",
    [b"{}", b"x", b"[1]", b"[,{}]", b"[{}{}]", b"[{},]", b"[{},,{}]", b"[{}],", b"[{}][", b"[]{}", b"[[{}]]", b"\xef["],
)
def test_what_is_no_array_of_objects_is_a_wire_error_in_every_split(data: bytes) -> None:
    for cut in range(len(data) + 1):
        with pytest.raises(WireError, match="array"):
            run(JsonArrayReader(), [data[:cut], data[cut:]])


@pytest.mark.fault("F4", "F1")
def test_a_megabyte_in_one_element_arrives_whole_though_characters_are_cut() -> None:
    element = b'{"a":"' + 'é😀\\"'.encode() * 150_000 + b'"}'
    whole = b"[" + element + b"]"
    for step in (4096, 65_535):
        assert run(JsonArrayReader(), [whole[i : i + step] for i in range(0, len(whole), step)]) == [Frame("", element)]


@pytest.mark.fault("F4")
@pytest.mark.parametrize("end", [b"", b'"}', b'"},{}]'])
@pytest.mark.parametrize("step", [1, 7, 1000])
def test_above_the_cap_it_raises_whatever_the_cuts(end: bytes, step: int) -> None:
    data = b'[{},{"a":"' + b"x" * 100 + end
    reader = JsonArrayReader(cap_bytes=64)
    with pytest.raises(WireError, match="larger than 64 bytes"):
        run(reader, [data[i : i + step] for i in range(0, len(data), step)])


def test_white_space_between_elements_is_not_kept() -> None:
    reader = JsonArrayReader(cap_bytes=8)
    assert reader.feed(b"[{}" + b" " * 100 + b",") == [Frame("", b"{}")]
    assert reader.statistics() == {"buffered_bytes": 0, "cap_bytes": 8}


def outcome(data: bytes, cuts: list[int], cap: int) -> list[Frame] | None:
    """The frames, or None if it raised."""
    edges = [0, *sorted({c % (len(data) + 1) for c in cuts}), len(data)]
    try:
        return run(JsonArrayReader(cap), [data[a:b] for a, b in itertools.pairwise(edges)])
    except WireError:
        return None


@pytest.mark.fault("F2")
@given(
    st.one_of(
        st.binary(max_size=60),
        st.lists(st.sampled_from([b"[", b"]", b"{", b"}", b",", b'"', b"\\", b" ", b"{}", b"ab"]), max_size=20).map(
            lambda pieces: b"[" + b"".join(pieces)
        ),
    ),
    st.lists(st.integers(0, 200), max_size=6),
    st.sampled_from([8, 64]),
)
def test_no_bytes_do_anything_but_frames_or_a_wire_error_and_cuts_do_not_matter(
    data: bytes, cuts: list[int], cap: int
) -> None:
    whole = outcome(data, [], cap)
    assert outcome(data, cuts, cap) == whole
    assert outcome(data, list(range(len(data))), cap) == whole


values = st.one_of(st.text(max_size=6), st.lists(st.text(max_size=4), max_size=2), st.just({"a": {"}": "{"}}))


@given(st.lists(st.dictionaries(st.text(max_size=4), values, max_size=3), max_size=4))
def test_every_array_of_objects_gives_its_elements(elements: list[dict[str, object]]) -> None:
    data = reference.dumps(elements, indent=1).encode()
    assert [reference.loads(f.data) for f in JsonArrayReader().feed(data)] == elements


@pytest.mark.parametrize("step", [97, 1 << 20])
def test_reading_is_linear_in_many_elements_and_in_one_long_string(step: int) -> None:
    element = b'{"a":"%b"},' % (b"x" * 100)
    assert_linear(JsonArrayReader, lambda n: b"[" + element * (n // len(element)), step)
    assert_linear(JsonArrayReader, lambda n: b'[{"a":"' + b"x" * n + b'"}]', step)

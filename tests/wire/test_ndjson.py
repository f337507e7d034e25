"""The NDJSON reader: one frame for each whole line, whatever the cuts, and never more than its cap."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.ir.errors import WireError
from rivermouth.wire import ndjson
from rivermouth.wire.frame import Frame
from rivermouth.wire.ndjson import NdjsonReader
from tests.every_way import every_way, run
from tests.wire.cost import assert_linear

SEPARATORS = '{"a":"\u2028\u2029\u0085😀"}'.encode()

CORPUS: dict[str, tuple[bytes, list[Frame]]] = {
    "plain": (b'{"a":1}\n{"b":2}\n', [Frame("", b'{"a":1}'), Frame("", b'{"b":2}')]),
    "crlf": (b'{"a":1}\r\n{"b":2}\r\n', [Frame("", b'{"a":1}'), Frame("", b'{"b":2}')]),
    "blank lines": (b'\n\r\n{"a":1}\n\n', [Frame("", b'{"a":1}')]),
    "spaces around": (b'  {"a":1} \n', [Frame("", b'{"a":1}')]),
    "cut off": (b'{"a":1}\n{"b":', [Frame("", b'{"a":1}')]),
    "a last line without its end": (b'{"a":1}\n{"b":2}', [Frame("", b'{"a":1}')]),
    "line separators are text": (SEPARATORS + b"\n", [Frame("", SEPARATORS)]),
    "a lone cr does not end a line": (b'{"a":\r1}\n', [Frame("", b'{"a":\r1}')]),
    "nothing": (b"\n", []),
}


@pytest.mark.fault("F1", "F2", "F5")
@pytest.mark.parametrize("name", CORPUS)
def test_the_corpus_reads_the_same_in_every_split(name: str) -> None:
    data, want = CORPUS[name]
    every_way(NdjsonReader, data, want)


@pytest.mark.fault("F4", "F1")
def test_a_megabyte_in_one_line_arrives_whole_though_characters_are_cut() -> None:
    payload = b'"' + "é😀".encode() * 180_000 + b'"'
    whole = ndjson.line(payload)
    for step in (4096, 65_535):
        assert run(NdjsonReader(), [whole[i : i + step] for i in range(0, len(whole), step)]) == [Frame("", payload)]


@pytest.mark.fault("F4")
@pytest.mark.parametrize("end", [b"", b"\n", b"\n{}\n"])
@pytest.mark.parametrize("step", [1, 7, 1000])
@pytest.mark.parametrize("filler", [b"x", b" "])
def test_above_the_cap_it_raises_whatever_the_cuts(end: bytes, step: int, filler: bytes) -> None:
    data = b"{}\n" + filler * 100 + end
    reader = NdjsonReader(cap_bytes=64)
    with pytest.raises(WireError, match="larger than 64 bytes"):
        run(reader, [data[i : i + step] for i in range(0, len(data), step)])
    assert reader.statistics()["buffered_bytes"] <= 64 + step


def outcome(data: bytes, cuts: list[int], cap: int) -> list[Frame] | None:
    """The frames, or None if it raised."""
    edges = [0, *sorted({c % (len(data) + 1) for c in cuts}), len(data)]
    try:
        return run(NdjsonReader(cap), [data[a:b] for a, b in itertools.pairwise(edges)])
    except WireError:
        return None


@pytest.mark.fault("F2")
@given(
    st.one_of(
        st.binary(max_size=60),
        st.lists(st.sampled_from([b"{}", b"\n", b"\r", b" ", b"abcdefgh"]), max_size=20).map(b"".join),
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


@pytest.mark.parametrize("step", [97, 1 << 20])
def test_reading_is_linear_in_many_lines_and_in_one_long_line(step: int) -> None:
    assert_linear(NdjsonReader, lambda n: b'{"a":1}\n' * (n // 8), step)
    assert_linear(NdjsonReader, lambda n: b"x" * n + b"\n", step)

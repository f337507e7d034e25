"""The SSE reader takes all that the standard allows, whatever the cuts, and never more than its cap."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rivermouth.ir.errors import WireError
from rivermouth.wire import sse
from rivermouth.wire.frame import Frame
from rivermouth.wire.sse import SseReader
from tests.every_way import every_way, run
from tests.wire.cost import assert_linear

TEXT = "naïve 😀 \u2028\u2029\u0085 end".encode()

CORPUS: dict[str, tuple[bytes, list[Frame]]] = {
    "plain": (b"data: a\n\n", [Frame("", b"a")]),
    "no space": (b"data:a\n\ndata:b\n\n", [Frame("", b"a"), Frame("", b"b")]),
    "only the first space goes": (b"data:  a\n\n", [Frame("", b" a")]),
    "crlf": (b"event: x\r\ndata: a\r\n\r\ndata: b\r\n\r\n", [Frame("x", b"a"), Frame("", b"b")]),
    "cr": (b"event: x\rdata: a\r\rdata: b\r\r", [Frame("x", b"a"), Frame("", b"b")]),
    "mixed ends": (b"data: a\r\ndata: b\n\r\ndata: c\r\n\n", [Frame("", b"a\nb"), Frame("", b"c")]),
    "bom": (b"\xef\xbb\xbfdata: a\n\n", [Frame("", b"a")]),
    "bom is data later": (b"data: a\n\n\xef\xbb\xbfdata: b\n\n", [Frame("", b"a")]),
    "half a bom is none": (b"\xef\xbbdata: a\n\ndata: b\n\n", [Frame("", b"b")]),
    "comments": (b": hi\n\n:\n\ndata: a\n: in between\n\n", [Frame("", b"a")]),
    "many data lines": (b"data: a\ndata:\ndata: b\n\n", [Frame("", b"a\n\nb")]),
    "data without colon": (b"data\n\n", [Frame("", b"")]),
    "id and retry alone": (b"id: 7\n\nretry: 10\n\ndata: a\n\n", [Frame("", b"a")]),
    "event without data": (b"event: ping\n\ndata: a\n\n", [Frame("", b"a")]),
    "the last event name counts": (b"event: x\nevent: y\ndata: a\n\n", [Frame("y", b"a")]),
    "a name does not outlive its block": (b"event: x\ndata: a\n\ndata: b\n\n", [Frame("x", b"a"), Frame("", b"b")]),
    "unknown fields": (b"foo: 1\nfoo\ndata: a\n\n", [Frame("", b"a")]),
    "more blank lines": (b"\n\n\ndata: a\n\n\n\ndata: b\n\n\n", [Frame("", b"a"), Frame("", b"b")]),
    "line separators are text": (b"data: " + TEXT + b"\n\n", [Frame("", TEXT)]),
    "nothing": (b"\n", []),
    "cut off": (b"data: a\n\ndata: b\n", [Frame("", b"a")]),
    "cut off in a line": (b"data: a\n\ndata: b", [Frame("", b"a")]),
    "colons in the data": (b"data: a: b:\n\n", [Frame("", b"a: b:")]),
    "name not in utf-8": (b"event: \xff\ndata: a\n\n", [Frame("\ufffd", b"a")]),
}


@pytest.mark.fault("F1", "F2", "F3", "F5", "F8")
@pytest.mark.parametrize("name", CORPUS)
def test_the_corpus_reads_the_same_in_every_split(name: str) -> None:
    data, want = CORPUS[name]
    every_way(SseReader, data, want)


@pytest.mark.fault("F4", "F1")
def test_a_megabyte_in_one_frame_arrives_whole_though_characters_are_cut() -> None:
    payload = "é😀".encode() * 180_000
    whole = sse.data(payload)
    for step in (4096, 65_535, 65_537):
        pieces = [whole[i : i + step] for i in range(0, len(whole), step)]
        assert run(SseReader(), pieces) == [Frame("", payload)]


@pytest.mark.fault("F4")
@pytest.mark.parametrize("end", [b"", b"\n", b"\n\n", b"\n\ndata: x\n\n"])
@pytest.mark.parametrize("step", [1, 7, 1000])
def test_above_the_cap_it_raises_whatever_the_cuts(end: bytes, step: int) -> None:
    data = b": hi\n\ndata: " + b"x" * 100 + end
    reader = SseReader(cap_bytes=64)
    with pytest.raises(WireError, match="larger than 64 bytes"):
        run(reader, [data[i : i + step] for i in range(0, len(data), step)])
    assert reader.statistics()["buffered_bytes"] <= 64 + step


@pytest.mark.parametrize("step", [1, 3, 1000])
def test_at_the_cap_it_reads(step: int) -> None:
    block = b"data: " + b"x" * 58
    data = b"\n" + block + b"\n\n\n" + block + b"\n\n"
    frames = run(SseReader(cap_bytes=64), [data[i : i + step] for i in range(0, len(data), step)])
    assert frames == [Frame("", b"x" * 58)] * 2


fragments = st.sampled_from(
    [
        b"data",
        b"event",
        b":",
        b" ",
        b"\n",
        b"\r",
        b"\r\n",
        b"\n\n",
        b"\xef\xbb\xbf",
        b"\xff",
        b"x",
        b"data: y\n\n",
        b"id: 1",
    ]
)


def outcome(data: bytes, cuts: list[int], cap: int) -> list[Frame] | None:
    """The frames, or None if it raised."""
    edges = [0, *sorted({c % (len(data) + 1) for c in cuts}), len(data)]
    try:
        return run(SseReader(cap), [data[a:b] for a, b in itertools.pairwise(edges)])
    except WireError:
        return None


@pytest.mark.fault("F2")
@given(
    st.one_of(st.binary(max_size=80), st.lists(fragments, max_size=20).map(b"".join)),
    st.lists(st.integers(0, 200), max_size=6),
    st.sampled_from([8, 64]),
)
@example(b"\xef\xbb\xbf\ndata: 1234\n\n", [1], 8)
def test_no_bytes_do_anything_but_frames_or_a_wire_error_and_cuts_do_not_matter(
    data: bytes, cuts: list[int], cap: int
) -> None:
    whole = outcome(data, [], cap)
    assert outcome(data, cuts, cap) == whole
    assert outcome(data, list(range(len(data))), cap) == whole


@given(st.lists(st.tuples(st.from_regex(r"[a-z_.]{0,8}", fullmatch=True), st.binary(max_size=30)), max_size=5))
def test_what_is_written_is_what_is_read(frames: list[tuple[str, bytes]]) -> None:
    clean = [(n, d.replace(b"\n", b"").replace(b"\r", b"")) for n, d in frames]
    written = b"".join(sse.event(n, d) if n else sse.data(d) for n, d in clean)
    assert SseReader().feed(written) == [Frame(n, d) for n, d in clean]


@pytest.mark.fault("F3")
def test_the_keep_alive_is_no_event() -> None:
    every_way(SseReader, sse.KEEP_ALIVE + sse.data(b"a") + sse.KEEP_ALIVE, [Frame("", b"a")])


@pytest.mark.parametrize("step", [97, 1 << 20])
def test_reading_is_linear_in_many_frames_and_in_one_long_frame(step: int) -> None:
    assert_linear(SseReader, lambda n: b"data: abc\n\n" * (n // 11), step)
    assert_linear(SseReader, lambda n: b"data: " + b"x" * n + b"\n\n", step)
    assert_linear(SseReader, lambda n: b"\n" * n, step)

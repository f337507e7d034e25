"""The binary framing, against the vendor's own reader and against every way to cut or to spoil it."""

from __future__ import annotations

from struct import pack
from zlib import crc32

import pytest
from botocore.eventstream import ChecksumMismatch, EventStreamBuffer
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.ir.errors import WireError
from rivermouth.wire import aws_eventstream as wire
from rivermouth.wire.aws_eventstream import EventStreamReader
from rivermouth.wire.frame import Frame
from tests.every_way import every_way, run
from tests.wire.cost import assert_linear

CHUNK = wire.event_headers("chunk")
names = st.text(st.characters(codec="ascii", categories=["L", "N", "P"]), min_size=1, max_size=20)
blocks = st.dictionaries(names, st.text(max_size=40), max_size=4)


def theirs(data: bytes) -> list[tuple[dict[str, object], bytes]]:
    """What botocore reads."""
    buffer = EventStreamBuffer()
    buffer.add_data(data)
    return [(m.headers, m.payload) for m in buffer]


def test_a_message_is_laid_out_as_specified() -> None:
    payload = b'{"bytes":"eA=="}'
    got = wire.message(wire.headers({":a": "b"}), payload)
    block = b"\x02:a\x07\x00\x01b"
    prelude = pack(">II", 16 + len(block) + len(payload), len(block))
    whole = prelude + pack(">I", crc32(prelude)) + block + payload
    assert got == whole + pack(">I", crc32(whole))


@pytest.mark.fault("F9")
@given(named=blocks, payloads=st.lists(st.binary(max_size=300), min_size=1, max_size=4))
def test_the_vendors_reader_reads_what_we_write(named: dict[str, str], payloads: list[bytes]) -> None:
    data = b"".join(wire.message(wire.headers(named), p) for p in payloads)
    assert theirs(data) == [(named, p) for p in payloads]


@given(named=blocks)
def test_headers_come_back(named: dict[str, str]) -> None:
    assert wire.read_headers(wire.headers(named)) == named


@pytest.mark.fault("F1", "F2")
def test_whole_is_byte_by_byte_is_every_split() -> None:
    data = (
        wire.message(CHUNK, b'{"bytes":"w6k="}')
        + wire.message(CHUNK, b"")
        + wire.message(wire.exception_headers("throttlingException"), b'{"message":"slow"}')
    )
    want = [
        Frame("chunk", b'{"bytes":"w6k="}'),
        Frame("chunk", b""),
        Frame("exception:throttlingException", b'{"message":"slow"}'),
    ]
    every_way(EventStreamReader, data, want)


def test_an_unmodelled_error_has_its_message_where_exceptions_have_theirs() -> None:
    block = wire.headers(
        {":message-type": "error", ":error-code": "InternalFailure", ":error-message": "it\u2028broke"}
    )
    assert EventStreamReader().feed(wire.message(block, b"")) == [
        Frame("error:InternalFailure", b'{"message":"it\\u2028broke"}')
    ]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (0, b""),
        (1, b""),
        (2, b"\x01"),
        (3, b"\x00\x01"),
        (4, b"\0" * 4),
        (5, b"\0" * 8),
        (6, b"\x00\x02ab"),
        (8, b"\0" * 8),
        (9, b"\0" * 16),
    ],
)
def test_headers_of_every_type_are_passed_over(kind: int, value: bytes) -> None:
    block = b"\x01x" + bytes((kind,)) + value + CHUNK
    data = wire.message(block, b"{}")
    assert len(theirs(data)) == 1
    assert EventStreamReader().feed(data) == [Frame("chunk", b"{}")]


@pytest.mark.parametrize(
    "block",
    [
        b"\x01x\x0a",
        b"\x01x",
        b"\x05x",
        b"\x01x\x07\x00\x09a",
        b"\x01x\x07",
        b"\x01\xff\x00",
        b"\x01x\x04\x00",
        b"\x01x\x00\x01x\x01",
    ],
    ids=["type", "no type", "name cut", "value cut", "no length", "not UTF-8", "fixed cut", "twice"],
)
def test_headers_that_are_none_are_a_wire_error(block: bytes) -> None:
    with pytest.raises(WireError):
        EventStreamReader().feed(wire.message(block, b""))


@pytest.mark.fault("F9")
@pytest.mark.parametrize("cut", ["whole", "bytes"])
def test_no_bit_can_change_unnoticed(cut: str) -> None:
    """Not by us and not by the vendor, who refuses the same messages."""
    data = wire.message(CHUNK, b'{"bytes":"aGk="}')
    for at in range(len(data)):
        bad = bytearray(data)
        bad[at] ^= 0x10
        pieces = [bytes(bad)] if cut == "whole" else [bytes((b,)) for b in bad]
        with pytest.raises(WireError):
            run(EventStreamReader(), pieces)
        with pytest.raises(ChecksumMismatch):
            theirs(bytes(bad))


@pytest.mark.fault("F9")
def test_an_error_written_under_an_old_checksum_is_refused() -> None:
    data = wire.message(CHUNK, b'{"bytes":"aGk="}')
    with pytest.raises(WireError, match="checksum"):
        EventStreamReader().feed(data.replace(b"aGk=", b"b25v"))


@pytest.mark.fault("F10")
def test_a_message_that_was_cut_is_no_frame() -> None:
    data = wire.message(CHUNK, b'{"bytes":"aGk="}')
    for cut in range(len(data)):
        reader = EventStreamReader()
        assert reader.feed(data[:cut]) == []
        assert reader.statistics()["buffered_bytes"] == cut


@pytest.mark.fault("F4", "F35")
def test_the_cap_is_a_typed_error_as_soon_as_the_length_is_known() -> None:
    data = wire.message(CHUNK, b"x" * 1000)
    assert len(EventStreamReader(len(data)).feed(data)) == 1
    with pytest.raises(WireError, match="larger"):
        EventStreamReader(len(data) - 1).feed(data[:12])
    with pytest.raises(WireError, match="impossible"):
        EventStreamReader().feed(_prelude(20, 5))
    with pytest.raises(WireError, match="impossible"):
        EventStreamReader().feed(_prelude(1_000_000, 128 * 1024 + 1))


def test_headers_above_the_vendors_limit_are_not_written() -> None:
    with pytest.raises(ValueError, match="headers"):
        wire.headers({f"h{i}": "x" * 60_000 for i in range(3)})


@given(junk=st.lists(st.binary(max_size=40), max_size=5))
def test_whatever_comes_is_frames_or_a_wire_error(junk: list[bytes]) -> None:
    try:
        run(EventStreamReader(), junk)
    except WireError:
        return


@pytest.mark.fault("F35")
@pytest.mark.parametrize("step", [1, 1000, 10**9])
def test_the_cost_is_linear(step: int) -> None:
    small = wire.message(CHUNK, b'{"bytes":"aGVsbG8="}')
    assert_linear(EventStreamReader, lambda size: small * (size // len(small)), step)
    assert_linear(EventStreamReader, lambda size: wire.message(CHUNK, b"x" * size), step)


def _prelude(total: int, headers: int) -> bytes:
    lengths = pack(">II", total, headers)
    return lengths + pack(">I", crc32(lengths))

"""What was whole before a fault is handed out, however the bytes arrived: every reader, every cut."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rivermouth.ir.errors import WireError
from rivermouth.wire.aws_eventstream import EventStreamReader, event_headers, message
from rivermouth.wire.frame import Reader
from rivermouth.wire.json_array import JsonArrayReader
from rivermouth.wire.ndjson import NdjsonReader
from rivermouth.wire.sse import SseReader

CAP_BYTES = 40
AWS = [message(event_headers("chunk"), payload) for payload in (b'{"a":1}', b'{"b":2}')]
BROKEN: dict[str, tuple[Callable[[], Reader], bytes, list[bytes]]] = {
    "json array": (JsonArrayReader, b'[{"a":1},{"b":2}]x', [b'{"a":1}', b'{"b":2}']),
    "json array, too large": (lambda: JsonArrayReader(CAP_BYTES), b'[{"a":1},{"b":"' + b"x" * 80, [b'{"a":1}']),
    "event stream, checksum": (EventStreamReader, AWS[0] + AWS[1][:-1] + b"x", [b'{"a":1}']),
    "event stream, lengths": (EventStreamReader, AWS[0] + AWS[1] + b"x" * 16, [b'{"a":1}', b'{"b":2}']),
    "sse, a rest": (lambda: SseReader(CAP_BYTES), b"data: a\n\ndata: b\n\ndata: " + b"x" * 80, [b"a", b"b"]),
    "sse, a block": (
        lambda: SseReader(CAP_BYTES),
        b"data: a\n\ndata: b\n\ndata: " + b"x" * 80 + b"\n\ndata: c\n\n",
        [b"a", b"b"],
    ),
    "ndjson, a rest": (lambda: NdjsonReader(CAP_BYTES), b"1\n2\n" + b"3" * 80, [b"1", b"2"]),
    "ndjson, a line": (lambda: NdjsonReader(CAP_BYTES), b"1\n2\n" + b"3" * 80 + b"\n4\n", [b"1", b"2"]),
}


def read(reader: Reader, pieces: list[bytes]) -> list[bytes]:
    """The payloads up to the fault."""
    found: list[bytes] = []
    try:
        for piece in pieces:
            found += [frame.data for frame in reader.feed(piece)]
    except WireError as error:
        return found + [frame.data for frame in error.frames]
    raise AssertionError(f"no fault: {found}")


@pytest.mark.fault("F2")
@pytest.mark.parametrize("case", BROKEN)
def test_what_came_before_is_handed_out_however_it_was_cut(case: str) -> None:
    make, stream, whole = BROKEN[case]
    assert read(make(), [stream]) == whole
    assert read(make(), [stream[n : n + 1] for n in range(len(stream))]) == whole
    for at in range(1, len(stream)):
        assert read(make(), [stream[:at], stream[at:]]) == whole, at

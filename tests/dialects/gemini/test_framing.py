from __future__ import annotations

import msgspec
import pytest

from rivermouth.dialects.dialect import FINISH_EVERY, Surface
from rivermouth.dialects.gemini.framing import ARRAY, StreamReader, variant
from rivermouth.wire.frame import Frame
from tests.dialects.gemini.case import ARRAY as BARE
from tests.dialects.gemini.case import SSE, route
from tests.every_way import every_way

EVERY = msgspec.structs.replace(BARE, options=BARE.options | {FINISH_EVERY})


@pytest.mark.promise(157)
@pytest.mark.fault("F7")
@pytest.mark.parametrize(
    ("surface", "query", "array"),
    [
        (SSE, {}, False),
        (SSE, {"alt": "sse", "key": "k"}, False),
        (SSE, {"alt": "json"}, True),
        (SSE, {"alt": "media"}, False),
        (BARE, {}, True),
        (BARE, {"key": "k"}, True),
        (BARE, {"alt": "sse"}, False),
        (BARE, {"$alt": "SSE"}, False),
        (BARE, {"alt": "json"}, True),
        (EVERY, {"alt": "sse"}, False),
    ],
)
def test_alt_decides_where_it_is_said_and_the_surface_where_it_is_not(
    surface: Surface, query: dict[str, str], array: bool
) -> None:
    meant = variant(surface, route(), query, {"accept": "application/json"})
    assert meant.stream_type.partition(";")[0] == ("application/json" if array else "text/event-stream")
    assert (ARRAY in meant.options) is array
    assert meant.options - {ARRAY} == surface.options - {ARRAY}
    assert meant.prefix == surface.prefix


@pytest.mark.fault("F2", "F3")
@pytest.mark.parametrize(
    "data",
    [
        b'data: {"a":1}\n\ndata: {"b":2}\n\n',
        b'\xef\xbb\xbfdata:{"a":1}\r\n\r\n: ping\r\n\r\ndata: {"b":2}\r\n\r\n',
        b' \r\n[{"a":1}\n,\r\n{"b":2}]\n',
        b'[{"a":1},{"b":2}',
    ],
)
def test_either_framing_is_read_whatever_the_cuts(data: bytes) -> None:
    every_way(StreamReader, data, [Frame("", b'{"a":1}'), Frame("", b'{"b":2}')])


def test_one_object_alone_is_a_stream_of_one_frame() -> None:
    every_way(StreamReader, b' {"a":{"b":1}}\n', [Frame("", b'{"a":{"b":1}}')])

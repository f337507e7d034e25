from __future__ import annotations

import pytest

from rivermouth.dialects.gemini.decoder import Decoder
from rivermouth.dialects.gemini.template import cut
from rivermouth.ir.errors import Kind
from rivermouth.ir.events import Error, TextDelta, Usage
from tests.dialects.gemini.case import frame


@pytest.mark.parametrize(
    ("data", "around"),
    [
        (
            b'{"candidates":[{"content":{"parts":[{"text":"a\\"b"}]}}],"usageMetadata":{}}',
            (b'{"candidates":[{"content":{"parts":[{"text":', b'"}]}}]'),
        ),
        (b'{"a":1,"candidates": [{"text" : "x"}] }', (b'{"a":1,"candidates": [{"text" : ', b'"}]')),
        (b'{"candidates":[{"text":""}]}', None),
        (b'{"candidates":[{"text":"a"},{"text":"b"}]}', None),
        (b'{"candidates":[{"text":"a"}],"again":[{"text":"a"}]}', None),
        (b'{"text":"a","candidates":[]}', None),
        (b'{"text":"a"}', None),
        (b"[]", None),
        (b"{", None),
    ],
)
def test_a_frame_is_cut_around_its_one_text(data: bytes, around: tuple[bytes, bytes] | None) -> None:
    assert cut(data) == around


def test_counts_in_a_frame_that_is_broken_behind_its_text_are_not_known() -> None:
    decoder = Decoder()
    one = b'{"candidates":[{"content":{"parts":[{"text":"a"}]}}],"usageMetadata":{"promptTokenCount":3}}'
    for _ in range(3):
        assert isinstance(decoder.feed(frame(one))[-1], TextDelta)
    assert decoder.feed(frame(one.replace(b"3}}", b"3"))) == [TextDelta(0, "a")]
    (end,) = decoder.eof()
    assert isinstance(end, Error)
    assert end.error.kind is Kind.TRUNCATED
    whole = Decoder()
    for _ in range(3):
        whole.feed(frame(one))
    assert whole.eof()[0] == Usage(input_tokens=3)

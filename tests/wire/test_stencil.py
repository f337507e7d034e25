"""Text that needs no translation is exactly the text that every JSON here writes as it reads it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.wire import json
from rivermouth.wire.stencil import plain_chars


@given(st.text() | st.text('ab\u2028\u2029\x85\x7f é😀"\\\n'))
def test_what_passes_is_what_our_own_json_would_write_and_nothing_else(text: str) -> None:
    inside = text.encode("utf-8", "surrogatepass")
    whole = b'"' + inside + b'"'
    meant = json.text(whole)
    if meant is not None and json.encode(meant) == whole:
        assert plain_chars(inside) == len(meant)
    else:
        assert plain_chars(inside) == 0


@given(st.text() | st.text('ab\u2028\u2029\x85\x7f\x00\t é😀"\\\n'))
def test_whatever_our_own_json_says_is_plain(text: str) -> None:
    assert plain_chars(json.encode(text)[1:-1]) == len(json.text(json.encode(text)) or "")


@pytest.mark.parametrize(
    "inside",
    [
        b"",
        b"\xff",
        b"a\xc3",
        b"\xed\xa0\x80",
        b"a\nb",
        b"a\x00",
        b'say "',
        b"\\u0041",
        b"\\/",
        b"\\n\n",
        b'\\\\"',
        b"a\\",
    ],
)
def test_what_is_no_plain_text_is_refused(inside: bytes) -> None:
    assert plain_chars(inside) == 0

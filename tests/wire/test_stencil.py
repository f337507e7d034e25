"""Text that needs no translation is exactly the text that every JSON here writes as it reads it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.wire import json
from rivermouth.wire.stencil import plain_chars


@given(st.text() | st.text('ab\u2028\u2029\x85\x7f é😀"\\\n'))
def test_plain_text_is_its_own_json_and_nothing_else_is_taken(text: str) -> None:
    inside = text.encode("utf-8", "surrogatepass")
    chars = plain_chars(inside)
    if chars:
        assert (chars, json.encode(text), json.text(b'"' + inside + b'"')) == (len(text), b'"' + inside + b'"', text)
    elif text:
        assert json.encode(text) != b'"' + inside + b'"', "what could have gone the short way"


@pytest.mark.parametrize("inside", [b"", b"\xff", b"a\xc3", b"\xed\xa0\x80", b"a\nb", b"a\x00", b'say "', b"\\u0041"])
def test_what_is_no_plain_text_is_refused(inside: bytes) -> None:
    assert plain_chars(inside) == 0

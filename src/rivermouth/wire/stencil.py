"""Frames that differ in one JSON string alone, passed on without being parsed.

A stencil is what stands around that string.  What an upstream's stencil fits is one more delta of the same part; put
between the ends of a client's stencil, the same bytes are that delta in the client's dialect.  That holds for text that
`wire.json` would write as it came: UTF-8 without quotes and controls, and escapes where and as it makes them.
Everything else takes the long way.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from rivermouth.wire import json


class Stencil(NamedTuple):
    """`head` ends with the opening quote, `tail` begins with the closing one."""

    head: bytes
    tail: bytes


_PLAIN: Final = bytes(n for n in range(0x20, 0x100) if n not in b'"\\')
_ESCAPED: Final = b"\\"
_SEPARATORS: Final = (b"\xc2\x85", b"\xe2\x80\xa8", b"\xe2\x80\xa9")


def plain_chars(text: bytes) -> int:
    """How many characters these bytes between quotes are; 0 when they have to take the long way."""
    if text.translate(None, _PLAIN):
        return _escaped_chars(text) if _ESCAPED in text else 0
    if text.isascii():
        return len(text)
    if any(separator in text for separator in _SEPARATORS):
        return 0
    try:
        return len(text.decode())
    except UnicodeDecodeError:
        return 0


def _escaped_chars(text: bytes) -> int:
    inside = b'"%b"' % text
    value = json.text(inside)
    return len(value) if value is not None and json.encode(value) == inside else 0

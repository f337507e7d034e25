"""Bytes as text that a person can review: every byte is there, and none can hide.

What prints stands for itself, one line for each line of the bytes.  All else is named between ‹ and ›: a character
that does not print, or that joins the one before it, by its number; a byte that is no UTF-8 by its value; and a last
line that does not end.
"""

from __future__ import annotations

import json
import re
import unicodedata
from base64 import b64decode
from hashlib import sha256
from typing import Final

from botocore.eventstream import EventStreamBuffer

OPEN: Final = "‹"
NO_END: Final = "‹no line end›"
HIDDEN: Final = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Mn", "Me", "Mc"})
FIRST_LINES: Final = 14
LAST_LINES: Final = 8
MOST_LINES: Final = 90
MOST_CHARS: Final = 2000
KEPT_CHARS: Final = 160

_NAMED: Final = re.compile(r"‹(?:U\+([0-9A-F]{4,6})|0x([0-9A-F]{2}))›")


def visible(data: bytes) -> list[str]:
    """The lines of the data."""
    lines = ["".join(map(_shown, line)) for line in data.decode("utf-8", "surrogateescape").split("\n")]
    last = lines.pop()
    return [*lines, last + NO_END] if last else lines


def invisible(lines: list[str]) -> bytes:
    """The data again: what a golden says is all that was there."""
    text = "".join(line.removesuffix(NO_END) if line.endswith(NO_END) else line + "\n" for line in lines)
    return _NAMED.sub(_hidden, text).encode("utf-8", "surrogateescape")


def _shown(char: str) -> str:
    if 0xDC80 <= ord(char) <= 0xDCFF:
        return f"‹0x{ord(char) - 0xDC00:02X}›"
    blank = unicodedata.category(char) == "Zs" and char != " "
    if unicodedata.category(char) in HIDDEN or blank or char == OPEN:
        return f"‹U+{ord(char):04X}›"
    return char


def _hidden(match: re.Match[str]) -> str:
    return chr(int(match[1], 16)) if match[1] else chr(0xDC00 + int(match[2], 16))


def messages(data: bytes) -> list[str]:
    """An AWS event stream, as the vendor's own reader sees it: the headers of each message, its payload, and what that
    holds in base64.  The reader checks both checksums of each.
    """
    buffer = EventStreamBuffer()
    buffer.add_data(data)
    lines: list[str] = []
    for message in buffer:
        lines.append("‹message› " + " ".join(f"{name}={value}" for name, value in message.headers.items()))
        lines += visible(message.payload + b"\n")
        inside = json.loads(message.payload).get("bytes")
        lines += [f"‹bytes› {line}" for line in visible(b64decode(inside) + b"\n")] if inside else []
    return lines


def document(body: bytes) -> list[str]:
    """A body of JSON, laid out.  Exact: what would not give these very bytes again is shown as it is."""
    try:
        value = json.loads(body)
    except ValueError:
        return visible(body)
    if _compact(value) != body:
        return visible(body)
    lines = _separators(json.dumps(value, ensure_ascii=False, indent=1)).encode()
    return ["‹one line of JSON, laid out›", *visible(lines + b"\n")]


def _compact(value: object) -> bytes:
    return _separators(json.dumps(value, ensure_ascii=False, separators=(",", ":"))).encode("utf-8", "surrogatepass")


def _separators(text: str) -> str:
    return text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029").replace("\x85", "\\u0085")


def abridged(lines: list[str], data: bytes) -> list[str]:
    """The lines; of very many the first and the last, of a very long one its ends, and the digest of all the data."""
    if len(lines) <= MOST_LINES and max(map(len, lines), default=0) <= MOST_CHARS:
        return lines
    told = [f"‹abridged; all {len(data)} bytes: sha256 {sha256(data).hexdigest()}›"]
    if len(lines) > MOST_LINES:
        left = len(lines) - FIRST_LINES - LAST_LINES
        lines = [*lines[:FIRST_LINES], f"‹{left} lines are left out›", *lines[-LAST_LINES:]]
    return [*map(_ends, lines), *told]


def _ends(line: str) -> str:
    if len(line) <= MOST_CHARS:
        return line
    left = len(line) - 2 * KEPT_CHARS
    return f"{line[:KEPT_CHARS]}‹{left} characters are left out›{line[-KEPT_CHARS:]}"

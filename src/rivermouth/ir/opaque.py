"""Strings that travel through a client unread and come back: signatures, hidden reasoning, ids of calls.

A signature proves reasoning to the vendor that made it, and any other vendor refuses it.  In the neutral model it
begins with the mark of the wire it was made on ("anthropic:EqQB.."); a wire that has a place for signatures gives its
own as they are, and any other in an envelope that is the same on all wires, so that a talk may go from one to another:

    neutral              on the wire of that mark    on every other wire
    "anthropic:EqQB.."   EqQB..                      rivermouth.1.<base64url of the content>
    None                                             rivermouth.1.      (where a client wants a signature, it gets this)

    content    "." or, for hidden reasoning, "r"; a note of the wire that sealed it; "|"; the length of the text; "|";
               the text that is proven, where the wire that sealed it keeps the two apart; the neutral signature

Where a wire wants base64 and nothing else, the same envelope is base64 as a whole.  No vendor's signature begins so.
What is sealed never goes to a vendor: it is opened on its way in, and goes only where its mark is at home.
"""

from __future__ import annotations

import re
from base64 import b64encode, urlsafe_b64decode, urlsafe_b64encode
from typing import Final, NamedTuple

SEALED: Final = "rivermouth.1."
SEALED_BASE64: Final = b64encode(SEALED[:-1].encode()).decode()  # 12 bytes are 16 letters, whatever follows them
_MARKS: Final = (SEALED.encode(), SEALED_BASE64.encode())
_OPEN: Final = "."
_HIDDEN: Final = "r"
_CONTENT: Final = re.compile(r"([.r])([^|]*)\|(\d{1,9})\|")
_URL_SAFE: Final = str.maketrans("+/", "-_")


class Opened(NamedTuple):
    """What was in an envelope; `signature` is None in an empty or a broken one."""

    signature: str | None = None
    redacted: bool = False
    note: str = ""
    text: str = ""


def seal(signature: str | None, *, redacted: bool = False, note: str = "", text: str = "") -> str:
    """The envelope; `note` may hold anything but "|"."""
    return SEALED if signature is None else SEALED + spell(_content(signature, redacted, note, text))


def seal_base64(signature: str, *, redacted: bool = False, note: str = "", text: str = "") -> str:
    """The envelope for a wire that wants base64."""
    return b64encode(_bytes(SEALED[:-1] + _content(signature, redacted, note, text))).decode()


def opened(wire: str) -> Opened | None:
    """What is in an envelope of either form and alphabet; None for a string that is none."""
    if wire.startswith(SEALED):
        content = unspelled(wire[len(SEALED) :])
    elif wire.startswith(SEALED_BASE64):
        text = _decoded(wire.translate(_URL_SAFE).rstrip("="))
        content = text[len(SEALED) - 1 :] if text is not None else None
    else:
        return None
    found = _CONTENT.match(content or "")
    if found is None:
        return Opened()
    hidden, note, length = found.groups()
    border = found.end() + int(length)
    signature = found.string[border:]
    return Opened(signature, hidden == _HIDDEN, note, found.string[found.end() : border]) if signature else Opened()


def sealed(wire: str) -> bool:
    """True for a string that was sealed here, also if it is broken now."""
    return wire.startswith((SEALED, SEALED_BASE64))


def holds_sealed(body: bytes) -> bool:
    """False only if nothing in this JSON text is sealed."""
    return any(mark in body for mark in _MARKS)


def native(mark: str, signature: str | None) -> str | None:
    """The signature as it was made on the wire of that mark; None if it was made elsewhere."""
    if signature is None or not signature.startswith(mark):
        return None
    return signature[len(mark) :] or None


def spell(text: str) -> str:
    """The text in letters, digits, "-" and "_"."""
    return urlsafe_b64encode(_bytes(text)).decode().rstrip("=")


def unspelled(letters: str) -> str | None:
    """The text that `spell` spelled so; None if it spells none so."""
    text = _decoded(letters)
    return text if text is not None and spell(text) == letters else None


def _content(signature: str, redacted: bool, note: str, text: str) -> str:
    return f"{_HIDDEN if redacted else _OPEN}{note}|{len(text)}|{text}{signature}"


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _decoded(letters: str) -> str | None:
    try:
        return urlsafe_b64decode(letters + "=" * (-len(letters) % 4)).decode("utf-8", "surrogatepass")
    except ValueError:
        return None

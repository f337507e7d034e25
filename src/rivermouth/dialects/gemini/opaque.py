"""Thought signatures: strings that travel through a client unread and prove a thought to the model that had it.

A signature stands on a part of any kind, and where it stands is part of its meaning; in the neutral model it belongs to
reasoning.  So a signature of this vendor's is marked with its place, and one of another vendor is wrapped for the
client, restored when it returns, and kept from this vendor's models, which refuse it:

    neutral              on this wire
    "gemini:AbC.."       AbC..   on the thought itself
    "gemini-call:AbC.."  AbC..   on the tool call that follows
    "gemini-text:AbC.."  AbC..   on the text before
    "gemini-end:AbC.."   AbC..   on an empty text of its own
    any other            base64("rivermouth.1" + mark + neutral), on the thought

On the wire a signature is base64, and the SDK writes it back in the other alphabet, so both are read.
"""

from __future__ import annotations

from base64 import b64encode, urlsafe_b64decode
from enum import Enum
from typing import Final, NamedTuple


class Place(Enum):
    """Where a signature stands; the value is the mark of the neutral form."""

    THOUGHT = "gemini:"
    CALL = "gemini-call:"
    TEXT = "gemini-text:"
    END = "gemini-end:"


class Signed(NamedTuple):
    """A signature on this wire, and its place."""

    place: Place
    wire: str


_OURS: Final = "rivermouth.1"
MINTED: Final = b64encode(_OURS.encode()).decode()  # what every wrapped signature begins with: 12 bytes, 16 letters
_PLAIN: Final = "."
_REDACTED: Final = "r"
# The vendor's own word for a call that none of its models made; it is accepted in a signature's place.
NOT_OURS: Final = "skip_thought_signature_validator"


def from_upstream(place: Place, wire: str) -> str:
    """The neutral form of a signature that an upstream of this dialect gave."""
    return place.value + wire


def native(signature: str | None) -> Signed | None:
    """The signature as this vendor's model made it, or None if none did."""
    if signature is None:
        return None
    mark, found, wire = signature.partition(":")
    place = _PLACES.get(mark + found)
    return Signed(place, wire) if place is not None and wire else None


def to_client(signature: str, *, redacted: bool = False) -> Signed:
    """What a client of this dialect is given for any signature."""
    own = native(signature)
    if own is not None and not redacted:
        return own
    wrapped = _OURS + (_REDACTED if redacted else _PLAIN) + signature
    return Signed(Place.THOUGHT, b64encode(wrapped.encode("utf-8", "surrogatepass")).decode())


def from_client(place: Place, wire: str) -> tuple[str, bool]:
    """The neutral signature, and whether its reasoning was redacted."""
    if minted(wire):
        try:
            text = urlsafe_b64decode(_url_safe(wire)).decode("utf-8", "surrogatepass")
        except ValueError:
            return place.value + wire, False
        mark, signature = text[len(_OURS) : len(_OURS) + 1], text[len(_OURS) + 1 :]
        if signature and mark in (_PLAIN, _REDACTED):
            return signature, mark == _REDACTED
    return place.value + wire, False


def minted(wire: str) -> bool:
    """True for a signature that was wrapped here."""
    return wire.startswith(MINTED)


def _url_safe(wire: str) -> str:
    return wire.translate(_ALPHABET) + "=" * (-len(wire) % 4)


_PLACES: Final = {place.value: place for place in Place}
_ALPHABET: Final = str.maketrans("+/", "-_")

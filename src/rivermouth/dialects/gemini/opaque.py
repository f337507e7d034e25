"""Thought signatures on this wire; see `ir.opaque` for the envelope of what is not at home here.

A signature stands on a part of any kind, and where it stands is part of its meaning; in the neutral model it belongs to
reasoning.  So a signature of this vendor's is marked with its place, and one of another vendor is sealed for the
client, opened when it returns, and kept from this vendor's models, which refuse it:

    neutral              on this wire
    "gemini:AbC.."       AbC..   on the thought itself
    "gemini-call:AbC.."  AbC..   on the tool call that follows
    "gemini-text:AbC.."  AbC..   on the text before
    "gemini-end:AbC.."   AbC..   on an empty text of its own
    any other            the envelope, as base64, on the thought

On the wire a signature is base64, and the SDK writes it back in the other alphabet, so both are read.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from rivermouth.ir.opaque import opened, seal_base64


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


# The vendor's own word for a call that none of its models made; it is accepted in a signature's place.
NOT_OURS: Final = "skip_thought_signature_validator"


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
    return Signed(Place.THOUGHT, seal_base64(signature, redacted=redacted))


def from_wire(place: Place, wire: str) -> tuple[str | None, bool]:
    """The neutral form of what the wire has in that place (None for a broken envelope); whether it was hidden."""
    found = opened(wire)
    return (place.value + wire, False) if found is None else (found.signature, found.redacted)


_PLACES: Final = {place.value: place for place in Place}

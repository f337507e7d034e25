"""Signatures of reasoning, as whoever serves Anthropic's models gives them; see `ir.opaque` for the envelope.

    neutral              on the wire
    "anthropic:EqQB.."   EqQB..                      made by one of its models; goes back to it as it came
    "gemini:AbC.."       rivermouth.1.<base64url>    made elsewhere: restored when it returns, kept from Anthropic
    None                 rivermouth.1.               nobody signed; clients want a signature, so they get an empty one

Vendor signatures are base64, which has neither ":" nor "."; the three never meet.  The mapping is one to one.
"""

from __future__ import annotations

from typing import Final

from rivermouth.ir import opaque

NATIVE: Final = "anthropic:"


def signature_to_wire(signature: str | None, *, redacted: bool = False) -> str:
    """What a client is given; never empty."""
    return native(signature) or opaque.seal(signature, redacted=redacted)


def signature_from_wire(signature: str | None) -> str | None:
    """The neutral signature; None when there is none, or an empty one of our own."""
    if not signature:
        return None
    found = opaque.opened(signature)
    return NATIVE + signature if found is None else found.signature


def native(signature: str | None) -> str | None:
    """The signature as one of the vendor's models made it, or None if none did."""
    return opaque.native(NATIVE, signature)

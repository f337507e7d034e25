"""Signatures of reasoning: strings that travel through a client unread and come back.

A signature proves reasoning to the vendor that made it, and another vendor refuses it.  Whoever serves Anthropic's
models gives the same ones.  So each side marks what is not at home there:

    neutral              on the wire
    "anthropic:EqQB.."   EqQB..                      made by one of its models; goes back to it as it came
    "gAAAA.."            rivermouth.1.<base64url>    made elsewhere: restored when it returns, kept from Anthropic
    None                 rivermouth.1.               nobody signed; clients want a signature, so they get an empty one

Vendor signatures are base64, which has neither ":" nor "."; the three never meet.  The mapping is one to one.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final

NATIVE: Final = "anthropic:"
MINTED: Final = "rivermouth.1."


def signature_to_wire(signature: str | None) -> str:
    """What a client is given; never empty."""
    if signature is not None and signature.startswith(NATIVE):
        return signature[len(NATIVE) :]
    return MINTED + spell(signature or "")


def signature_from_wire(signature: str | None) -> str | None:
    """The neutral signature; None when there is none, or an empty one of our own."""
    if not signature:
        return None
    if not signature.startswith(MINTED):
        return NATIVE + signature
    return read(signature[len(MINTED) :]) or None


def native(signature: str | None) -> str | None:
    """The signature as one of the vendor's models made it, or None if none did."""
    if signature is None or not signature.startswith(NATIVE):
        return None
    return signature[len(NATIVE) :]


def spell(text: str) -> str:
    """Any text in the letters of a name."""
    return urlsafe_b64encode(text.encode("utf-8", "surrogatepass")).decode().rstrip("=")


def read(spelled: str) -> str | None:
    """The text, or None if nobody here spelled it."""
    try:
        text = urlsafe_b64decode(spelled + "=" * (-len(spelled) % 4)).decode("utf-8", "surrogatepass")
    except ValueError:
        return None
    return text if spell(text) == spelled else None

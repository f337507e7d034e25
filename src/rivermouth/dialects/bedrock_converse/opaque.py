"""Reasoning that travels through a client unread: signatures, and what is hidden.

Of the models behind this protocol Claude signs, so a signature here is one of Anthropic's (`vendors.anthropic`).
Hidden reasoning is bytes, base64 on the wire; the SDKs decode it and encode it again.  So it is passed as it came where
that gives the same text again, and else sealed (`ir.opaque`):

    neutral              hidden, on this wire
    "anthropic:RXFR.."   RXFR..                     as one of its models made it
    any other            the envelope, as base64    opened when it returns, and kept from Anthropic
"""

from __future__ import annotations

from base64 import b64decode, b64encode

from rivermouth.ir.opaque import opened, seal_base64, sealed
from rivermouth.vendors.anthropic.signatures import NATIVE, native


def hidden_to_wire(signature: str) -> str:
    """Base64 that any client decodes and encodes to the same text."""
    own = native(signature)
    if own is not None and not sealed(own) and _is_canonical(own):
        return own
    return seal_base64(signature, redacted=True)


def hidden_from_wire(data: str) -> str | None:
    """The neutral signature; None for nothing."""
    if not data:
        return None
    found = opened(data)
    return NATIVE + data if found is None else found.signature


def _is_canonical(text: str) -> bool:
    try:
        return b64encode(b64decode(text, validate=True)).decode() == text
    except ValueError:
        return False

"""Reasoning that travels through a client unread: signatures, and what is hidden.

Of the models behind this protocol Claude signs, so a signature here is one of Anthropic's (`vendors.anthropic`).
Hidden reasoning is bytes, base64 on the wire; the SDKs decode it and encode it again.  So it is passed as it came where
that gives the same text again, and else wrapped:

    neutral              hidden, on this wire
    "anthropic:RXFR.."   RXFR..                                     as one of its models made it
    any other            base64("rivermouth.1." + the neutral one)  restored when it returns, and kept from Anthropic
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Final

from rivermouth.vendors.anthropic.signatures import MINTED, NATIVE

_MARK: Final = MINTED.encode()
MINTED_HIDDEN: Final = b64encode(MINTED[: len(MINTED) // 3 * 3].encode()).decode()
"""What everything that was wrapped here begins with, in base64."""


def hidden_to_wire(signature: str) -> str:
    """Base64 that any client decodes and encodes to the same text."""
    own = signature.removeprefix(NATIVE)
    if own and own != signature and not own.startswith(MINTED_HIDDEN) and _is_canonical(own):
        return own
    return b64encode(_MARK + signature.encode("utf-8", "surrogatepass")).decode()


def hidden_from_wire(data: str) -> str | None:
    """The neutral signature; None for nothing."""
    if not data:
        return None
    if data.startswith(MINTED_HIDDEN):
        try:
            whole = b64decode(data, validate=True)
            if whole.startswith(_MARK):
                return whole[len(_MARK) :].decode("utf-8", "surrogatepass") or None
        except ValueError:
            pass
    return NATIVE + data


def _is_canonical(text: str) -> bool:
    try:
        return b64encode(b64decode(text, validate=True)).decode() == text
    except ValueError:
        return False

"""Strings that travel through a client unread and come back: reasoning signatures and tool ids.

A signature proves reasoning to the vendor that made it, and another vendor refuses it.  So each side marks what is
not at home there:

    neutral              on this wire
    "anthropic:EqQB.."   EqQB..                      made by an upstream of this dialect; goes back to it as it came
    "gAAAA.."            rivermouth.1.<base64url>    made elsewhere: restored when it returns, kept from Anthropic
    None                 rivermouth.1.               nobody signed; clients want a signature, so they get an empty one

Vendor signatures are base64, which has neither ":" nor "."; the three never meet.  Tool ids here are [A-Za-z0-9_-]+;
any other id is spelled in that alphabet and restored when it returns.  Both mappings are one to one.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final

NATIVE: Final = "anthropic:"
MINTED: Final = "rivermouth.1."
_TOOL_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")
_SPELLED: Final = "rmid_"


def signature_to_wire(signature: str | None) -> str:
    """What an Anthropic client is given; never empty."""
    if signature is not None and signature.startswith(NATIVE):
        return signature[len(NATIVE) :]
    return MINTED + _spell(signature or "")


def signature_from_wire(signature: str | None) -> str | None:
    """The neutral signature; None when there is none, or an empty one of our own."""
    if not signature:
        return None
    if not signature.startswith(MINTED):
        return NATIVE + signature
    return _read(signature[len(MINTED) :]) or None


def native(signature: str | None) -> str | None:
    """The signature as an Anthropic upstream made it, or None if it did not."""
    if signature is None or not signature.startswith(NATIVE):
        return None
    return signature[len(NATIVE) :]


def tool_id_to_wire(tool_id: str) -> str:
    """The same id where the alphabet allows it, else one that `tool_id_from_wire` restores."""
    if _TOOL_ID.fullmatch(tool_id) and not tool_id.startswith(_SPELLED):
        return tool_id
    return _SPELLED + _spell(tool_id)


def tool_id_from_wire(tool_id: str) -> str:
    """The id as it was before `tool_id_to_wire`."""
    if not tool_id.startswith(_SPELLED):
        return tool_id
    return _read(tool_id[len(_SPELLED) :]) or tool_id


def _spell(text: str) -> str:
    return urlsafe_b64encode(text.encode("utf-8", "surrogatepass")).decode().rstrip("=")


def _read(spelled: str) -> str | None:
    """The text, or None if nobody here spelled it."""
    try:
        text = urlsafe_b64decode(spelled + "=" * (-len(spelled) % 4)).decode("utf-8", "surrogatepass")
    except ValueError:
        return None
    return text if _spell(text) == spelled else None

"""Signatures and tool ids on this wire; see `ir.opaque` for the envelope of what is not at home here.

    neutral              on this wire
    "anthropic:EqQB.."   EqQB..                      made by an upstream of this dialect; goes back to it as it came
    "gemini:AbC.."       rivermouth.1.<base64url>    made elsewhere: restored when it returns, kept from Anthropic
    None                 rivermouth.1.               nobody signed; clients want a signature, so they get an empty one

Vendor signatures are base64, which has neither ":" nor "."; the three never meet.  Tool ids here are [A-Za-z0-9_-]+;
any other id is spelled in that alphabet and restored when it returns.  Both mappings are one to one.
"""

from __future__ import annotations

import re
from typing import Final

from rivermouth.ir import opaque
from rivermouth.ir.call_ids import from_alphabet, to_alphabet

NATIVE: Final = "anthropic:"
_TOOL_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")


def signature_to_wire(signature: str | None, *, redacted: bool = False) -> str:
    """What an Anthropic client is given; never empty."""
    return native(signature) or opaque.seal(signature, redacted=redacted)


def signature_from_wire(signature: str | None) -> str | None:
    """The neutral signature; None when there is none, or an empty one of our own."""
    if not signature:
        return None
    found = opaque.opened(signature)
    return NATIVE + signature if found is None else found.signature


def native(signature: str | None) -> str | None:
    """The signature as an Anthropic upstream made it, or None if it did not."""
    return opaque.native(NATIVE, signature)


def tool_id_to_wire(tool_id: str) -> str:
    """The same id where the alphabet allows it, else one that `tool_id_from_wire` restores."""
    return to_alphabet(tool_id, _TOOL_ID)


def tool_id_from_wire(tool_id: str) -> str:
    """The id as it was before `tool_id_to_wire`."""
    return from_alphabet(tool_id)

"""Strings that travel through a client unread and come back: signatures, which `vendors.anthropic` explains, and ids.

Ids of calls here are [A-Za-z0-9_-]+; any other id is spelled in that alphabet and restored when it returns.  The
mapping is one to one.
"""

from __future__ import annotations

import re
from typing import Final

from rivermouth.ir.call_ids import from_alphabet, to_alphabet
from rivermouth.vendors.anthropic.signatures import NATIVE, native, signature_from_wire, signature_to_wire

__all__ = ["NATIVE", "native", "signature_from_wire", "signature_to_wire", "tool_id_from_wire", "tool_id_to_wire"]

_TOOL_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")


def tool_id_to_wire(tool_id: str) -> str:
    """The same id where the alphabet allows it, else one that `tool_id_from_wire` restores."""
    return to_alphabet(tool_id, _TOOL_ID)


def tool_id_from_wire(tool_id: str) -> str:
    """The id as it was before `tool_id_to_wire`."""
    return from_alphabet(tool_id)

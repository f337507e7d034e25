"""Strings that travel through a client unread and come back: signatures, which `vendors.anthropic` explains, and ids.

Ids of calls here are [A-Za-z0-9_-]+; any other id is spelled in that alphabet and restored when it returns.  The
mapping is one to one.
"""

from __future__ import annotations

import re
from typing import Final

from rivermouth.vendors.anthropic.signatures import (
    MINTED,
    NATIVE,
    native,
    read,
    signature_from_wire,
    signature_to_wire,
    spell,
)

__all__ = [
    "MINTED",
    "NATIVE",
    "native",
    "signature_from_wire",
    "signature_to_wire",
    "tool_id_from_wire",
    "tool_id_to_wire",
]

_TOOL_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")
_SPELLED: Final = "rmid_"


def tool_id_to_wire(tool_id: str) -> str:
    """The same id where the alphabet allows it, else one that `tool_id_from_wire` restores."""
    if _TOOL_ID.fullmatch(tool_id) and not tool_id.startswith(_SPELLED):
        return tool_id
    return _SPELLED + spell(tool_id)


def tool_id_from_wire(tool_id: str) -> str:
    """The id as it was before `tool_id_to_wire`."""
    if not tool_id.startswith(_SPELLED):
        return tool_id
    return read(tool_id[len(_SPELLED) :]) or tool_id

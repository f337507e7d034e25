"""Names that records hold: what may be one, wherever it is given.  Pure."""

from __future__ import annotations

import re
from typing import Final

FINGERPRINT_CHARS: Final = 8
NO_POLICY: Final = "default"
"""What a call says its policy was where none held (R5)."""
_KEY: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}")
_FINGERPRINT: Final = re.compile(rf"[0-9a-f]{{{FINGERPRINT_CHARS}}}")
_POLICY: Final = re.compile(r"[A-Za-z0-9_.-]+")


def key_fault(name: str) -> str | None:
    """Why no key can have this name; None if one can.  Whoever had it would be taken for another in the records."""
    if not _KEY.fullmatch(name):
        return "a key's name has up to 64 letters, digits, '.', '_', '@' and '-'"
    return "such names are those of keys that have none" if _FINGERPRINT.fullmatch(name) else None


def policy_fault(name: str) -> str | None:
    """Why no policy can have this name; None if one can."""
    if not _POLICY.fullmatch(name):
        return "a policy's name has letters, digits, '.', '_' and '-'"
    return "this is what calls say for which no policy held" if name == NO_POLICY else None

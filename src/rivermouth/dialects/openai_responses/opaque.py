"""Encrypted reasoning: strings that travel through a client unread and prove a thought to the model that had it.

On this wire a thought is an item with an id and `encrypted_content`; its maker wants both back.  Another vendor's
signature is wrapped for the client, restored when it returns, and kept from this vendor's models, which refuse it:

    neutral                      on this wire: id, encrypted_content
    "openai:rs_1:gAAA.."         rs_1, gAAA..                       made by an upstream of this dialect and passed on
    any, in an item of ours      ours, "rivermouth.1.<base64url>"   redacted ones "rivermouth.1r.<base64url>"

A blob of the vendor's is base64 and never has the dot of ours.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final, NamedTuple

NATIVE: Final = "openai:"
MINTED: Final = "rivermouth.1"
_PLAIN: Final = MINTED + "."
_REDACTED: Final = MINTED + "r."


class Native(NamedTuple):
    """A thought as an upstream of this dialect knows it."""

    id: str
    encrypted: str


class Signed(NamedTuple):
    """A neutral signature, and whether its reasoning was redacted."""

    signature: str
    redacted: bool


def to_client(signature: str, *, redacted: bool = False) -> str:
    """The `encrypted_content` of an item of ours."""
    spelled = urlsafe_b64encode(signature.encode("utf-8", "surrogatepass")).decode().rstrip("=")
    return (_REDACTED if redacted else _PLAIN) + spelled


def from_wire(identity: str | None, encrypted: str | None, *, silent: bool) -> Signed | None:
    """The signature of an item, whoever made it; None when it has none.

    silent: the item has no text; what is the vendor's own and says nothing is redacted.
    """
    if not encrypted:
        return None
    if minted(encrypted):
        mark, _, spelled = encrypted.rpartition(".")
        signature = _read(spelled)
        if signature is not None:
            return Signed(signature, mark + "." == _REDACTED) if signature else None
    return Signed(f"{NATIVE}{identity or ''}:{encrypted}", silent)


def native(signature: str | None) -> Native | None:
    """The thought as this vendor's model made it, or None if none did."""
    if signature is None or not signature.startswith(NATIVE):
        return None
    identity, found, encrypted = signature[len(NATIVE) :].partition(":")
    return Native(identity, encrypted) if found and encrypted else None


def minted(encrypted: str) -> bool:
    """True for a signature that was wrapped here."""
    return encrypted.startswith((_PLAIN, _REDACTED))


def _read(spelled: str) -> str | None:
    try:
        return urlsafe_b64decode(spelled + "=" * (-len(spelled) % 4)).decode("utf-8", "surrogatepass")
    except ValueError:
        return None

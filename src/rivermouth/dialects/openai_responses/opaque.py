"""Encrypted reasoning: strings that travel through a client unread and prove a thought to the model that had it.

On this wire a thought is an item with an id and `encrypted_content`; its maker wants both back.  Any signature is
sealed for the client (`ir.opaque`), opened when it returns, and kept from this vendor's models unless they made it:

    neutral                      on this wire: id, encrypted_content
    "openai:rs_1:gAAA.."         rs_1, gAAA..                      made by an upstream of this dialect and passed on
    any, in an item of ours      ours, the envelope
"""

from __future__ import annotations

from typing import Final, NamedTuple

from rivermouth.ir import opaque

NATIVE: Final = "openai:"


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
    return opaque.seal(signature, redacted=redacted)


def from_wire(identity: str | None, encrypted: str | None, *, silent: bool) -> Signed | None:
    """The signature of an item, whoever made it; None when it has none.

    silent: the item has no text; what is the vendor's own and says nothing is redacted.
    """
    if not encrypted:
        return None
    found = opaque.opened(encrypted)
    if found is None:
        return Signed(f"{NATIVE}{identity or ''}:{encrypted}", silent)
    return Signed(found.signature, found.redacted) if found.signature is not None else None


def native(signature: str | None) -> Native | None:
    """The thought as this vendor's model made it, or None if none did."""
    if signature is None or not signature.startswith(NATIVE):
        return None
    identity, found, encrypted = signature[len(NATIVE) :].partition(":")
    return Native(identity, encrypted) if found and encrypted else None

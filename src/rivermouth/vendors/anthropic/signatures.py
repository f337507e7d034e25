"""Signatures of reasoning, as whoever serves Anthropic's models gives them; see `ir.opaque` for the envelope.

    neutral              on the wire
    "anthropic:EqQB.."   EqQB..                      made by one of its models; goes back to it as it came
    "gemini:AbC.."       rivermouth.1.<base64url>    made elsewhere: restored when it returns, kept from Anthropic
    None                 rivermouth.1.               nobody signed; clients want a signature, so they get an empty one

Vendor signatures are base64, which has neither ":" nor "."; the three never meet.  The mapping is one to one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from rivermouth.ir import opaque
from rivermouth.wire import json

NATIVE: Final = "anthropic:"


def signature_to_wire(signature: str | None, *, redacted: bool = False) -> str:
    """What a client is given; never empty."""
    return native(signature) or opaque.seal(signature, redacted=redacted)


def signature_from_wire(signature: str | None) -> str | None:
    """The neutral signature; None when there is none, or an empty one of our own."""
    if not signature:
        return None
    found = opaque.opened(signature)
    return NATIVE + signature if found is None else found.signature


def without(messages: json.Raw, sealed: Callable[[Any], bool]) -> list[dict[str, Any]]:
    """A client's turns without the blocks of which that is true, and without turns of nothing else."""
    kept: list[dict[str, Any]] = []
    for turn in json.convert(json.decode(messages), list[dict[str, Any]]):
        content = turn.get("content")
        if isinstance(content, list):
            content = [block for block in content if not sealed(block)]
            if not content:
                continue
        kept.append({**turn, "content": content})
    return kept


def native(signature: str | None) -> str | None:
    """The signature as one of the vendor's models made it, or None if none did."""
    return opaque.native(NATIVE, signature)

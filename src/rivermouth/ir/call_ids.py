"""Ids of tool calls, for wires that have none, whose peers leave them out or repeat them (F20), or have few letters.

An id is made from the position, so that the same body or answer always has the same ids.
"""

from __future__ import annotations

import re
from typing import Final

from rivermouth.ir.opaque import spell, unspelled

_SPELLED: Final = "rmid_"


def call_id(given: str | None, seed: str, number: int, taken: set[str]) -> str:
    """The upstream's id where it has one that is new, else one made from the answer's own id and the call's number.

    `taken` grows by it.
    """
    if given and given not in taken:
        taken.add(given)
        return given
    return fresh(f"call_{seed}_{number}" if seed else f"call_{number}", taken)


def fresh(wanted: str, taken: set[str]) -> str:
    """The id, made longer while it is taken; `taken` grows by it."""
    while wanted in taken:
        wanted += "x"
    taken.add(wanted)
    return wanted


def to_alphabet(identity: str, alphabet: re.Pattern[str]) -> str:
    """The same id where the wire's alphabet allows it, else one that `from_alphabet` restores.

    Letters, digits, "-" and "_" are allowed on every wire.
    """
    if alphabet.fullmatch(identity) and not identity.startswith(_SPELLED):
        return identity
    return _SPELLED + spell(identity)


def from_alphabet(identity: str) -> str:
    """The id as it was before `to_alphabet`."""
    if not identity.startswith(_SPELLED):
        return identity
    return unspelled(identity[len(_SPELLED) :]) or identity

"""Ids of tool calls, for wires that have none, or whose peers leave them out or repeat them (F20).

An id is made from the position, so that the same body or answer always has the same ids.
"""

from __future__ import annotations


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

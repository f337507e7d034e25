"""Sampling fields: their names, and the ranges outside of which the vendor refuses a request."""

from __future__ import annotations

from typing import Any, Final

from rivermouth.ir.request import Sampling

# Field of ir Sampling -> member of the body.
MEMBERS: Final[dict[str, str]] = {
    "temperature": "temperature",
    "top_p": "p",
    "top_k": "k",
    "seed": "seed",
    "frequency_penalty": "frequency_penalty",
    "presence_penalty": "presence_penalty",
}
RANGES: Final[dict[str, tuple[float, float]]] = {
    "top_p": (0.01, 0.99),
    "top_k": (0, 500),
    "seed": (0, 2**64 - 1),
    "frequency_penalty": (0.0, 1.0),
    "presence_penalty": (0.0, 1.0),
}
# Fields without a member, or (logprobs) with one whose answer no other protocol's client could be given.
UNSAMPLED: Final = frozenset(Sampling.__struct_fields__) - MEMBERS.keys()


def write_sampling(sampling: Sampling, losses: set[str]) -> dict[str, Any]:
    """The members of the body.  A value out of range is cut to it and is a loss."""
    losses |= {name for name in UNSAMPLED if getattr(sampling, name) not in (None, False)}
    wire: dict[str, Any] = {}
    for field, member in MEMBERS.items():
        value = getattr(sampling, field)
        if value is None:
            continue
        low, high = RANGES.get(field, (value, value))
        kept = min(max(value, low), high)
        if kept != value:
            losses.add(field)
        wire[member] = kept
    return wire

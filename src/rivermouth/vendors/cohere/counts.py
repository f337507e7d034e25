"""Token counts: v2's `usage` and the members of v1's `meta` are the same object.

`tokens` is what the model read and wrote, `billed_units` what is paid; both are floats on the wire.  `cached_tokens`
are part of the input, as in the neutral form (F28).  Null is "not said" and never 0 (F29).
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

from rivermouth.ir.events import Usage


class Pair(msgspec.Struct, gc=False):
    input_tokens: float | None = None
    output_tokens: float | None = None


class Counts(msgspec.Struct, gc=False):
    tokens: Pair | None = None
    billed_units: Pair | None = None
    cached_tokens: float | None = None


def read_counts(counts: Counts | None) -> Usage | None:
    """The neutral counts; None if nothing was said."""
    if counts is None:
        return None
    tokens, billed = counts.tokens or Pair(), counts.billed_units or Pair()
    usage = Usage(
        input_tokens=_whole(tokens.input_tokens if tokens.input_tokens is not None else billed.input_tokens),
        output_tokens=_whole(tokens.output_tokens if tokens.output_tokens is not None else billed.output_tokens),
        cached_tokens=_whole(counts.cached_tokens),
    )
    return None if usage == Usage() else usage


def write_counts(usage: Usage | None) -> dict[str, Any]:
    """The members that carry the counts; none for what nobody knows."""
    if usage is None:
        return {}
    known = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
    pair = {name: count for name, count in known.items() if count is not None}
    wire: dict[str, Any] = {"billed_units": pair, "tokens": pair} if pair else {}
    return wire if usage.cached_tokens is None else {**wire, "cached_tokens": usage.cached_tokens}


def _whole(count: float | None) -> int | None:
    return int(count) if count is not None and math.isfinite(count) and count >= 0 else None

"""Token counts: here `input_tokens` leaves the cached ones out, in the neutral model they are in (F28).

Counts are cumulative; null means "not said" and is never 0 (F29).
"""

from __future__ import annotations

from typing import Any

import msgspec

from rivermouth.ir.events import Usage


class OutputDetails(msgspec.Struct, gc=False):
    thinking_tokens: int | None = None


class Counts(msgspec.Struct, gc=False):
    """The wire's `usage` object."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    output_tokens_details: OutputDetails | None = None


def merge(old: Counts, new: Counts) -> Counts:
    """`new` over `old`, field by field; what `new` does not say stays."""
    said = {f: v for f in Counts.__struct_fields__ if (v := getattr(new, f)) is not None}
    return msgspec.structs.replace(old, **said)


def to_neutral(counts: Counts) -> Usage | None:
    """The neutral counts, or None if nothing was said."""
    read, written = counts.cache_read_input_tokens, counts.cache_creation_input_tokens
    fresh = counts.input_tokens
    details = counts.output_tokens_details
    usage = Usage(
        input_tokens=None if fresh is None else fresh + (read or 0) + (written or 0),
        output_tokens=counts.output_tokens,
        cached_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=details.thinking_tokens if details else None,
    )
    return None if usage == Usage() else usage


def to_wire(usage: Usage | None, *, estimate: int | None = None) -> dict[str, Any]:
    """The `usage` object; `output_tokens` is always there, `estimate` stands for a prompt nobody has counted yet."""
    usage = usage or Usage()
    said: dict[str, Any] = {}
    if usage.input_tokens is not None:
        said["input_tokens"] = max(usage.input_tokens - (usage.cached_tokens or 0) - (usage.cache_write_tokens or 0), 0)
    elif estimate is not None:
        said["input_tokens"] = estimate
    if usage.cache_write_tokens is not None:
        said["cache_creation_input_tokens"] = usage.cache_write_tokens
    if usage.cached_tokens is not None:
        said["cache_read_input_tokens"] = usage.cached_tokens
    said["output_tokens"] = usage.output_tokens or 0
    if usage.reasoning_tokens is not None:
        said["output_tokens_details"] = {"thinking_tokens": usage.reasoning_tokens}
    return said

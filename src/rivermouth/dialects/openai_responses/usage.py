"""Token counts, both ways.  The input includes what was cached, as the neutral form does (F28)."""

from __future__ import annotations

from typing import Any

import msgspec

from rivermouth.ir.events import Usage


class _InputDetails(msgspec.Struct, frozen=True, gc=False):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class _OutputDetails(msgspec.Struct, frozen=True, gc=False):
    reasoning_tokens: int | None = None


class UsageShape(msgspec.Struct, frozen=True):
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: _InputDetails | None = None
    output_tokens_details: _OutputDetails | None = None
    estimated: bool | None = None


def read_usage(wire: UsageShape | None) -> Usage | None:
    """None when nothing was counted: null is not 0 (F29)."""
    if wire is None or (wire.input_tokens is None and wire.output_tokens is None):
        return None
    read = wire.input_tokens_details or _InputDetails()
    made = wire.output_tokens_details or _OutputDetails()
    return Usage(
        input_tokens=wire.input_tokens,
        output_tokens=wire.output_tokens,
        cached_tokens=read.cached_tokens,
        cache_write_tokens=read.cache_write_tokens,
        reasoning_tokens=made.reasoning_tokens,
        estimated=bool(wire.estimated),
    )


def write_usage(usage: Usage | None) -> dict[str, Any] | None:
    """The `usage` member; None while a side is not known.  Details are demanded by the schema, so they may be 0."""
    if usage is None or usage.input_tokens is None or usage.output_tokens is None:
        return None
    wire: dict[str, Any] = {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {
            "cached_tokens": usage.cached_tokens or 0,
            "cache_write_tokens": usage.cache_write_tokens or 0,
        },
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens or 0},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }
    return wire | {"estimated": True} if usage.estimated else wire

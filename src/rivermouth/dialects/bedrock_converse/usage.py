"""Token counts: here `inputTokens` leaves the cached ones out, in the neutral model they are in (F28).

null means "not said" and is never 0 (F29).
"""

from __future__ import annotations

from typing import Any

import msgspec

from rivermouth.ir.events import Usage


class Counts(msgspec.Struct):
    """The wire's `usage` object; Nova's own body has other names for two."""

    input: int | None = msgspec.field(name="inputTokens", default=None)
    output: int | None = msgspec.field(name="outputTokens", default=None)
    read: int | None = msgspec.field(name="cacheReadInputTokens", default=None)
    written: int | None = msgspec.field(name="cacheWriteInputTokens", default=None)
    nova_read: int | None = msgspec.field(name="cacheReadInputTokenCount", default=None)
    nova_written: int | None = msgspec.field(name="cacheWriteInputTokenCount", default=None)


def to_neutral(counts: Counts | None) -> Usage | None:
    """The neutral counts, or None if nothing was said."""
    if counts is None:
        return None
    read = counts.nova_read if counts.read is None else counts.read
    written = counts.nova_written if counts.written is None else counts.written
    usage = Usage(
        input_tokens=None if counts.input is None else counts.input + (read or 0) + (written or 0),
        output_tokens=counts.output,
        cached_tokens=read,
        cache_write_tokens=written,
    )
    return None if usage == Usage() else usage


def to_wire(usage: Usage | None, estimate: int) -> dict[str, Any]:
    """The `usage` object, which has three required counts; `estimate` stands for a prompt that nobody has counted."""
    usage = usage or Usage()
    whole = estimate if usage.input_tokens is None else usage.input_tokens
    output = usage.output_tokens or 0
    read, written = usage.cached_tokens, usage.cache_write_tokens
    said: dict[str, Any] = {
        "inputTokens": max(whole - (read or 0) - (written or 0), 0),
        "outputTokens": output,
        "totalTokens": whole + output,
    }
    if read is not None:
        said["cacheReadInputTokens"] = read
    if written is not None:
        said["cacheWriteInputTokens"] = written
    return said

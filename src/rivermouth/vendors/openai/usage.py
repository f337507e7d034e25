"""Token counts of chats and completions, both ways.  The prompt includes what was cached, as the neutral one (F28)."""

from __future__ import annotations

from typing import Any

import msgspec

from rivermouth.ir.events import Usage


class PromptDetails(msgspec.Struct, frozen=True, gc=False):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class CompletionDetails(msgspec.Struct, frozen=True, gc=False):
    reasoning_tokens: int | None = None


class UsageShape(msgspec.Struct, frozen=True):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: PromptDetails | None = None
    completion_tokens_details: CompletionDetails | None = None
    prompt_cache_hit_tokens: int | None = None
    estimated: bool | None = None


def read_usage(wire: UsageShape) -> Usage | None:
    """None when nothing was counted: null is not 0 (F29)."""
    prompt, completion = wire.prompt_tokens, wire.completion_tokens
    details = wire.prompt_tokens_details
    cached = details.cached_tokens if details is not None else None
    thought = wire.completion_tokens_details.reasoning_tokens if wire.completion_tokens_details else None
    if prompt is None and completion is None:
        return None
    if thought and prompt is not None and completion is not None and wire.total_tokens == prompt + completion + thought:
        completion += thought  # some servers leave it out of this count alone
    return Usage(
        input_tokens=prompt,
        output_tokens=completion,
        cached_tokens=wire.prompt_cache_hit_tokens if cached is None else cached,
        cache_write_tokens=details.cache_write_tokens if details is not None else None,
        reasoning_tokens=thought,
        estimated=bool(wire.estimated),
    )


def write_usage(usage: Usage | None) -> dict[str, Any] | None:
    """The `usage` member; None while a side is not known, since the schema has no null there and 0 would be a lie."""
    if usage is None or usage.input_tokens is None or usage.output_tokens is None:
        return None
    wire: dict[str, Any] = {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }
    prompt = {"cached_tokens": usage.cached_tokens, "cache_write_tokens": usage.cache_write_tokens}
    said = {name: count for name, count in prompt.items() if count is not None}
    if said:
        wire["prompt_tokens_details"] = said
    if usage.reasoning_tokens is not None:
        wire["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning_tokens}
    if usage.estimated:
        wire["estimated"] = True
    return wire

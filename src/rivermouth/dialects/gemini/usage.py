"""Token counts.  Here thoughts stand beside the answer's tokens; in the neutral model they are among them.

    neutral            on this wire
    input_tokens       promptTokenCount, cached tokens included (F28), + toolUsePromptTokenCount
    cached_tokens      cachedContentTokenCount
    output_tokens      candidatesTokenCount + thoughtsTokenCount
    reasoning_tokens   thoughtsTokenCount

A count of 0 may be left out on this wire, so one that is missing is told by the total, and without it is "not said"
(F29).
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from rivermouth.ir.events import Usage
from rivermouth.wire import json


class _Counts(msgspec.Struct, gc=False, rename="camel"):
    prompt_token_count: int | None = None
    candidates_token_count: int | None = None
    thoughts_token_count: int | None = None
    cached_content_token_count: int | None = None
    tool_use_prompt_token_count: int | None = None
    total_token_count: int | None = None


_counts: Final = json.typed(_Counts)


def to_neutral(data: bytes | json.Raw) -> Usage | None:
    """The neutral counts of a `usageMetadata`, or None if nothing was said.  Raises `WireError`."""
    said = json.decode_as(_counts, data)
    prompt, thoughts = said.prompt_token_count, said.thoughts_token_count
    prompt = None if prompt is None else prompt + (said.tool_use_prompt_token_count or 0)
    answer = said.candidates_token_count
    output = None if answer is None and thoughts is None else (answer or 0) + (thoughts or 0)
    if output is None and said.total_token_count is not None and prompt is not None:
        output = max(said.total_token_count - prompt, 0)
    usage = Usage(
        input_tokens=prompt,
        output_tokens=output,
        cached_tokens=said.cached_content_token_count,
        reasoning_tokens=thoughts,
    )
    return None if usage == Usage() else usage


def to_wire(usage: Usage) -> dict[str, Any]:
    """The `usageMetadata`, without what nobody knows."""
    output = usage.output_tokens
    total = None if usage.input_tokens is None or output is None else usage.input_tokens + output
    said = {
        "promptTokenCount": usage.input_tokens,
        "candidatesTokenCount": None if output is None else max(output - (usage.reasoning_tokens or 0), 0),
        "cachedContentTokenCount": usage.cached_tokens,
        "thoughtsTokenCount": usage.reasoning_tokens,
        "totalTokenCount": total,
    }
    return {name: value for name, value in said.items() if value is not None}

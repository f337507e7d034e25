"""The wire's own structs: only the fields that are acted on.  Every optional member may be JSON null."""

from __future__ import annotations

from typing import Any

import msgspec

from rivermouth.vendors.openai.usage import UsageShape


class StreamOptions(msgspec.Struct, frozen=True):
    include_usage: bool | None = None


class RequestShape(msgspec.Struct, frozen=True):
    """`prompt` is a text, a list of texts, a list of tokens, or a list of such lists."""

    model: str | None = None
    prompt: str | list[str | int | list[int]] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: int | None = None
    best_of: int | None = None
    max_tokens: int | None = None
    stop: str | list[str] | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    seed: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    repetition_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    logprobs: int | None = None
    echo: bool | None = None
    suffix: str | None = None
    user: str | None = None


class ChoiceShape(msgspec.Struct, frozen=True):
    text: str | None = None
    index: int | None = None
    finish_reason: str | None = None
    error: Any = None


class Chunk(msgspec.Struct, frozen=True):
    """One frame of a stream, or one whole reply.  The members below `usage` are how errors arrive."""

    id: str | None = None
    model: str | None = None
    created: int | float | None = None
    choices: list[ChoiceShape] | None = None
    usage: UsageShape | None = None
    error: Any = None
    object: str | None = None

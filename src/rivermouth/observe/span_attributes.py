"""What a span says of a call, and of an attempt: the names of OpenTelemetry's conventions for generative AI.

Pure, and without the SDK: from the final record to a table of attributes.  A span holds no prompt, no answer and no
message.  Tokens and prices stand on the call's span alone, so that who adds spans up counts them once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from rivermouth.observe.ended import LONGEST_NAME, NS, EndedAttempt, EndedCall, word

Attribute = str | bool | int | float | Sequence[str]
Attributes = dict[str, Attribute]

OPERATIONS: Final = {"generate": "chat", "embed": "embeddings"}
"""Our operations -> `gen_ai.operation.name`."""

PROVIDERS: Final = {
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "bedrock-converse": "aws.bedrock",
    "gemini": "gcp.gemini",
    "gemini-openai": "gcp.gemini",
    "mistral": "mistral_ai",
}
"""Our presets -> `gen_ai.provider.name`, where the convention has another word for them."""

SKIPPED: Final = "skipped"
"""The outcome of an attempt that never began."""


class Target(msgspec.Struct, frozen=True):
    """Where a provider is.  A model in this process or on this machine has no address."""

    address: str
    port: int


NOWHERE: Final[Mapping[str, Target]] = {}


def operation_of(call_operation: str) -> str:
    return OPERATIONS.get(call_operation, call_operation)


def name_of(operation: str, model: str | None) -> str:
    """A span's name: the operation, and the model if it is one that exists."""
    return f"{operation_of(operation)} {model[:LONGEST_NAME]}" if model else operation_of(operation)


def call_name(call: EndedCall) -> str:
    """What nobody serves is not in the name: a client could invent names without end."""
    return name_of(call.operation, call.model_asked if call.endpoint_id is not None else None)


def at_start(operation: str, model: str) -> Attributes:
    """What a sampler may judge by."""
    return {"gen_ai.operation.name": operation_of(operation), "gen_ai.request.model": model[:LONGEST_NAME]}


def provider_name(provider: str | None) -> str | None:
    return None if provider is None else PROVIDERS.get(provider, provider)


def _seconds(duration_ns: int | None) -> float | None:
    return None if duration_ns is None else duration_ns / NS


CALL: Final[dict[str, Callable[[EndedCall], Any]]] = {
    "gen_ai.operation.name": lambda call: operation_of(call.operation),
    "gen_ai.provider.name": lambda call: provider_name(call.provider),
    "gen_ai.request.model": lambda call: call.model_asked[:LONGEST_NAME],
    "gen_ai.request.stream": lambda call: call.stream,
    "gen_ai.response.id": lambda call: call.id,
    "gen_ai.response.model": lambda call: call.model_used,
    "gen_ai.response.finish_reasons": lambda call: [call.finish_reason] if call.finish_reason is not None else None,
    "gen_ai.response.time_to_first_chunk": lambda call: _seconds(call.first_token_ns) if call.stream else None,
    "gen_ai.usage.input_tokens": lambda call: call.input_tokens,
    "gen_ai.usage.output_tokens": lambda call: call.output_tokens,
    "gen_ai.usage.cache_read.input_tokens": lambda call: call.cached_tokens,
    "gen_ai.usage.reasoning.output_tokens": lambda call: call.reasoning_tokens,
    "error.type": lambda call: word(call.kind) or None,
    "rivermouth.call.id": lambda call: call.id,
    "rivermouth.call.status": lambda call: word(call.status),
    "rivermouth.call.cancelled_by": lambda call: call.cancelled_by,
    "rivermouth.dialect": lambda call: call.dialect,
    "rivermouth.surface": lambda call: call.surface,
    "rivermouth.key": lambda call: call.key_name,
    "rivermouth.policy.id": lambda call: call.policy_id,
    "rivermouth.endpoint.id": lambda call: call.endpoint_id,
    "rivermouth.attempts": lambda call: len(call.attempts),
    "rivermouth.tokens.estimated": lambda call: call.estimated,
    "rivermouth.cost.amount": lambda call: None if call.price_nano is None else call.price_nano / NS,
    "rivermouth.cost.currency": lambda call: call.price_currency,
    "rivermouth.cost.estimated": lambda call: None if call.price_nano is None else call.price_estimated,
}
"""Attribute of a call's span -> what of the record it is.  What is not known is left out."""

ATTEMPT: Final[dict[str, Callable[[EndedAttempt], Any]]] = {
    "gen_ai.provider.name": lambda attempt: provider_name(attempt.provider),
    "gen_ai.request.model": lambda attempt: attempt.model,
    "error.type": lambda attempt: word(attempt.kind) or None,
    "http.response.status_code": lambda attempt: attempt.status_code,
    "rivermouth.attempt.number": lambda attempt: attempt.number,
    "rivermouth.attempt.outcome": lambda attempt: word(attempt.outcome),
    "rivermouth.attempt.output_tokens": lambda attempt: attempt.output_tokens,
    "rivermouth.endpoint.id": lambda attempt: attempt.endpoint_id,
}
"""Attribute of an attempt's span -> what of its line in the record it is."""


def of_call(call: EndedCall) -> Attributes:
    return _known({name: read(call) for name, read in CALL.items()})


def of_attempt(call: EndedCall, attempt: EndedAttempt, target: Target | None) -> Attributes:
    found: dict[str, Attribute | None] = {"gen_ai.operation.name": operation_of(call.operation)}
    found |= {name: read(attempt) for name, read in ATTEMPT.items()}
    if target is not None:
        found |= {"server.address": target.address, "server.port": target.port}
    return _known(found)


def _known(found: Mapping[str, Attribute | None]) -> Attributes:
    """The attributes that have a value; texts of a sane length."""
    return {n: v[:LONGEST_NAME] if isinstance(v, str) else v for n, v in found.items() if v is not None}

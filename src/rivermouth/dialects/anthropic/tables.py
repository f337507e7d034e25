"""What the words of the protocol mean, as data.  Every table that maps from an enum is total; a test walks it."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from rivermouth.ir.errors import Kind
from rivermouth.ir.events import Reason

VERSION: Final = "2023-06-01"
DEFAULT_MAX_TOKENS: Final = 4096
MIN_BUDGET_TOKENS: Final = 1024

REASONS: Final[dict[str, Reason]] = {
    "end_turn": Reason.STOP,
    "stop_sequence": Reason.STOP,
    "pause_turn": Reason.STOP,
    "max_tokens": Reason.LENGTH,
    "model_context_window_exceeded": Reason.LENGTH,
    "tool_use": Reason.TOOL_CALLS,
    "refusal": Reason.CONTENT_FILTER,
}
STOP_REASONS: Final[dict[Reason, str]] = {
    Reason.STOP: "end_turn",
    Reason.LENGTH: "max_tokens",
    Reason.TOOL_CALLS: "tool_use",
    Reason.CONTENT_FILTER: "refusal",
}


class Wording(msgspec.Struct, frozen=True):
    """How an error kind is said here: its HTTP status and its `error.type`."""

    status: int
    type: str


WORDINGS: Final[dict[Kind, Wording]] = {
    Kind.INVALID_REQUEST: Wording(400, "invalid_request_error"),
    Kind.AUTHENTICATION: Wording(401, "authentication_error"),
    Kind.PERMISSION: Wording(403, "permission_error"),
    Kind.NOT_FOUND: Wording(404, "not_found_error"),
    Kind.TOO_LARGE: Wording(413, "request_too_large"),
    Kind.RATE_LIMITED: Wording(429, "rate_limit_error"),
    Kind.OVERLOADED: Wording(529, "overloaded_error"),
    Kind.TIMEOUT: Wording(504, "timeout_error"),
    Kind.NETWORK: Wording(502, "api_error"),
    Kind.UPSTREAM: Wording(502, "api_error"),
    Kind.TRUNCATED: Wording(502, "api_error"),
    Kind.CONTENT_FILTERED: Wording(400, "invalid_request_error"),
    Kind.CANCELLED: Wording(499, "api_error"),
    Kind.INTERNAL: Wording(500, "api_error"),
}
PASSING: Final = frozenset({"rate_limit_error", "overloaded_error"})
"""The types that say by themselves that the same call may succeed later."""
TRY_AGAIN: Final = "try again later"
QUOTA: Final = "insufficient_quota"
BILLING: Final = Wording(402, "billing_error")
KINDS: Final[dict[str, Kind]] = {
    "invalid_request_error": Kind.INVALID_REQUEST,
    "authentication_error": Kind.AUTHENTICATION,
    "billing_error": Kind.RATE_LIMITED,
    "permission_error": Kind.PERMISSION,
    "not_found_error": Kind.NOT_FOUND,
    "request_too_large": Kind.TOO_LARGE,
    "rate_limit_error": Kind.RATE_LIMITED,
    "overloaded_error": Kind.OVERLOADED,
    "timeout_error": Kind.TIMEOUT,
    "api_error": Kind.UPSTREAM,
    "conflict_error": Kind.INVALID_REQUEST,
    "memory_path_conflict_error": Kind.INVALID_REQUEST,
    "memory_precondition_failed_error": Kind.INVALID_REQUEST,
}
CONTEXT_TOO_LONG: Final = "context_length_exceeded"
PROMPT_TOO_LONG: Final = "prompt is too long"

IMAGE_TYPES: Final = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})

# Neutral effort -> (effort here, thinking budget where a model only knows budgets).
EFFORTS: Final[dict[str, tuple[str, int]]] = {
    "minimal": ("low", 1024),
    "low": ("low", 2048),
    "medium": ("medium", 8192),
    "high": ("high", 16384),
    "xhigh": ("xhigh", 24576),
    "max": ("max", 32000),
}
# Models that know `thinking: enabled` with a budget and neither `adaptive` nor `output_config.effort`.
BUDGET_ONLY: Final = re.compile(r"claude-(?:3|(?:opus|sonnet|haiku)-4(?:-[0-5])?(?:-\d{8})?(?:@|$|-latest$))")

# Request fields that the protocol cannot carry, or not always, as `build_request` names them.
LOSSES: Final = frozenset(
    {
        "context_tokens",
        "frequency_penalty",
        "keep_alive_s",
        "logit_bias",
        "logprobs",
        "messages.image",
        "messages.reasoning",
        "messages.tool_result",
        "metadata",
        "min_p",
        "presence_penalty",
        "raw",
        "repetition_penalty",
        "response_format",
        "seed",
        "stop",
        "temperature",
        "thinking",
        "thinking.budget_tokens",
        "thinking.effort",
        "top_k",
        "top_logprobs",
        "top_p",
    }
)


def reason_of(stop_reason: str, *, called: bool) -> Reason:
    """Why the model stopped; whether there were calls is seen, not believed (F24)."""
    reason = REASONS.get(stop_reason, Reason.STOP)
    if called and reason is Reason.STOP:
        return Reason.TOOL_CALLS
    if reason is Reason.TOOL_CALLS and not called:
        return Reason.STOP
    return reason


def stop_reason_of(reason: Reason, stop_sequence: str | None, *, called: bool, refused: bool) -> str:
    """The `stop_reason` word.  A plain stop is named after what was emitted."""
    if reason is not Reason.STOP:
        return STOP_REASONS[reason]
    if called:
        return STOP_REASONS[Reason.TOOL_CALLS]
    if refused:
        return STOP_REASONS[Reason.CONTENT_FILTER]
    return STOP_REASONS[Reason.STOP] if stop_sequence is None else "stop_sequence"

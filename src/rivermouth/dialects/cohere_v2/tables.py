"""The words of Cohere's v2 protocol beside ours.  Every table that maps from an enum is total; a test walks it."""

from __future__ import annotations

from typing import Final

from rivermouth.ir.errors import Kind
from rivermouth.ir.events import Reason
from rivermouth.ir.request import Choose, Role

NAME: Final = "cohere_v2"

ROLES: Final[dict[str, Role]] = {r.value: r for r in Role}

STOP_SEQUENCE: Final = "STOP_SEQUENCE"
REASONS: Final[dict[str, Reason]] = {
    "COMPLETE": Reason.STOP,
    STOP_SEQUENCE: Reason.STOP,
    "MAX_TOKENS": Reason.LENGTH,
    "TOOL_CALL": Reason.TOOL_CALLS,
}
ERROR: Final = "ERROR"

# Finish reasons that are failures (F11).
FAILED: Final[dict[str, Kind]] = {ERROR: Kind.UPSTREAM, "TIMEOUT": Kind.TIMEOUT}

FINISH_REASONS: Final[dict[Reason, str]] = {
    Reason.STOP: "COMPLETE",
    Reason.LENGTH: "MAX_TOKENS",
    Reason.TOOL_CALLS: "TOOL_CALL",
    Reason.CONTENT_FILTER: ERROR,
}
# The protocol has no word for an answer that a filter stopped: it is an ERROR with these words.
FILTERED: Final = "content_filter: the answer was stopped by a content filter"

# How a choice of tools is said; None: by leaving it out.  A named tool can only be forced when it is the only one.
CHOICES: Final[dict[Choose, str | None]] = {
    Choose.AUTO: None,
    Choose.NONE: "NONE",
    Choose.REQUIRED: "REQUIRED",
    Choose.NAMED: "REQUIRED",
}

# What a request may hold and this wire cannot carry, or not always, as `build_request` names it.
LOSSES: Final = frozenset(
    {
        "context_tokens",
        "frequency_penalty",
        "keep_alive_s",
        "logit_bias",
        "logprobs",
        "max_tokens",
        "message.name",
        "messages.image",
        "messages.reasoning",
        "messages.tool_result",
        "metadata",
        "min_p",
        "parallel_tools",
        "presence_penalty",
        "raw",
        "repetition_penalty",
        "seed",
        "thinking.effort",
        "tool.strict",
        "top_k",
        "top_logprobs",
        "top_p",
        "user",
    }
)


def reason_of(word: str, *, called: bool) -> Reason:
    """Why the model stopped; whether there were calls is seen, not believed (F24)."""
    reason = REASONS.get(word, Reason.STOP)
    if reason is Reason.LENGTH:
        return reason
    return Reason.TOOL_CALLS if called else Reason.STOP


def finish_reason_of(reason: Reason, stop_sequence: str | None, *, called: bool) -> str:
    """The `finish_reason` word.  A plain stop is named after what was emitted."""
    if reason is Reason.STOP and called:
        reason = Reason.TOOL_CALLS
    if reason is Reason.STOP and stop_sequence is not None:
        return STOP_SEQUENCE
    return FINISH_REASONS[reason]

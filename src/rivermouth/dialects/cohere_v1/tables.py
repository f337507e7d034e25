"""The words of Cohere's v1 protocol beside ours.  Every table that maps from an enum is total; a test walks it."""

from __future__ import annotations

from typing import Final

from rivermouth.ir.errors import Kind
from rivermouth.ir.events import Reason
from rivermouth.ir.request import Role

NAME: Final = "cohere_v1"

# Who answers where the client names no model (R15).
DEFAULT_MODEL: Final = "dummy"

ROLES: Final[dict[str, Role]] = {
    "USER": Role.USER,
    "CHATBOT": Role.ASSISTANT,
    "SYSTEM": Role.SYSTEM,
    "TOOL": Role.TOOL,
}
WIRE_ROLES: Final[dict[Role, str]] = {role: word for word, role in ROLES.items()}

STOP_SEQUENCE: Final = "STOP_SEQUENCE"
REASONS: Final[dict[str, Reason]] = {
    "COMPLETE": Reason.STOP,
    STOP_SEQUENCE: Reason.STOP,
    "MAX_TOKENS": Reason.LENGTH,
    "ERROR_LIMIT": Reason.LENGTH,
    "ERROR_TOXIC": Reason.CONTENT_FILTER,
}
ERROR: Final = "ERROR"

# Finish reasons that are failures (F11).
FAILED: Final[dict[str, Kind]] = {
    ERROR: Kind.UPSTREAM,
    "TIMEOUT": Kind.TIMEOUT,
    "USER_CANCEL": Kind.CANCELLED,
}

FINISH_REASONS: Final[dict[Reason, str]] = {
    Reason.STOP: "COMPLETE",
    Reason.LENGTH: "MAX_TOKENS",
    Reason.TOOL_CALLS: "COMPLETE",
    Reason.CONTENT_FILTER: "ERROR_TOXIC",
}

# What a request may hold and this wire cannot carry, or not always, as `build_request` names it.
LOSSES: Final = frozenset(
    {
        "context_tokens",
        "dimensions",
        "frequency_penalty",
        "keep_alive_s",
        "logit_bias",
        "logprobs",
        "max_tokens",
        "message.name",
        "messages.image",
        "messages.reasoning",
        "messages.system",
        "messages.tool_result",
        "metadata",
        "min_p",
        "parallel_tools",
        "presence_penalty",
        "repetition_penalty",
        "seed",
        "thinking",
        "tool.parameters",
        "tool.strict",
        "top_k",
        "top_logprobs",
        "top_p",
        "user",
    }
)


def reason_of(word: str, *, called: bool) -> Reason:
    """Why the model stopped; the protocol has no word for calls, so they are seen (F24)."""
    reason = REASONS.get(word, Reason.STOP)
    return Reason.TOOL_CALLS if called and reason is Reason.STOP else reason

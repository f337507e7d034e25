"""What maps to what, as data.  Tables towards the wire are total over their enum; tables from the wire are open."""

from __future__ import annotations

from typing import Final

from rivermouth.ir.errors import Kind
from rivermouth.ir.events import Reason
from rivermouth.ir.request import Choose, Format, Role, Sampling
from rivermouth.vendors.openai.bodies import Ranges

NAME: Final = "openai_responses"
PATH: Final = "/responses"
COUNT_PATH: Final = "/responses/input_tokens"

# How a response that ended by itself ends, and why it is incomplete where it is.
STATUSES: Final[dict[Reason, str]] = {
    Reason.STOP: "completed",
    Reason.TOOL_CALLS: "completed",
    Reason.LENGTH: "incomplete",
    Reason.CONTENT_FILTER: "incomplete",
}
WHY: Final[dict[Reason, str | None]] = {
    Reason.STOP: None,
    Reason.TOOL_CALLS: None,
    Reason.LENGTH: "max_output_tokens",
    Reason.CONTENT_FILTER: "content_filter",
}
INCOMPLETE_IN: Final[dict[str, Reason]] = {why: reason for reason, why in WHY.items() if why is not None}

# `error.code` of a response that failed.  Agents retry on server_error and give up on invalid_prompt.
FAILED_CODES: Final[dict[Kind, str]] = {
    Kind.INVALID_REQUEST: "invalid_prompt",
    Kind.AUTHENTICATION: "server_error",
    Kind.PERMISSION: "invalid_prompt",
    Kind.NOT_FOUND: "invalid_prompt",
    Kind.TOO_LARGE: "invalid_prompt",
    Kind.RATE_LIMITED: "rate_limit_exceeded",
    Kind.OVERLOADED: "server_is_overloaded",
    Kind.TIMEOUT: "server_error",
    Kind.NETWORK: "server_error",
    Kind.UPSTREAM: "server_error",
    Kind.TRUNCATED: "server_error",
    Kind.CONTENT_FILTERED: "invalid_prompt",
    Kind.CANCELLED: "server_error",
    Kind.INTERNAL: "server_error",
}
# Codes that clients of this protocol act on, whatever the kind.
TOLD_CODES: Final = frozenset({"context_length_exceeded", "insufficient_quota", "slow_down", *FAILED_CODES.values()})
# Those that the vendor uses nowhere else.
FAILED_IN: Final[dict[str, Kind]] = {
    "invalid_prompt": Kind.INVALID_REQUEST,
    "slow_down": Kind.OVERLOADED,
}

ROLES_IN: Final[dict[str, Role]] = {
    "user": Role.USER,
    "assistant": Role.ASSISTANT,
    "system": Role.SYSTEM,
    "developer": Role.SYSTEM,
}
CHOOSE_IN: Final[dict[str, Choose]] = {
    "auto": Choose.AUTO,
    "none": Choose.NONE,
    "required": Choose.REQUIRED,
}
FORMAT_IN: Final[dict[str, Format]] = {
    "text": Format.TEXT,
    "json_object": Format.JSON,
    "json_schema": Format.JSON_SCHEMA,
}
FORMAT_OUT: Final[dict[Format, str]] = {kind: word for word, kind in FORMAT_IN.items()}

# field -> (least, greatest) that the vendor's API takes; None is no bound.
RANGES: Final[Ranges] = {
    "max_output_tokens": (1, None),
    "temperature": (0, 2),
    "top_p": (0, 1),
    "top_logprobs": (0, 20),
}

ENCRYPTED: Final = "reasoning.encrypted_content"
LOGPROBS: Final = "message.output_text.logprobs"

SAMPLING: Final = ("temperature", "top_p", "logprobs", "top_logprobs")

# What this dialect cannot carry, in the words of the neutral model.
LOSSES: Final = frozenset(
    {
        *(name for name in Sampling.__struct_fields__ if name not in SAMPLING),
        "stop",
        "thinking.budget_tokens",
        "keep_alive_s",
        "context_tokens",
        "raw",
        "message.name",
        "max_tokens",
        "messages.image",
        "messages.reasoning",
        "messages.tool_result",
    }
)

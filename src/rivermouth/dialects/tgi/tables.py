"""What the words of the protocol mean, as data.  Every table that maps from an enum is total; a test walks it."""

from __future__ import annotations

from typing import Final, NamedTuple

from rivermouth.ir.errors import Kind
from rivermouth.ir.events import Reason

NAME: Final = "tgi"
DEFAULT_MODEL: Final = "tgi"
"""What is asked for where the protocol names no model; the catalogue knows it as the default model (R15)."""

# The kinds of routes.
CHAT: Final = "chat"
COMPAT: Final = "compat"
GENERATE: Final = "generate"
GENERATE_STREAM: Final = "generate_stream"

FINISH_OUT: Final[dict[Reason, str]] = {
    Reason.STOP: "eos_token",
    Reason.LENGTH: "length",
    Reason.TOOL_CALLS: "eos_token",
    Reason.CONTENT_FILTER: "eos_token",
}
STOP_SEQUENCE: Final = "stop_sequence"
FINISH_IN: Final[dict[str, Reason]] = {
    "eos_token": Reason.STOP,
    STOP_SEQUENCE: Reason.STOP,
    "length": Reason.LENGTH,
}


class Wording(NamedTuple):
    """How an error kind is said here: its HTTP status and its `error_type`, which chooses the client's exception."""

    status: int
    type: str


WORDINGS: Final[dict[Kind, Wording]] = {
    Kind.INVALID_REQUEST: Wording(422, "validation"),
    Kind.AUTHENTICATION: Wording(401, "authentication"),
    Kind.PERMISSION: Wording(403, "permission"),
    Kind.NOT_FOUND: Wording(404, "not_found"),
    Kind.TOO_LARGE: Wording(413, "validation"),
    Kind.RATE_LIMITED: Wording(429, "overloaded"),
    Kind.OVERLOADED: Wording(503, "overloaded"),
    Kind.TIMEOUT: Wording(504, "generation"),
    Kind.NETWORK: Wording(502, "generation"),
    Kind.UPSTREAM: Wording(424, "generation"),
    Kind.TRUNCATED: Wording(500, "incomplete_generation"),
    Kind.CONTENT_FILTERED: Wording(422, "validation"),
    Kind.CANCELLED: Wording(499, "generation"),
    Kind.INTERNAL: Wording(500, "generation"),
}
KINDS: Final[dict[str, Kind]] = {
    "validation": Kind.INVALID_REQUEST,
    "template_error": Kind.INVALID_REQUEST,
    "tool_error": Kind.INVALID_REQUEST,
    "authentication": Kind.AUTHENTICATION,
    "permission": Kind.PERMISSION,
    "not_found": Kind.NOT_FOUND,
    "overloaded": Kind.OVERLOADED,
    "healthcheck": Kind.OVERLOADED,
    "generation": Kind.UPSTREAM,
    "incomplete_generation": Kind.TRUNCATED,
}

# Parameters of the native routes without which the answer would be another one; others that have no neutral form are
# losses elsewhere.
UNTRANSLATABLE: Final = frozenset({"adapter_id"})

# What a server of this protocol goes without, as `build_request` names it.
LOSSES: Final = frozenset(
    {
        "context_tokens",
        "frequency_penalty",
        "keep_alive_s",
        "logit_bias",
        "logprobs",
        "max_tokens",
        "messages.image",
        "messages.reasoning",
        "messages.tool_result",
        "metadata",
        "min_p",
        "parallel_tools",
        "presence_penalty",
        "raw",
        "repetition_penalty",
        "temperature",
        "thinking",
        "thinking.budget_tokens",
        "top_k",
        "top_logprobs",
        "top_p",
        "user",
    }
)

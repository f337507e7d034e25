"""What the words of the protocol mean, as data.  Every table that maps from an enum is total; a test walks it."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from rivermouth.ir.errors import Kind
from rivermouth.ir.events import Reason
from rivermouth.ir.request import Choose

NAME: Final = "gemini"

FINISH_OUT: Final[dict[Reason, str]] = {
    Reason.STOP: "STOP",
    Reason.LENGTH: "MAX_TOKENS",
    Reason.TOOL_CALLS: "STOP",
    Reason.CONTENT_FILTER: "SAFETY",
}
UNSAID: Final = "FINISH_REASON_UNSPECIFIED"  # the default value of the enum: nothing was said
FINISH_IN: Final[dict[str, Reason]] = {
    "STOP": Reason.STOP,
    "MAX_TOKENS": Reason.LENGTH,
    "CONTINUATION": Reason.LENGTH,
    "SAFETY": Reason.CONTENT_FILTER,
    "RECITATION": Reason.CONTENT_FILTER,
    "LANGUAGE": Reason.CONTENT_FILTER,
    "BLOCKLIST": Reason.CONTENT_FILTER,
    "PROHIBITED_CONTENT": Reason.CONTENT_FILTER,
    "SPII": Reason.CONTENT_FILTER,
    "IMAGE_SAFETY": Reason.CONTENT_FILTER,
    "IMAGE_PROHIBITED_CONTENT": Reason.CONTENT_FILTER,
    "IMAGE_RECITATION": Reason.CONTENT_FILTER,
    "ESCALATION": Reason.CONTENT_FILTER,
    "MODEL_ARMOR": Reason.CONTENT_FILTER,
}
# Ends that are no answer: the model broke off, or what it wrote was thrown away.
FINISH_FAILED: Final[dict[str, str]] = {
    "OTHER": "the model broke off without saying why",
    "MALFORMED_FUNCTION_CALL": "the model wrote a tool call that is not valid",
    "MALFORMED_RESPONSE": "the model wrote an answer that is not valid",
    "UNEXPECTED_TOOL_CALL": "the model called a tool that it was not given",
    "TOO_MANY_TOOL_CALLS": "the model called too many tools in a row",
    "MISSING_THOUGHT_SIGNATURE": "the talk lacks a thought signature",
    "IMAGE_OTHER": "the model broke off making an image",
    "NO_IMAGE": "the model made no image",
    "PUP_LIMITED_DISABLED": "the account is limited or disabled",
}


class Wording(msgspec.Struct, frozen=True):
    """How an error kind is said here: `error.code`, which is the HTTP status, and `error.status`."""

    code: int
    status: str


WORDINGS: Final[dict[Kind, Wording]] = {
    Kind.INVALID_REQUEST: Wording(400, "INVALID_ARGUMENT"),
    Kind.AUTHENTICATION: Wording(401, "UNAUTHENTICATED"),
    Kind.PERMISSION: Wording(403, "PERMISSION_DENIED"),
    Kind.NOT_FOUND: Wording(404, "NOT_FOUND"),
    Kind.TOO_LARGE: Wording(413, "INVALID_ARGUMENT"),
    Kind.RATE_LIMITED: Wording(429, "RESOURCE_EXHAUSTED"),
    Kind.OVERLOADED: Wording(503, "UNAVAILABLE"),
    Kind.TIMEOUT: Wording(504, "DEADLINE_EXCEEDED"),
    Kind.NETWORK: Wording(502, "UNAVAILABLE"),
    Kind.UPSTREAM: Wording(502, "INTERNAL"),
    Kind.TRUNCATED: Wording(502, "DATA_LOSS"),
    Kind.CONTENT_FILTERED: Wording(400, "INVALID_ARGUMENT"),
    Kind.CANCELLED: Wording(499, "CANCELLED"),
    Kind.INTERNAL: Wording(500, "INTERNAL"),
}
KINDS: Final[dict[str, Kind]] = {
    "INVALID_ARGUMENT": Kind.INVALID_REQUEST,
    "FAILED_PRECONDITION": Kind.INVALID_REQUEST,
    "OUT_OF_RANGE": Kind.INVALID_REQUEST,
    "ALREADY_EXISTS": Kind.INVALID_REQUEST,
    "UNAUTHENTICATED": Kind.AUTHENTICATION,
    "PERMISSION_DENIED": Kind.PERMISSION,
    "NOT_FOUND": Kind.NOT_FOUND,
    "UNIMPLEMENTED": Kind.NOT_FOUND,
    "RESOURCE_EXHAUSTED": Kind.RATE_LIMITED,
    "UNAVAILABLE": Kind.OVERLOADED,
    "DEADLINE_EXCEEDED": Kind.TIMEOUT,
    "CANCELLED": Kind.CANCELLED,
    "ABORTED": Kind.UPSTREAM,
    "INTERNAL": Kind.UPSTREAM,
    "UNKNOWN": Kind.UPSTREAM,
    "DATA_LOSS": Kind.UPSTREAM,
}
BAD_KEY: Final = "API_KEY_INVALID"  # the reason under which a wrong key is a 400
FILTERED: Final = "CONTENT_FILTERED"
CONTEXT_TOO_LONG: Final = "context_length_exceeded"
TOO_MANY_TOKENS: Final = "exceeds the maximum number of tokens allowed"

# generationConfig member -> field of ir Sampling
SAMPLING: Final[dict[str, str]] = {
    "temperature": "temperature",
    "topP": "top_p",
    "topK": "top_k",
    "seed": "seed",
    "presencePenalty": "presence_penalty",
    "frequencyPenalty": "frequency_penalty",
    "responseLogprobs": "logprobs",
    "logprobs": "top_logprobs",
}
UNSAMPLED: Final = ("logit_bias", "min_p", "repetition_penalty")

MODES_IN: Final[dict[str, Choose]] = {
    "AUTO": Choose.AUTO,
    "VALIDATED": Choose.AUTO,
    "ANY": Choose.REQUIRED,
    "NONE": Choose.NONE,
}
MODES_OUT: Final[dict[Choose, str]] = {
    Choose.AUTO: "AUTO",
    Choose.NONE: "NONE",
    Choose.REQUIRED: "ANY",
    Choose.NAMED: "ANY",
}

# Neutral effort -> (thinkingLevel, thinkingBudget for models that only know budgets).
EFFORTS: Final[dict[str, tuple[str, int]]] = {
    "minimal": ("MINIMAL", 512),
    "low": ("LOW", 2048),
    "medium": ("MEDIUM", 8192),
    "high": ("HIGH", 24576),
    "xhigh": ("XHIGH", 32768),
    "max": ("XHIGH", 32768),
}
LEVELS: Final[dict[str, str]] = {level: effort for effort, (level, _) in EFFORTS.items() if effort != "max"}

# Models that know budgets and no levels, and ask for no thought signatures.
BUDGET_ONLY: Final = re.compile(r"(?:models/)?gemini-[12](?:\D|$)")
# Models that refuse a tool call of theirs without its thought signature, and cannot stop thinking.
SIGNED_CALLS: Final = re.compile(r"(?:models/)?gemini-(?:[3-9]|[1-9]\d)(?:\D|$)")

# Request fields that the protocol cannot carry, or not always, as `build_request` names them.
LOSSES: Final = frozenset(
    {
        "context_tokens",
        "file.name",
        "image.detail",
        "keep_alive_s",
        "logit_bias",
        "max_tokens",
        "message.name",
        "keep_end",
        "messages.reasoning",
        "messages.tool_result",
        "metadata",
        "min_p",
        "parallel_tools",
        "raw",
        "repetition_penalty",
        "thinking",
        "thinking.effort",
        "tool.strict",
        "truncate",
        "user",
    }
)


def reason_of(word: str, *, called: bool) -> Reason:
    """Why the model stopped; whether there were calls is seen, since the word does not tell (F24)."""
    reason = FINISH_IN.get(word, Reason.STOP)
    return Reason.TOOL_CALLS if called and reason is Reason.STOP else reason

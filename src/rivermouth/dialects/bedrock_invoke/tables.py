"""What the words of the protocol mean, as data.  Every table that maps from an enum is total; a test walks it."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from rivermouth.ir.errors import Kind
from rivermouth.ir.events import Reason

NAME: Final = "bedrock_invoke"

# The kinds of routes.
INVOKE: Final = "invoke"
INVOKE_STREAM: Final = "invoke_stream"
COUNT: Final = "count"
EMBED: Final = "embed"

# Titan's words for an end.  Streams are known to say FINISH where the documentation says FINISHED.
TITAN_OUT: Final[dict[Reason, str]] = {
    Reason.STOP: "FINISH",
    Reason.LENGTH: "LENGTH",
    Reason.TOOL_CALLS: "FINISH",
    Reason.CONTENT_FILTER: "CONTENT_FILTERED",
}
TITAN_STOP_SEQUENCE: Final = "STOP_CRITERIA_MET"
TITAN_IN: Final[dict[str, Reason]] = {
    "FINISH": Reason.STOP,
    "FINISHED": Reason.STOP,
    TITAN_STOP_SEQUENCE: Reason.STOP,
    "RAG_QUERY_WHEN_RAG_DISABLED": Reason.STOP,
    "LENGTH": Reason.LENGTH,
    "CONTENT_FILTERED": Reason.CONTENT_FILTER,
}


class Wording(NamedTuple):
    """How an error kind is said here.

    status, type: as an HTTP answer; the type chooses the exception of the client.  member: in a stream, where only the
    members of the stream's union exist; a client that gets another word has no code at all.
    """

    status: int
    type: str
    member: str


WORDINGS: Final[dict[Kind, Wording]] = {
    Kind.INVALID_REQUEST: Wording(400, "ValidationException", "validationException"),
    Kind.AUTHENTICATION: Wording(403, "UnrecognizedClientException", "validationException"),
    Kind.PERMISSION: Wording(403, "AccessDeniedException", "validationException"),
    Kind.NOT_FOUND: Wording(404, "ResourceNotFoundException", "validationException"),
    Kind.TOO_LARGE: Wording(413, "ValidationException", "validationException"),
    Kind.RATE_LIMITED: Wording(429, "ThrottlingException", "throttlingException"),
    Kind.OVERLOADED: Wording(503, "ServiceUnavailableException", "serviceUnavailableException"),
    Kind.TIMEOUT: Wording(408, "ModelTimeoutException", "modelTimeoutException"),
    Kind.NETWORK: Wording(424, "ModelErrorException", "modelStreamErrorException"),
    Kind.UPSTREAM: Wording(424, "ModelErrorException", "modelStreamErrorException"),
    Kind.TRUNCATED: Wording(424, "ModelStreamErrorException", "modelStreamErrorException"),
    Kind.CONTENT_FILTERED: Wording(400, "ValidationException", "validationException"),
    Kind.CANCELLED: Wording(499, "ModelErrorException", "modelStreamErrorException"),
    Kind.INTERNAL: Wording(500, "InternalServerException", "internalServerException"),
}
# Error types, and members of the stream's union (the same word, its first letter small).
KINDS: Final[dict[str, Kind]] = {
    "ValidationException": Kind.INVALID_REQUEST,
    "ConflictException": Kind.INVALID_REQUEST,
    "UnrecognizedClientException": Kind.AUTHENTICATION,
    "InvalidSignatureException": Kind.AUTHENTICATION,
    "IncompleteSignatureException": Kind.AUTHENTICATION,
    "MissingAuthenticationTokenException": Kind.AUTHENTICATION,
    "ExpiredTokenException": Kind.AUTHENTICATION,
    "AccessDeniedException": Kind.PERMISSION,
    "ResourceNotFoundException": Kind.NOT_FOUND,
    "ThrottlingException": Kind.RATE_LIMITED,
    "ServiceQuotaExceededException": Kind.RATE_LIMITED,
    "ModelNotReadyException": Kind.OVERLOADED,
    "ServiceUnavailableException": Kind.OVERLOADED,
    "ModelTimeoutException": Kind.TIMEOUT,
    "ModelErrorException": Kind.UPSTREAM,
    "ModelStreamErrorException": Kind.UPSTREAM,
    "InternalServerException": Kind.UPSTREAM,
    "InternalFailure": Kind.UPSTREAM,
}

# Model ids -> whose body they take.  An inference profile has a region before it; what names nobody is asked as the
# first of the table, which has the most to say.
ANTHROPIC: Final = "anthropic"
TITAN: Final = "titan"
MODELS: Final[tuple[tuple[re.Pattern[str], str | None], ...]] = (
    (re.compile(r"(?:^|[./])anthropic\.|claude"), ANTHROPIC),
    (re.compile(r"(?:^|[./])amazon\.titan|(?:^|[./])titan"), TITAN),
    (re.compile(r"(?:^|[./])(?:ai21|amazon|cohere|deepseek|google|luma|meta|minimax|mistral|moonshot|moonshotai|nvidia"
                r"|openai|qwen|stability|twelvelabs|writer|zai)\."), None),
)  # fmt: skip

# What the bodies cannot carry beyond the losses of the vendor's own dialect, as `build_request` names it.
TITAN_LOSSES: Final = frozenset(
    {
        "context_tokens",
        "frequency_penalty",
        "keep_alive_s",
        "logit_bias",
        "logprobs",
        "messages.reasoning",
        "metadata",
        "keep_end",
        "min_p",
        "presence_penalty",
        "raw",
        "repetition_penalty",
        "seed",
        "thinking",
        "top_k",
        "top_logprobs",
        "truncate",
        "user",
    }
)


def body_of_model(model: str) -> str | None:
    """Whose body the model takes; None for a vendor whose body is not spoken here."""
    for pattern, body in MODELS:
        if pattern.search(model):
            return body
    return ANTHROPIC

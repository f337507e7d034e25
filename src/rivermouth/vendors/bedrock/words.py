"""Kinds of errors in the words of Bedrock Runtime.  The table from the enum is total; a test walks it."""

from __future__ import annotations

from typing import Final, NamedTuple

from rivermouth.ir.errors import Kind


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

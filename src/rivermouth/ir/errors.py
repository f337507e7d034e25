"""What can go wrong with a call: a dozen kinds, each with the status it suggests and whether another try can help.

A dialect maps *kinds* to its own words, never messages.  The kind advises; the HTTP edge decides.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Any, Final

import msgspec


class Kind(StrEnum):
    """Why a call failed.  The values are the words in records, metrics and the CLI."""

    INVALID_REQUEST = "invalid_request"
    AUTHENTICATION = "authentication"
    PERMISSION = "permission"
    NOT_FOUND = "not_found"
    TOO_LARGE = "too_large"
    RATE_LIMITED = "rate_limited"
    OVERLOADED = "overloaded"
    TIMEOUT = "timeout"
    NETWORK = "network"
    UPSTREAM = "upstream"
    TRUNCATED = "truncated"
    CONTENT_FILTERED = "content_filtered"
    CANCELLED = "cancelled"
    INTERNAL = "internal"


class Advice(msgspec.Struct, frozen=True):
    """What follows from a kind: the HTTP status it suggests, and whether trying again (or elsewhere) can help."""

    status: int
    retryable: bool


ADVICE: Final[dict[Kind, Advice]] = {
    Kind.INVALID_REQUEST: Advice(400, retryable=False),
    Kind.AUTHENTICATION: Advice(401, retryable=False),
    Kind.PERMISSION: Advice(403, retryable=False),
    Kind.NOT_FOUND: Advice(404, retryable=False),
    Kind.TOO_LARGE: Advice(413, retryable=False),
    Kind.RATE_LIMITED: Advice(429, retryable=True),
    Kind.OVERLOADED: Advice(503, retryable=True),
    Kind.TIMEOUT: Advice(504, retryable=True),
    Kind.NETWORK: Advice(502, retryable=True),
    Kind.UPSTREAM: Advice(502, retryable=True),
    Kind.TRUNCATED: Advice(502, retryable=True),
    Kind.CONTENT_FILTERED: Advice(400, retryable=False),
    Kind.CANCELLED: Advice(499, retryable=False),
    Kind.INTERNAL: Advice(500, retryable=False),
}


_FIELDS: Final = ("kind", "message", "param", "code", "retry_after_s", "status", "provider", "clock", "foreign")
_MACHINES_WORD: Final = re.compile(r"[A-Za-z0-9_.:/-]{1,64}")
_FIELD: Final = re.compile(r"([A-Za-z_]{1,32})(?:[.\[]|$)")
"""The field of a request's body at the beginning of a path."""


class WireError(Exception):
    """Bytes that are not what the protocol promises.  Raised by `wire` and by decoders, renamed by the pump.

    frames: of a reader, what was whole before them, so that what is lost does not depend on how the bytes arrived.
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(message)
        self.frames: list[Any] = []


class ApiError(Exception):
    """One failure, in neutral words.

    kind: why.  message: one sentence for a person, with no secret in it.
    param: the request field at fault, as the client named it.  code: a machine's word, finer than the kind.
    retry_after_s: seconds until a new try makes sense.  status: overrides the kind's own (405, 421 ...).
    provider: who failed, if not this server.  clock: which clock ran out, for `Kind.TIMEOUT`.
    foreign: message and code are somebody else's words, which may quote what was said; a client gets them, and a record
    has them only where it may have texts.
    """

    def __init__(
        self,
        kind: Kind,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        retry_after_s: float | None = None,
        status: int | None = None,
        provider: str | None = None,
        clock: str | None = None,
        foreign: bool = False,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.param = param
        self.code = code
        self.retry_after_s = retry_after_s
        self.status = status if status is not None else ADVICE[kind].status
        self.provider = provider
        self.clock = clock
        self.foreign = foreign

    @property
    def retryable(self) -> bool:
        """True when the same call may succeed later or at another endpoint."""
        return ADVICE[self.kind].retryable

    @property
    def quoting(self) -> bool:
        """The message may quote what was said: somebody else's may, and so may one about what the client wants."""
        return self.foreign or self.kind is Kind.INVALID_REQUEST

    @property
    def own_words(self) -> str:
        """The message, or what stands for one that may quote: who failed, and the machine's word for it."""
        if not self.quoting:
            return self.message
        if self.code is not None and _MACHINES_WORD.fullmatch(self.code):
            word = self.code
        else:
            field = _FIELD.match(self.param or "") if not self.foreign else None
            word = field[1] if field is not None else self.kind.value
        return f"{self.provider or 'the provider'}: {word}" if self.foreign else f"refused here: {word}"

    def replace(self, **changes: Any) -> ApiError:
        """The same failure with other values in these fields."""
        return ApiError(**{**{name: getattr(self, name) for name in _FIELDS}, **changes})

    def status_for(self, usual: int) -> int:
        """The HTTP status in a dialect whose own for the kind is `usual`; one that overrides the kind's is kept."""
        return usual if self.status == ADVICE[self.kind].status else self.status

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ApiError) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"ApiError({self.kind.value!r}, {self.message!r}, param={self.param!r}, code={self.code!r})"

    def _key(self) -> tuple[object, ...]:
        return (self.kind, self.message, self.param, self.code, self.retry_after_s, self.status)


def invalid(message: str, param: str | None = None, code: str | None = None) -> ApiError:
    """The client sent something that cannot be served; `param` names the field."""
    return ApiError(Kind.INVALID_REQUEST, message, param=param, code=code)


def truncated(who: str, after: str | None = None) -> ApiError:
    """The upstream's stream ended without its own terminal event."""
    where = f" after {after}" if after else ""
    return ApiError(Kind.TRUNCATED, f"{who}: the stream ended before it was complete{where}", provider=who)


STATUS_KINDS: Final[dict[int, Kind]] = {
    400: Kind.INVALID_REQUEST,
    401: Kind.AUTHENTICATION,
    402: Kind.RATE_LIMITED,
    403: Kind.PERMISSION,
    404: Kind.NOT_FOUND,
    408: Kind.TIMEOUT,
    413: Kind.TOO_LARGE,
    422: Kind.INVALID_REQUEST,
    429: Kind.RATE_LIMITED,
    499: Kind.CANCELLED,
    503: Kind.OVERLOADED,
    504: Kind.TIMEOUT,
    529: Kind.OVERLOADED,
}


def kind_of_status(status: int) -> Kind:
    """The kind an upstream's HTTP status means when its body says nothing better."""
    known = STATUS_KINDS.get(status)
    if known is not None:
        return known
    return Kind.INVALID_REQUEST if 400 <= status < 500 else Kind.UPSTREAM

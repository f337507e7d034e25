"""What a store of call records must do, and the values it keeps.

One row for each call, one line for each attempt (F30).  A row is opened before the first byte of the answer and ended
exactly once: by `close`, or, when its server died, by `interrupt_open`.  All methods are synchronous and may block:
the write methods are called from one thread, the read methods from any; never from the event loop (F34).
Adapters rename their engine's exceptions to `StoreError`; the contract suite in tests/store runs over every adapter.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, Protocol

import msgspec

from rivermouth.ir.errors import Kind

LONGEST_MESSAGE: Final = 500
NANO: Final = 1_000_000_000
"""Money is kept in whole billionths of a unit of its currency, so that sums are exact."""


class Status(StrEnum):
    """How a call stands.  OPEN is the only one that changes."""

    OPEN = "open"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"


class Outcome(StrEnum):
    """How one attempt ended; SKIPPED never began (an open breaker, a policy)."""

    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"
    SKIPPED = "skipped"


class AttemptRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One try at one candidate, with what it really produced.  Times are nanoseconds since the call's start.

    number: from 1, in the order tried.  None is "not known", never 0 (F29).
    estimated: the tokens were counted here, not by the provider.  price_nano: billionths of a unit of the currency.
    """

    number: int
    endpoint_id: str
    provider: str
    model: str
    outcome: Outcome
    started_ns: int = 0
    ended_ns: int | None = None
    kind: Kind | None = None
    status_code: int | None = None
    message: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    text_chars: int | None = None
    estimated: bool = False
    price_nano: int | None = None
    price_currency: str | None = None


class Decision(msgspec.Struct, frozen=True):
    """Whether a candidate might be tried, and why or why not."""

    candidate: str
    why: str
    allowed: bool = True


class CallRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What happened in one call.  Holds no prompt and no answer.

    started_ns: Unix nanoseconds; `first_token_ns` and `ended_ns` are durations since then.
    surface: the prefix the client came by.  client_request_id: the client's own X-Request-ID.
    estimated: the tokens were counted here, not by the model.  at_least: more may have been produced than is counted.
    held_by_keepalive: a keep-alive committed the 200 before anything was known of the answer (F37).
    ignored: request fields that the target could not carry (R30).
    model_version, region, sovereignty, retention: what was known of the endpoint that served, when it did.
    policy_id: the policies that held, joined by "+".
    price_nano: billionths of a unit of the currency, all attempts together; it is `price_estimated` where some of
    their tokens were.
    end_user: whom the client said that it asks for, as a pseudonym.  erased: what led to a person has been taken out.
    """

    id: str
    started_ns: int
    operation: str
    dialect: str
    surface: str
    model_asked: str
    stream: bool = False
    client_request_id: str | None = None
    key_name: str | None = None
    end_user: str | None = None
    erased: bool = False

    status: Status = Status.OPEN
    kind: Kind | None = None
    message: str | None = None
    cancelled_by: str | None = None

    endpoint_id: str | None = None
    provider: str | None = None
    model_used: str | None = None
    model_version: str | None = None
    region: str | None = None
    sovereignty: str | None = None
    retention: str | None = None
    policy_id: str | None = None
    finish_reason: str | None = None

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    estimated: bool = False
    at_least: bool = False
    text_chars: int = 0
    chunks: int = 0

    first_token_ns: int | None = None
    ended_ns: int | None = None
    held_by_keepalive: bool = False

    price_nano: int | None = None
    price_currency: str | None = None
    price_estimated: bool = False

    decisions: tuple[Decision, ...] = ()
    ignored: tuple[str, ...] = ()
    attempts: tuple[AttemptRecord, ...] = ()

    @property
    def price_amount(self) -> float | None:
        """In units of the currency."""
        return amount(self.price_nano)


class Said(msgspec.Struct, frozen=True):
    """One message of a prompt, as text."""

    role: str
    text: str


class Quoted(msgspec.Struct, frozen=True):
    """Why an attempt failed, in words that may quote the prompt."""

    attempt: int
    message: str


class CallText(msgspec.Struct, frozen=True):
    """What was said in one call, where that is kept.  cut: some of it is not here, being too long."""

    call_id: str
    started_ns: int
    prompt: tuple[Said, ...]
    answer: str
    cut: bool = False
    errors: tuple[Quoted, ...] = ()


class Checkpoint(msgspec.Struct, frozen=True):
    """What a running call has produced so far; `attempt` is the one that runs, once it is known.

    estimated: `output_tokens` was counted here and not by the model.
    The attempt's line is written at once, as INTERRUPTED: true unless `close` says otherwise.
    """

    call_id: str
    output_tokens: int | None
    text_chars: int
    estimated: bool = True
    attempt: AttemptRecord | None = None


class CallFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which calls to list: those that match every field that is set.  `model` is the one asked for or the one used.

    policy: one of those that held.  since_ns: started then or later; until_ns: started before.  Unix nanoseconds.
    """

    status: Status | None = None
    kind: Kind | None = None
    model: str | None = None
    provider: str | None = None
    endpoint_id: str | None = None
    policy: str | None = None
    key_name: str | None = None
    end_user: str | None = None
    since_ns: int | None = None
    until_ns: int | None = None


class UsageRow(msgspec.Struct, frozen=True, kw_only=True):
    """Sums over the calls of one model, status and currency.

    model: "provider/model" as used, or the name asked for where nobody was asked.  Sums are over the known values;
    `estimated` and `at_least` say how many of the calls carry such a number.
    """

    model: str
    status: Status
    currency: str | None
    calls: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    reasoning_tokens: int
    price_nano: int
    estimated: int
    at_least: int

    @property
    def price_amount(self) -> float | None:
        """In units of the currency; None where no call had a price."""
        return amount(self.price_nano) if self.currency is not None else None


def amount(nano: int | None) -> float | None:
    """Billionths as units."""
    return nano / NANO if nano is not None else None


class StoreError(Exception):
    """The store could not do it.  `passing`: the same write may succeed later (locked, full, I/O error)."""

    def __init__(self, message: str, *, passing: bool = False) -> None:
        super().__init__(message)
        self.passing = passing


class CallStore(Protocol):
    """The port.  Each write method is one transaction: all of its rows or none."""

    def insert_open(self, rows: Sequence[CallRecord]) -> None:
        """New open rows, committed when this returns.  An id that exists already is left as it is."""
        ...

    def checkpoint(self, rows: Sequence[Checkpoint]) -> None:
        """Progress of open rows; a row that is not open is left as it is."""
        ...

    def close(self, rows: Sequence[CallRecord]) -> int:
        """The final rows with their attempts; the number that were ended by this.

        A call that was ended before keeps its first end; one that was never opened is inserted ended.
        """
        ...

    def write(
        self,
        opens: Sequence[CallRecord],
        marks: Sequence[Checkpoint],
        closes: Sequence[CallRecord],
        texts: Sequence[CallText] = (),
    ) -> int:
        """`insert_open`, `checkpoint` and `close` in one transaction, with the texts of calls; the number ended.

        The first text of a call is kept, and none of one that is not there.
        """
        ...

    def interrupt_open(self) -> int:
        """Ends every open row as INTERRUPTED, counting what its last checkpoint shows (`at_least`); how many.

        One whose end was noted with its kept answer ends as that says, and is not counted.
        Only for the one server that holds the data directory, before it takes its first call.
        """
        ...

    def get(self, call_id: str) -> CallRecord | None:
        """The call with its attempts."""
        ...

    def list(self, limit: int, where: CallFilter = ...) -> Sequence[CallRecord]:
        """At most `limit` calls with their attempts, newest first."""
        ...

    def usage(self, since_ns: int | None = None, until_ns: int | None = None) -> Sequence[UsageRow]:
        """Sums by model, status and currency of the calls that started in [since, until)."""
        ...

    def dispose(self) -> None:
        """Release connections.  Idempotent."""
        ...

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
    output_tokens: int | None = None
    text_chars: int | None = None


class Decision(msgspec.Struct, frozen=True):
    """Why a candidate was taken, or was not."""

    candidate: str
    why: str


class CallRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What happened in one call.  Holds no prompt and no answer.

    started_ns: Unix nanoseconds; `first_token_ns` and `ended_ns` are durations since then.
    surface: the prefix the client came by.  client_request_id: the client's own X-Request-ID.
    estimated: the tokens were counted here, not by the model.  at_least: more may have been produced than is counted.
    held_by_keepalive: a keep-alive committed the 200 before anything was known of the answer (F37).
    ignored: request fields that the target could not carry (R30).
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

    status: Status = Status.OPEN
    kind: Kind | None = None
    message: str | None = None
    cancelled_by: str | None = None

    endpoint_id: str | None = None
    provider: str | None = None
    model_used: str | None = None
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

    price_amount: float | None = None
    price_currency: str | None = None

    decisions: tuple[Decision, ...] = ()
    ignored: tuple[str, ...] = ()
    attempts: tuple[AttemptRecord, ...] = ()


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

    since_ns: started then or later; until_ns: started before.  Unix nanoseconds.
    """

    status: Status | None = None
    model: str | None = None
    provider: str | None = None
    key_name: str | None = None
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
    price_amount: float
    estimated: int
    at_least: int


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

    def write(self, opens: Sequence[CallRecord], marks: Sequence[Checkpoint], closes: Sequence[CallRecord]) -> int:
        """`insert_open`, `checkpoint` and `close` in one transaction; the number of calls ended."""
        ...

    def interrupt_open(self) -> int:
        """Ends every open row as INTERRUPTED, counting what its last checkpoint shows (`at_least`); how many.

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

"""What happened in one call so far: the running form of its record.

The record in the store is a value; this is the only place that changes while a call runs, and `closed` turns it into
the final value.  One line for each attempt, each with what it really produced (F30).
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from rivermouth.engine.interrupt import By
from rivermouth.engine.tally import Tally
from rivermouth.ir.errors import ApiError
from rivermouth.ir.events import Usage
from rivermouth.routing.endpoint import Endpoint, Plan, cost
from rivermouth.store.port import LONGEST_MESSAGE, AttemptRecord, CallRecord, Checkpoint, Decision, Outcome, Status


class Line:
    """One attempt while it runs."""

    __slots__ = ("endpoint", "number", "started_ns", "tally")

    def __init__(self, number: int, endpoint: Endpoint, started_ns: int) -> None:
        self.number = number
        self.endpoint = endpoint
        self.started_ns = started_ns
        self.tally = Tally()

    def record(self, outcome: Outcome, ended_ns: int | None, error: ApiError | None = None) -> AttemptRecord:
        """The line as a value."""
        usage = self.usage()
        return AttemptRecord(
            number=self.number,
            endpoint_id=self.endpoint.id,
            provider=self.endpoint.provider,
            model=self.endpoint.model,
            outcome=outcome,
            started_ns=self.started_ns,
            ended_ns=ended_ns,
            kind=error.kind if error is not None else None,
            status_code=error.status if error is not None else None,
            message=error.message[:LONGEST_MESSAGE] if error is not None else None,
            output_tokens=usage.output_tokens,
            text_chars=self.tally.text_chars,
        )

    def usage(self) -> Usage:
        """Tokens of this attempt; nothing is known of one that said and produced nothing."""
        tally = self.tally
        return tally.tokens() if tally.produced or tally.usage is not None else Usage()


class Ledger:
    """`opened` is the row that stands in the store; `clock_ns` is Unix nanoseconds."""

    __slots__ = (
        "_clock_ns",
        "_decisions",
        "_line",
        "_lines",
        "finish_reason",
        "first_token_ns",
        "held_by_keepalive",
        "ignored",
        "opened",
    )

    def __init__(self, opened: CallRecord, clock_ns: Callable[[], int]) -> None:
        self.opened = opened
        self._clock_ns = clock_ns
        self._decisions: tuple[Decision, ...] = ()
        self._lines: list[AttemptRecord] = []
        self._line: Line | None = None
        self.first_token_ns: int | None = None
        self.finish_reason: str | None = None
        self.held_by_keepalive = False
        self.ignored: tuple[str, ...] = ()

    @property
    def serving(self) -> Endpoint | None:
        """The endpoint that is asked now, or was last."""
        return self._line.endpoint if self._line is not None else None

    def since_ns(self) -> int:
        """Nanoseconds since the call began."""
        return self._clock_ns() - self.opened.started_ns

    def planned(self, plan: Plan) -> None:
        """Which candidates there were, and why."""
        self._decisions = tuple(Decision(c.endpoint.id, c.why) for c in plan.candidates)

    def ignore(self, field: str) -> None:
        """A request field that the target cannot carry (R30)."""
        if field not in self.ignored:
            self.ignored = (*self.ignored, field)

    def begin(self, endpoint: Endpoint) -> Line:
        """A new attempt."""
        self._line = Line(len(self._lines) + 1, endpoint, self.since_ns())
        return self._line

    def end(self, line: Line, outcome: Outcome, error: ApiError | None = None) -> None:
        """That attempt is over."""
        self._lines.append(line.record(outcome, self.since_ns(), error))

    def checkpoint(self) -> Checkpoint:
        """What has been produced so far, for the store."""
        line = self._line
        if line is None:
            return Checkpoint(self.opened.id, None, 0)
        running = line.record(Outcome.INTERRUPTED, None)
        usage = line.usage()
        return Checkpoint(self.opened.id, usage.output_tokens, line.tally.text_chars, usage.estimated, running)

    def closed(self, status: Status, error: ApiError | None = None, by: By | None = None) -> CallRecord:
        """The final record."""
        known = {} if self._line is None else self._of_line(self._line)
        return msgspec.structs.replace(
            self.opened,
            status=status,
            kind=error.kind if error is not None else None,
            message=error.message[:LONGEST_MESSAGE] if error is not None else None,
            cancelled_by=by.value if by is not None else None,
            finish_reason=self.finish_reason,
            first_token_ns=self.first_token_ns,
            ended_ns=self.since_ns(),
            held_by_keepalive=self.held_by_keepalive,
            decisions=self._decisions,
            ignored=self.ignored,
            attempts=tuple(self._lines),
            **known,
        )

    def _of_line(self, line: Line) -> dict[str, object]:
        """The call counts what its last attempt produced: that is what the client got."""
        usage, endpoint = line.usage(), line.endpoint
        price = endpoint.price
        return {
            "endpoint_id": endpoint.id,
            "provider": endpoint.provider,
            "model_used": endpoint.model,
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cached_tokens": usage.cached_tokens,
            "reasoning_tokens": usage.reasoning_tokens,
            "estimated": usage.estimated,
            "text_chars": line.tally.text_chars,
            "chunks": line.tally.chunks,
            "price_amount": cost(price, usage),
            "price_currency": price.currency if price is not None else None,
        }

"""What happened in one call so far: the running form of its record.

The record in the store is a value; this is the only place that changes while a call runs, and `closed` turns it into
the final value.  One line for each attempt, each with what it really produced (F30).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from rivermouth.engine.interrupt import By
from rivermouth.engine.tally import Tally
from rivermouth.ir.errors import ApiError
from rivermouth.ir.events import Usage
from rivermouth.routing.cost import Cost, cost, together
from rivermouth.routing.endpoint import Endpoint
from rivermouth.routing.policy import Verdict
from rivermouth.store.port import (
    LONGEST_MESSAGE,
    AttemptRecord,
    CallRecord,
    Checkpoint,
    Decision,
    Outcome,
    Quoted,
    Status,
)


class Line:
    """One attempt while it runs.  prompt: counts the tokens of what is asked, where nobody else has."""

    __slots__ = ("_prompt", "_prompt_tokens", "endpoint", "number", "policy_id", "started_ns", "tally")

    def __init__(
        self, number: int, endpoint: Endpoint, policy_id: str, started_ns: int, prompt: Callable[[], int] | None = None
    ) -> None:
        self.number = number
        self.endpoint = endpoint
        self.policy_id = policy_id
        self.started_ns = started_ns
        self.tally = Tally()
        self._prompt = prompt
        self._prompt_tokens: int | None = None

    def record(
        self, used: Usage, paid: Cost | None, outcome: Outcome, ended_ns: int | None, error: ApiError | None = None
    ) -> AttemptRecord:
        """The line as a value; `used` and `paid` are what it says of itself now."""
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
            message=error.own_words[:LONGEST_MESSAGE] if error is not None else None,
            input_tokens=used.input_tokens,
            output_tokens=used.output_tokens,
            cached_tokens=used.cached_tokens,
            text_chars=self.tally.text_chars,
            estimated=used.estimated,
            price_nano=paid.nano if paid is not None else None,
            price_currency=paid.currency if paid is not None else None,
        )

    def usage(self) -> Usage:
        """Tokens of this attempt; nothing is known of one that said and produced nothing.

        A stream that is left says its tokens to nobody.  What it has produced is paid for all the same, so where there
        is a price its prompt is counted here, and flagged as an estimate.
        """
        tally = self.tally
        if not tally.produced and tally.usage is None:
            return Usage()
        usage = tally.tokens()
        if usage.input_tokens is not None or not tally.produced or self._prompt is None or self.endpoint.price is None:
            return usage
        if self._prompt_tokens is None:
            self._prompt_tokens = self._prompt()
        return msgspec.structs.replace(usage, input_tokens=self._prompt_tokens, estimated=True)

    def cost(self) -> Cost | None:
        """Of what this attempt has used so far; None where that is not known."""
        return cost(self.endpoint.price, self.usage())


class Ledger:
    """`opened` is the row that stands in the store; `clock_ns` is Unix nanoseconds."""

    __slots__ = (
        "_clock_ns",
        "_line",
        "_lines",
        "_spent",
        "_verdicts",
        "finish_reason",
        "first_token_ns",
        "held_by_keepalive",
        "ignored",
        "opened",
        "quoted",
    )

    def __init__(self, opened: CallRecord, clock_ns: Callable[[], int]) -> None:
        self.opened = opened
        self._clock_ns = clock_ns
        self._verdicts: Sequence[Verdict] = ()
        self._lines: list[AttemptRecord] = []
        self._line: Line | None = None
        self._spent: Cost | None = None
        self.first_token_ns: int | None = None
        self.finish_reason: str | None = None
        self.held_by_keepalive = False
        self.ignored: tuple[str, ...] = ()
        self.quoted: tuple[Quoted, ...] = ()

    @property
    def serving(self) -> Endpoint | None:
        """The endpoint that is asked now, or was last."""
        return self._line.endpoint if self._line is not None else None

    @property
    def attempt(self) -> int:
        """The number of the attempt that runs, or ran last; 0 before the first."""
        return self._line.number if self._line is not None else 0

    def since_ns(self) -> int:
        """Nanoseconds since the call began."""
        return self._clock_ns() - self.opened.started_ns

    def decided(self, verdicts: Sequence[Verdict]) -> None:
        """Which candidates there were, which of them may be tried, and why."""
        self._verdicts = verdicts

    def cost(self) -> Cost | None:
        """Of all attempts until now; None where nothing is known of any."""
        running = self._line is not None and len(self._lines) < self._line.number
        return together(self._spent, self._line.cost() if running and self._line is not None else None)

    def ignore(self, field: str) -> None:
        """A request field that the target cannot carry (R30)."""
        if field not in self.ignored:
            self.ignored = (*self.ignored, field)

    def begin(self, endpoint: Endpoint, policy_id: str, prompt: Callable[[], int] | None = None) -> Line:
        """A new attempt.  prompt: counts the tokens of what is asked."""
        self._line = Line(len(self._lines) + 1, endpoint, policy_id, self.since_ns(), prompt)
        return self._line

    def end(self, line: Line, outcome: Outcome, error: ApiError | None = None) -> None:
        """That attempt is over."""
        used = line.usage()
        paid = cost(line.endpoint.price, used)
        self._spent = together(self._spent, paid)
        self._lines.append(line.record(used, paid, outcome, self.since_ns(), error))
        if error is not None and error.quoting:
            self.quoted = (*self.quoted, Quoted(line.number, error.message[:LONGEST_MESSAGE]))

    def checkpoint(self) -> Checkpoint:
        """What has been produced so far, for the store."""
        line = self._line
        if line is None:
            return Checkpoint(self.opened.id, None, 0)
        used = line.usage()
        running = line.record(used, cost(line.endpoint.price, used), Outcome.INTERRUPTED, None)
        return Checkpoint(self.opened.id, used.output_tokens, line.tally.text_chars, used.estimated, running)

    def closed(self, status: Status, error: ApiError | None = None, by: By | None = None) -> CallRecord:
        """The final record."""
        known = {} if self._line is None else self._of_line(self._line)
        return msgspec.structs.replace(
            self.opened,
            status=status,
            kind=error.kind if error is not None else None,
            message=error.own_words[:LONGEST_MESSAGE] if error is not None else None,
            cancelled_by=by.value if by is not None else None,
            finish_reason=self.finish_reason,
            first_token_ns=self.first_token_ns,
            ended_ns=self.since_ns(),
            held_by_keepalive=self.held_by_keepalive,
            decisions=tuple([Decision(v.candidate.endpoint.id, v.why, not v.refusals) for v in self._verdicts]),
            ignored=self.ignored,
            attempts=tuple(self._lines),
            **known,
        )

    def closing(self, status: Status, by: By | None = None) -> CallRecord:
        """The final record as it will be if the attempt that runs, if one does, ends as the call."""
        final = self.closed(status, by=by)
        if self._line is None or len(self._lines) == self._line.number:
            return final
        used = self._line.usage()
        paid = cost(self._line.endpoint.price, used)
        line = self._line.record(used, paid, Outcome(status.value), self.since_ns())
        return msgspec.structs.replace(final, attempts=(*final.attempts, line))

    def _of_line(self, line: Line) -> dict[str, object]:
        """The call counts what its last attempt produced: that is what the client got."""
        usage, endpoint, paid = line.usage(), line.endpoint, self.cost()
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
            "model_version": endpoint.version,
            "region": endpoint.region,
            "sovereignty": endpoint.sovereignty,
            "retention": endpoint.retention,
            "policy_id": line.policy_id,
            "price_nano": paid.nano if paid is not None else None,
            "price_currency": paid.currency if paid is not None else None,
            "price_estimated": paid is not None and paid.estimated,
        }

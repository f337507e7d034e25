"""One trace for each call: a span for the call, one below it for each attempt.

The spans are made of the final record when the call has ended, in a thread of their own; no code path is instrumented.
What must be known earlier is decided when the call begins: which trace it is part of, and whether it is sampled.

    trace id   the client's, where its `traceparent` is followed; else the id of the call, which is one
    span ids   made of the call's id and the attempt's number, so the header that an upstream gets and the span that is
               written much later agree without anything being kept

A collector that is down or slow costs a call nothing: what it does not take is dropped, and counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from rivermouth.observe.backlog import Backlog, BacklogStatistics
from rivermouth.observe.ended import EndedCall
from rivermouth.observe.span_attributes import NOWHERE, Target

CLOSE_S: Final = 2.0
"""How long the end of the server waits for the last spans to be taken."""

SAMPLED: Final = 0x01


def span_id(call_id: str, number: int) -> int:
    """Of the call's span (0), or of an attempt's (its number)."""
    return int.from_bytes(blake2b(f"{call_id}/{number}".encode(), digest_size=8).digest(), "big") or 1


class CallTrace(msgspec.Struct, frozen=True, kw_only=True):
    """Where a call stands in its trace.

    flags: of W3C's `traceparent`.  state: of its `tracestate`.  parent: the SDK's context with the client's span, if it
    is followed; link: the client's span, if it is not.  attributes: the sampler's own.
    """

    call_id: str
    trace_id: int
    flags: int
    state: str = ""
    parent: Any = None
    link: Any = None
    attributes: Mapping[str, Any] = {}

    @property
    def sampled(self) -> bool:
        return bool(self.flags & SAMPLED)

    def headers(self, attempt: int) -> Mapping[str, str]:
        """What an upstream is told, for its own spans to hang below that attempt's."""
        parent = f"00-{self.trace_id:032x}-{span_id(self.call_id, attempt):016x}-{self.flags:02x}"
        return {"traceparent": parent, "tracestate": self.state} if self.state else {"traceparent": parent}


class Sdk(Protocol):
    """What is needed of OpenTelemetry."""

    def begin(self, call_id: str, operation: str, model: str, carrier: Mapping[str, str]) -> CallTrace:
        """Decides which trace the call is part of and whether it is sampled.  carrier: the client's headers."""
        ...

    def export(self, traced: list[Traced], targets: Mapping[str, Target]) -> None:
        """Makes the spans of ended calls and hands them on.  Blocks; raises nothing."""
        ...

    def spans(self) -> Mapping[str, int]:
        """How many were exported, and how many failed for good."""
        ...

    def shutdown(self) -> None:
        """Gives up what is on its way."""
        ...


class Traced(NamedTuple):
    """A call that ended, and where it stood."""

    trace: CallTrace
    call: EndedCall


class Traces:
    """`following` around a call, `ended` for its final record; neither waits for anything.

    propagate: upstreams are told of the trace.  targets: where each provider is, for the spans of attempts.
    """

    def __init__(self, sdk: Sdk, *, propagate: bool, limit: int, batch: int, linger_s: float) -> None:
        self.targets: Mapping[str, Target] = NOWHERE
        self.propagate: Final = propagate
        self._sdk = sdk
        self._running: dict[str, CallTrace] = {}
        self._backlog: Backlog[Traced] = Backlog("traces", self._export, limit=limit, batch=batch, linger_s=linger_s)

    def start(self) -> None:
        self._backlog.start()

    @contextmanager
    def following(self, call_id: str, operation: str, model: str, carrier: Mapping[str, str]) -> Iterator[CallTrace]:
        """The trace of a call while it runs."""
        trace = self._running[call_id] = self._sdk.begin(call_id, operation, model, carrier)
        try:
            yield trace
        finally:
            del self._running[call_id]

    def ended(self, call: EndedCall) -> None:
        """Inside `following`; a call that is not sampled, or never began to run, has no spans."""
        trace = self._running.get(call.id)
        if trace is not None and trace.sampled:
            self._backlog.put(Traced(trace, call))

    def close(self) -> None:
        """Hands on what waits, if it is taken.  Blocks for a little more than `CLOSE_S` at most."""
        self._backlog.close(CLOSE_S)
        self._sdk.shutdown()

    def statistics(self) -> BacklogStatistics:
        return self._backlog.statistics()

    def spans(self) -> Mapping[str, int]:
        return self._sdk.spans()

    def _export(self, traced: list[Traced]) -> None:
        self._sdk.export(traced, self.targets)

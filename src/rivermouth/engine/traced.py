"""An engine whose calls are traced: the same engine, told where each call stands in its trace.

call begins   the trace is decided (the client's, or one of its own; sampled or not)
attempts      each request to an upstream carries the `traceparent` of its attempt
call ended    the final record becomes spans, out of the way (`observe.traces`)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rivermouth.engine.call import Call, Sink
from rivermouth.engine.engine import Engine
from rivermouth.observe.traces import Traces
from rivermouth.providers.provider import CALL_HEADERS


class TracedEngine(Engine):
    """`plain`: what any engine is made of; its `ended` tells `traces` of each final record."""

    def __init__(self, traces: Traces, **plain: Any) -> None:
        super().__init__(**plain)
        self._traces = traces

    async def generate(self, call: Call, sink: Sink) -> None:
        with self._traced(call):
            await super().generate(call, sink)

    async def embed(self, call: Call, sink: Sink) -> None:
        with self._traced(call):
            await super().embed(call, sink)

    @contextmanager
    def _traced(self, call: Call) -> Iterator[None]:
        opened = call.ledger.opened
        with self._traces.following(call.id, opened.operation, opened.model_asked, call.trace_context) as trace:

            def headers() -> Mapping[str, str]:
                return trace.headers(call.ledger.attempt)

            token = CALL_HEADERS.set(headers) if self._traces.propagate else None
            try:
                yield
            finally:
                if token is not None:
                    CALL_HEADERS.reset(token)

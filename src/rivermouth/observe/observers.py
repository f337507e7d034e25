"""Everybody who is told of a call's end, as one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rivermouth.observe import logs
from rivermouth.observe.call_lines import tell
from rivermouth.observe.ended import EndedCall
from rivermouth.observe.metrics import Metrics
from rivermouth.observe.span_attributes import Target
from rivermouth.observe.traces import Traces
from rivermouth.secrets import Secret


class Observers:
    """`ended` is told of each final record, once, on the event loop, and never waits.

    lines: each call has one in the log.  traces: None where they are switched off.
    """

    def __init__(self, metrics: Metrics, *, lines: bool = False, traces: Traces | None = None) -> None:
        self.metrics = metrics
        self._lines = lines
        self.traces = traces

    def start(self) -> None:
        self.metrics.backlog_from("log", logs.statistics)
        if self.traces is not None:
            self.metrics.backlog_from("traces", self.traces.statistics)
            self.metrics.spans_from(self.traces.spans)
            self.traces.start()

    def ended(self, call: EndedCall) -> None:
        self.metrics.ended(call)
        if self._lines:
            tell(call)
        if self.traces is not None:
            self.traces.ended(call)

    def allow(
        self,
        *,
        models: Iterable[str],
        providers: Iterable[str],
        endpoints: Iterable[str],
        targets: Mapping[str, Target],
        secrets: Iterable[Secret],
    ) -> None:
        """What a configuration names, and what it keeps secret."""
        self.metrics.allow(models, providers, endpoints)
        if self.traces is not None:
            self.traces.targets = targets
        logs.mask(secrets)

    def close(self) -> None:
        """Hand on what waits.  Blocks for some seconds at most."""
        if self.traces is not None:
            self.traces.close()

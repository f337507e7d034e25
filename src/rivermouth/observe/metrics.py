"""Prometheus metrics of one server: a registry of their own, no globals.

A call is counted once, when it ends, from its final record; nothing is counted while it streams.  Labels are bounded:
a name that is not configured is "other", whatever clients ask for.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)

from rivermouth.observe.backlog import BacklogStatistics
from rivermouth.observe.chat import ChatMetrics
from rivermouth.observe.collectors import (
    BacklogCollector,
    BreakerCollector,
    LogCollector,
    Logs,
    OneQueue,
    QueueCollector,
    SpanCollector,
)
from rivermouth.observe.ended import NS, EndedCall, word
from rivermouth.observe.labelled import DURATION_S, FIRST_TOKEN_S, GAP_S, TOKENS_PER_S, Labelled

OTHER: Final = "other"
RELOADS: Final = ("ok", "refused")
"""What became of a configuration that was read again."""
CONTENT_TYPE: Final = CONTENT_TYPE_LATEST


class Metrics:
    """Counts and times of one server.  `models`, `providers` and `endpoints` are the names that may stand in labels."""

    def __init__(
        self,
        models: Iterable[str] = (),
        providers: Iterable[str] = (),
        endpoints: Iterable[str] = (),
        *,
        process: bool = True,
    ) -> None:
        self.registry = CollectorRegistry(auto_describe=True)
        if process:
            ProcessCollector(registry=self.registry)
        new: dict[str, Any] = {"namespace": "rivermouth", "registry": self.registry}
        count, times = _makers(new)
        self._calls = count("calls", "Calls that ended.", "dialect", "model", "status", "kind")
        self._inflight = Gauge("calls_inflight", "Calls that run now.", **new)
        self._attempts = count("attempts", "Attempts at providers that ended.", "provider", "outcome")
        self._fallbacks = count(
            "fallbacks", "Attempts that failed and were followed by one at another endpoint.", "provider", "kind"
        )
        self._retries = count(
            "retries", "Attempts that failed and were followed by one at the same endpoint.", "provider", "kind"
        )
        self._first_token = times(
            "first_token_seconds", "From a call's start to its first content.", FIRST_TOKEN_S, "dialect", "provider"
        )
        self._gap = times(
            "content_gap_seconds",
            "Between two content events, on average over a stream: from its first to its end.",
            GAP_S,
            "provider",
        )
        self._rate = times(
            "output_tokens_per_second", "Of a stream, from its first content to its end.", TOKENS_PER_S, "provider"
        )
        self._duration = times("call_duration_seconds", "From a call's start to its end.", DURATION_S, "dialect")
        self._tokens = count("tokens", "Tokens of calls that ended.", "model", "direction")
        self._cost = count(
            "cost",
            "What calls cost, in units of their currency; `estimated` where tokens were counted here.",
            "model",
            "provider",
            "currency",
            "basis",
        )
        self._chunks = count("chunks", "Content events sent to clients.", "dialect")
        self._reloads = count("config_reloads", "Times the configuration was read again.", "outcome")
        for outcome in RELOADS:
            self._reloads(outcome)
        self._queues, self._breakers = QueueCollector(), BreakerCollector(OTHER)
        self._backlogs, self._spans, self._logs = BacklogCollector(), SpanCollector(), LogCollector()
        for collector in (self._queues, self._breakers, self._backlogs, self._spans, self._logs):
            self.registry.register(collector)
        self._loop_lag = Gauge("event_loop_lag_seconds", "The loop's worst recent lateness.", **new)
        self.chat = ChatMetrics(self.registry)
        self.allow(models, providers, endpoints)

    def allow(self, models: Iterable[str], providers: Iterable[str], endpoints: Iterable[str] = ()) -> None:
        """The names of a new configuration; what was counted under others stays."""
        self._models = frozenset(models)
        self._providers = frozenset(providers)
        self._breakers.endpoints = frozenset(endpoints)

    def inflight_from(self, count: Callable[[], int]) -> None:
        """Ask this for the number of running calls whenever someone scrapes."""
        self._inflight.set_function(count)

    def queues_from(self, look: Callable[[], Sequence[OneQueue]]) -> None:
        """Ask this for the queues of local models whenever someone scrapes."""
        self._queues.look = look

    def breakers_from(self, look: Callable[[], Mapping[str, str]]) -> None:
        """Ask this for the state of each breaker that is not closed, by endpoint, whenever someone scrapes."""
        self._breakers.look = look

    def backlog_from(self, queue: str, look: Callable[[], BacklogStatistics]) -> None:
        """Ask this for what waits in that queue whenever someone scrapes."""
        self._backlogs.looks[queue] = look

    def logs_from(self, look: Callable[[], Logs]) -> None:
        """Where the logs of resumable calls are looked at when someone scrapes."""
        self._logs.look = look

    def spans_from(self, look: Callable[[], Mapping[str, int]]) -> None:
        """Ask this for what became of spans, by outcome, whenever someone scrapes."""
        self._spans.look = look

    def ended(self, call: EndedCall) -> None:
        """Count a call and its attempts: once for each final record.  None is not counted, 0 is (F29)."""
        model, provider = _bounded(call.model_asked, self._models), _bounded(call.provider, self._providers)
        self._calls(call.dialect, model, word(call.status), word(call.kind)).inc()
        self._chunks(call.dialect).inc(call.chunks)
        if call.ended_ns is not None:
            self._duration(call.dialect).observe(call.ended_ns / NS)
        if call.first_token_ns is not None:
            self._first_token(call.dialect, provider).observe(call.first_token_ns / NS)
            if call.stream and call.ended_ns is not None:
                self._flowed(call, provider, max(call.ended_ns - call.first_token_ns, 1) / NS)
        for direction, tokens in (("input", call.input_tokens), ("output", call.output_tokens)):
            if tokens is not None:
                self._tokens(model, direction).inc(tokens)
        if call.price_nano is not None and call.price_currency is not None:
            basis = "estimated" if call.price_estimated else "measured"
            self._cost(model, provider, call.price_currency, basis).inc(call.price_nano / NS)
        self._tried(call)

    def _flowed(self, call: EndedCall, provider: str, seconds: float) -> None:
        """A stream of one content event has no gap, and what came in no time had no pace."""
        if call.chunks > 1:
            self._gap(provider).observe(seconds / (call.chunks - 1))
            if call.output_tokens is not None:
                self._rate(provider).observe(call.output_tokens / seconds)

    def _tried(self, call: EndedCall) -> None:
        for attempt in call.attempts:
            self._attempts(_bounded(attempt.provider, self._providers), word(attempt.outcome)).inc()
        for failed, following in pairwise(call.attempts):
            again = following.endpoint_id == failed.endpoint_id
            counter = self._retries if again else self._fallbacks
            counter(_bounded(failed.provider, self._providers), word(failed.kind)).inc()

    def reloaded(self, *, refused: bool) -> None:
        """The configuration was read again; where it was refused, the one before goes on."""
        self._reloads("refused" if refused else "ok").inc()

    def loop_lag(self, lag_s: float) -> None:
        self._loop_lag.set(lag_s)

    def render(self) -> bytes:
        """The page that Prometheus scrapes; its media type is `CONTENT_TYPE`."""
        return generate_latest(self.registry)


def _makers(new: dict[str, Any]) -> tuple[Callable[..., Labelled], Callable[..., Labelled]]:
    """How a counter and a histogram with labels are made in this registry."""

    def count(name: str, says: str, *labels: str) -> Labelled:
        return Labelled(Counter(name, says, labels, **new))

    def times(name: str, says: str, buckets: tuple[float, ...], *labels: str) -> Labelled:
        return Labelled(Histogram(name, says, labels, buckets=buckets, **new))

    return count, times


def _bounded(name: str | None, allowed: frozenset[str]) -> str:
    """The name as it may stand in a label; "" for none."""
    if name is None:
        return ""
    return name if name in allowed else OTHER


async def watch_loop(metrics: Metrics, *, interval_s: float = 0.5, window: int = 20) -> None:
    """Runs until cancelled: measures how late the loop wakes a sleeper, and shows the worst of the last `window`."""
    loop = asyncio.get_running_loop()
    recent: deque[float] = deque(maxlen=window)
    while True:
        due = loop.time() + interval_s
        await asyncio.sleep(interval_s)
        recent.append(max(0.0, loop.time() - due))
        metrics.loop_lag(max(recent))

"""Metrics that are looked at whenever someone scrapes, instead of being kept: queues, breakers, spans.

What they look at comes from above: each has a `look` that the composition root sets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Protocol

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from rivermouth.observe.backlog import BacklogStatistics


class OneWaiting(Protocol):
    @property
    def age_s(self) -> float: ...


class OneQueue(Protocol):
    """What metrics read of the calls of one model on one device."""

    @property
    def device(self) -> str: ...
    @property
    def active(self) -> int: ...
    @property
    def waiting(self) -> Sequence[OneWaiting]: ...


class QueueCollector(Collector):
    """Looks at the queues of local models whenever someone scrapes.  Labels are devices, which are few."""

    def __init__(self) -> None:
        self.look: Callable[[], Sequence[OneQueue]] = tuple

    def collect(self) -> Iterator[Metric]:
        calls = GaugeMetricFamily(
            "rivermouth_local_calls", "Calls of local models, by device: active or waiting.", labels=("device", "state")
        )
        oldest = GaugeMetricFamily(
            "rivermouth_local_oldest_wait_seconds", "How long the first in a device's queues has waited.",
            labels=("device",),
        )  # fmt: skip
        found: dict[str, list[OneQueue]] = {}
        for queue in self.look():
            found.setdefault(queue.device, []).append(queue)
        for device, queues in found.items():
            calls.add_metric((device, "active"), sum(queue.active for queue in queues))
            calls.add_metric((device, "waiting"), sum(len(queue.waiting) for queue in queues))
            ages = [one.age_s for queue in queues for one in queue.waiting]
            oldest.add_metric((device,), max(ages, default=0.0))
        yield from (calls, oldest)


BREAKER_STATES: Final = ("closed", "half_open", "open")


class BreakerCollector(Collector):
    """The breakers of endpoints.  Those that are configured by name each for itself, all others together."""

    def __init__(self, other: str) -> None:
        self.look: Callable[[], Mapping[str, str]] = dict
        self.endpoints: frozenset[str] = frozenset()
        self._other = other

    def collect(self) -> Iterator[Metric]:
        family = GaugeMetricFamily(
            "rivermouth_breakers", "Endpoints by the state of their breaker; one that is not configured is `other`.",
            labels=("endpoint", "state"),
        )  # fmt: skip
        told = self.look()
        others = [state for name, state in told.items() if name not in self.endpoints]
        for state in BREAKER_STATES[1:]:  # how many others are closed nobody knows
            family.add_metric((self._other, state), others.count(state))
        for name in sorted(self.endpoints):
            for state in BREAKER_STATES:
                family.add_metric((name, state), told.get(name, "closed") == state)
        yield family


class BacklogCollector(Collector):
    """What waits to be written behind the calls' backs, by queue."""

    def __init__(self) -> None:
        self.looks: dict[str, Callable[[], BacklogStatistics]] = {}

    def collect(self) -> Iterator[Metric]:
        waiting = GaugeMetricFamily(
            "rivermouth_backlog", "Entries that wait to be written: records, lines of the log, traces.",
            labels=("queue",),
        )  # fmt: skip
        limit = GaugeMetricFamily("rivermouth_backlog_limit", "How many may wait.", labels=("queue",))
        dropped = CounterMetricFamily(
            "rivermouth_backlog_dropped", "Entries that were given up: for want of room, or because they were refused.",
            labels=("queue",),
        )  # fmt: skip
        for name, look in self.looks.items():
            seen = look()
            waiting.add_metric((name,), seen.waiting)
            limit.add_metric((name,), seen.limit)
            dropped.add_metric((name,), seen.dropped)
        yield from (waiting, limit, dropped)


class Logs(Protocol):
    """What metrics read of the answers that are kept for readers to come."""

    @property
    def running(self) -> int: ...
    @property
    def ended(self) -> int: ...
    @property
    def readers(self) -> int: ...
    @property
    def held_bytes(self) -> int: ...
    @property
    def limit_bytes(self) -> int: ...
    @property
    def evicted(self) -> int: ...
    @property
    def refused(self) -> int: ...


class LogCollector(Collector):
    """Resumable calls, and what their logs hold."""

    def __init__(self) -> None:
        self.look: Callable[[], Logs] | None = None

    def collect(self) -> Iterator[Metric]:
        calls = GaugeMetricFamily(
            "rivermouth_resumable_calls", "Calls that can be resumed: running, or ended and still kept.",
            labels=("state",),
        )  # fmt: skip
        readers = GaugeMetricFamily("rivermouth_resume_readers", "Connections that read such a call.")
        held = GaugeMetricFamily("rivermouth_resume_bytes", "What is kept of all answers that can be resumed.")
        limit = GaugeMetricFamily("rivermouth_resume_bytes_limit", "How much may be kept (`resume.total_bytes`).")
        lost = CounterMetricFamily(
            "rivermouth_resume_lost",
            "For want of room: answers that were forgotten early (evicted), calls that were plain ones (refused).",
            labels=("how",),
        )
        if self.look is not None:
            seen = self.look()
            calls.add_metric(("running",), seen.running)
            calls.add_metric(("ended",), seen.ended)
            readers.add_metric((), seen.readers)
            held.add_metric((), seen.held_bytes)
            limit.add_metric((), seen.limit_bytes)
            lost.add_metric(("evicted",), seen.evicted)
            lost.add_metric(("refused",), seen.refused)
        yield from (calls, readers, held, limit, lost)


class SpanCollector(Collector):
    """What became of the spans that were handed to the collector of traces."""

    def __init__(self) -> None:
        self.look: Callable[[], Mapping[str, int]] | None = None

    def collect(self) -> Iterator[Metric]:
        spans = CounterMetricFamily(
            "rivermouth_spans", "Spans by what became of them: exported, or failed for good.", labels=("outcome",)
        )
        for outcome, count in (self.look() if self.look is not None else {}).items():
            spans.add_metric((outcome,), count)
        yield spans

"""What the server says of itself: structured logs on stderr, and Prometheus metrics.

Logs: one event name per line ("turn.fenced"), key-value pairs beside it, as JSON or for a console.  The standard
library's loggers (uvicorn's, aiohttp's) come out the same way.  No line holds a prompt, an answer or a secret: fields
of such names are masked, and every text is searched for the configured secrets and for what looks like a key.

Metrics: a registry of their own, no globals.  Labels are bounded: a model that is not configured is "other".
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from typing import Any, Final, Literal, Protocol, TextIO

import structlog
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from rivermouth.secrets import MASK, Secret, redact

OTHER: Final = "other"
NS: Final = 1_000_000_000
CONTENT_TYPE: Final = CONTENT_TYPE_LATEST

MASKED_FIELDS: Final = frozenset(
    {
        "answer",
        "api_key",
        "authorization",
        "body",
        "content",
        "cookie",
        "delta",
        "messages",
        "password",
        "prompt",
        "request_body",
        "secret",
        "system",
        "text",
        "token",
        "x-api-key",
        "x-goog-api-key",
    }
)
"""Field names whose values are never logged, whatever they hold."""

FIRST_TOKEN_S: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
LAG_FRAMES: Final = (0, 1, 4, 16, 64, 256, 1024, 4096)
DURATION_S: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)

EventDict = MutableMapping[str, Any]


class Masker:
    """A structlog processor: masks the fields of `MASKED_FIELDS`, and secrets inside every text."""

    def __init__(self, secrets: Iterable[Secret] = ()) -> None:
        self._secrets = tuple(secrets)

    def __call__(self, logger: object, method: str, event: EventDict) -> EventDict:
        for name, value in event.items():
            if name == "_record":  # the standard library's own, taken out again before the line is written
                continue
            event[name] = MASK if name.lower() in MASKED_FIELDS and value is not None else self._masked(value)
        return event

    def _masked(self, value: Any) -> Any:
        match value:
            case Secret():
                return MASK
            case str():
                return redact(value, self._secrets)
            case bool() | int() | float() | None:
                return value
            case list() | tuple():
                return [self._masked(item) for item in value]
            case dict():
                return {
                    str(k): MASK if str(k).lower() in MASKED_FIELDS else self._masked(item) for k, item in value.items()
                }
            case _:
                return redact(str(value), self._secrets)


def configure_logging(
    form: Literal["auto", "json", "console"] = "auto",
    *,
    level: int = logging.INFO,
    secrets: Iterable[Secret] = (),
    stream: TextIO | None = None,
) -> None:
    """All logging of this process, structlog's and the standard library's, to `stream` (stderr), one line each.

    "auto" is for a console where the stream is one, else JSON.
    """
    out = stream or sys.stderr
    as_json = form == "json" or (form == "auto" and not out.isatty())
    before: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        Masker(secrets),
    ]
    last: structlog.typing.Processor = (
        structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer(colors=False)
    )
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *before,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=before,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, last],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for chatty in ("alembic", "botocore", "uvicorn"):
        logging.getLogger(chatty).setLevel(max(level, logging.WARNING))


class EndedAttempt(Protocol):
    """What metrics read of an attempt's record."""

    @property
    def provider(self) -> str: ...
    @property
    def outcome(self) -> str: ...


class EndedCall(Protocol):
    """What metrics read of a call's record.  Durations are nanoseconds since the call's start."""

    @property
    def dialect(self) -> str: ...
    @property
    def model_asked(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def kind(self) -> str | None: ...
    @property
    def first_token_ns(self) -> int | None: ...
    @property
    def ended_ns(self) -> int | None: ...
    @property
    def input_tokens(self) -> int | None: ...
    @property
    def output_tokens(self) -> int | None: ...
    @property
    def chunks(self) -> int: ...
    @property
    def attempts(self) -> Sequence[EndedAttempt]: ...


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


class Labelled:
    """A metric's children by their labels; looking one up in the metric itself is dearer than counting.

    Bounded, as the labels are.
    """

    def __init__(self, metric: Any) -> None:
        self._metric = metric
        self._children: dict[tuple[str, ...], Any] = {}

    def __call__(self, *labels: str) -> Any:
        child = self._children.get(labels)
        if child is None:
            child = self._children[labels] = self._metric.labels(*labels)
        return child


class ChatMetrics:
    """What the chat counts.  States are the machine's words, so the labels are bounded."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        new: dict[str, Any] = {"namespace": "rivermouth", "registry": registry or CollectorRegistry(auto_describe=True)}
        self._ended = Labelled(Counter("turns", "Turns of chats that ended.", ("state",), **new))
        self._fenced = Counter("turns_fenced", "Writers that found another in their place.", **new)
        self._reaped = Counter("turns_reaped", "Turns that were taken over from a writer that died.", **new)
        self._log_lost = Counter("chat_log_lost", "Logs that were gone while their turn was running.", **new)
        self._stopping = Histogram(
            "stop_to_terminal_seconds", "From a stop to the end of the turn.", buckets=FIRST_TOKEN_S, **new
        )
        self._misses = Counter("doorbell_misses", "Entries that were found without a ring.", **new)
        self._lag = Histogram(
            "follower_lag_frames", "How many frames a reader is behind when it reads.", buckets=LAG_FRAMES, **new
        )
        self._live = Gauge("turns_live", "Turns that this process is writing.", **new)
        self._followers = Gauge("chat_followers", "Clients that follow a chat.", **new)

    def ended(self, state: str) -> None:
        self._ended(state).inc()

    def fenced(self) -> None:
        self._fenced.inc()

    def reaped(self) -> None:
        self._reaped.inc()

    def log_lost(self) -> None:
        self._log_lost.inc()

    def stopped(self, seconds: float) -> None:
        self._stopping.observe(seconds)

    def missed_ring(self) -> None:
        self._misses.inc()

    def lag(self, frames: int) -> None:
        self._lag.observe(frames)

    def ask(self, live: Callable[[], int], followers: Callable[[], int]) -> None:
        """Ask these whenever someone scrapes."""
        self._live.set_function(live)
        self._followers.set_function(followers)


class Metrics:
    """Counts and times of one server.  `models` and `providers` are the names that may stand in labels."""

    def __init__(self, models: Iterable[str] = (), providers: Iterable[str] = (), *, process: bool = True) -> None:
        self.registry = CollectorRegistry(auto_describe=True)
        self._models = frozenset(models)
        self._providers = frozenset(providers)
        if process:
            ProcessCollector(registry=self.registry)
        new: dict[str, Any] = {"namespace": "rivermouth", "registry": self.registry}
        self._calls = Labelled(Counter("calls", "Calls that ended.", ("dialect", "model", "status", "kind"), **new))
        self._inflight = Gauge("calls_inflight", "Calls that run now.", **new)
        self._attempts = Labelled(
            Counter("attempts", "Attempts at providers that ended.", ("provider", "outcome"), **new)
        )
        self._first_token = Labelled(
            Histogram(
                "first_token_seconds",
                "From a call's start to its first content.",
                ("dialect",),
                buckets=FIRST_TOKEN_S,
                **new,
            )
        )
        self._duration = Labelled(
            Histogram(
                "call_duration_seconds", "From a call's start to its end.", ("dialect",), buckets=DURATION_S, **new
            )
        )
        self._tokens = Labelled(Counter("tokens", "Tokens of calls that ended.", ("model", "direction"), **new))
        self._chunks = Labelled(Counter("chunks", "Content events sent to clients.", ("dialect",), **new))
        self._queues = QueueCollector()
        self.registry.register(self._queues)
        self._loop_lag = Gauge("event_loop_lag_seconds", "The loop's worst recent lateness.", **new)
        self.chat = ChatMetrics(self.registry)

    def allow(self, models: Iterable[str], providers: Iterable[str]) -> None:
        """The names of a new configuration; what was counted under others stays."""
        self._models = frozenset(models)
        self._providers = frozenset(providers)

    def inflight_from(self, count: Callable[[], int]) -> None:
        """Ask this for the number of running calls whenever someone scrapes."""
        self._inflight.set_function(count)

    def queues_from(self, look: Callable[[], Sequence[OneQueue]]) -> None:
        """Ask this for the queues of local models whenever someone scrapes."""
        self._queues.look = look

    def ended(self, call: EndedCall) -> None:
        """Count a call and its attempts: once for each final record.  None is not counted, 0 is (F29)."""
        model = _bounded(call.model_asked, self._models)
        self._calls(call.dialect, model, _word(call.status), _word(call.kind)).inc()
        self._chunks(call.dialect).inc(call.chunks)
        if call.ended_ns is not None:
            self._duration(call.dialect).observe(call.ended_ns / NS)
        if call.first_token_ns is not None:
            self._first_token(call.dialect).observe(call.first_token_ns / NS)
        for direction, count in (("input", call.input_tokens), ("output", call.output_tokens)):
            if count is not None:
                self._tokens(model, direction).inc(count)
        for attempt in call.attempts:
            self._attempts(_bounded(attempt.provider, self._providers), _word(attempt.outcome)).inc()

    def loop_lag(self, lag_s: float) -> None:
        self._loop_lag.set(lag_s)

    def render(self) -> bytes:
        """The page that Prometheus scrapes; its media type is `CONTENT_TYPE`."""
        return generate_latest(self.registry)


def _bounded(name: str, allowed: frozenset[str]) -> str:
    return name if name in allowed else OTHER


def _word(value: str | None) -> str:
    """A member of an enumeration as its plain word; "" for none."""
    return str(value) if value is not None else ""


async def watch_loop(metrics: Metrics, *, interval_s: float = 0.5, window: int = 20) -> None:
    """Runs until cancelled: measures how late the loop wakes a sleeper, and shows the worst of the last `window`."""
    loop = asyncio.get_running_loop()
    recent: deque[float] = deque(maxlen=window)
    while True:
        due = loop.time() + interval_s
        await asyncio.sleep(interval_s)
        recent.append(max(0.0, loop.time() - due))
        metrics.loop_lag(max(recent))

"""Who is told of calls, and what of: metrics, lines in the log, traces."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

import structlog

from rivermouth import __version__
from rivermouth.compose.providers import SCRIPTED
from rivermouth.compose.settings import (
    LOCAL,
)
from rivermouth.config import Config
from rivermouth.config.telemetry import OTLP, obstacle, wished_for
from rivermouth.engine.record import Recorder
from rivermouth.observe import Metrics, Observers
from rivermouth.observe.backlog import BacklogStatistics
from rivermouth.observe.span_attributes import Target
from rivermouth.observe.traces import Traces
from rivermouth.secrets import Secret

log = structlog.get_logger()

DEFAULT_PORTS: Final = {"http": 80, "https": 443}


def observers_of(config: Config, metrics: Metrics) -> Observers:
    """Nothing of it runs yet.  OpenTelemetry is imported where traces are on, and nowhere else."""
    traces: Traces | None = None
    if config.telemetry.traces == OTLP:
        from rivermouth.observe import otlp

        wanted = config.telemetry
        traces = otlp.traces(__version__, trust_clients=wanted.trust_clients, propagate=wanted.propagate)
    elif wished_for(os.environ) and (why := obstacle(os.environ)) is not None:
        log.warning("traces.off", reason=why)
    return Observers(metrics, lines=config.log.calls, traces=traces)


def introduce(observers: Observers, config: Config, secrets: Iterable[Secret]) -> None:
    """Tell them the names of this configuration; every other name is a client's invention."""
    endpoints = {reference for model in config.models.values() for reference in model.endpoints}
    observers.allow(
        models=config.models,
        providers=(LOCAL, SCRIPTED, *config.providers),
        endpoints=endpoints | set(config.endpoints),
        targets={name: target for name, p in config.providers.items() if (target := _target(p.base_url)) is not None},
        secrets=secrets,
    )


def _target(base_url: str | None) -> Target | None:
    found = urlsplit(base_url or "")
    return Target(found.hostname, found.port or DEFAULT_PORTS[found.scheme]) if found.hostname else None


def waiting_records(recorder: Recorder) -> BacklogStatistics:
    seen = recorder.statistics()
    return BacklogStatistics(seen.opens + seen.marks + seen.closes + seen.writing, seen.limit, seen.rejected)

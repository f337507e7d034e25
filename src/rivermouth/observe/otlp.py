"""OpenTelemetry's SDK at work: records become spans, and spans go to a collector over OTLP.

Imported only where traces are on; the extra `otel` brings it.  Everything that its environment variables say holds:
where the collector is, with which headers, the sampler, the resource, the limits of spans.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

import structlog
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, Decision, Sampler
from opentelemetry.trace import Link, SpanKind, Status, StatusCode, get_current_span, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from rivermouth.observe import span_attributes
from rivermouth.observe.ended import EndedAttempt
from rivermouth.observe.span_attributes import Target
from rivermouth.observe.traces import SAMPLED, CallTrace, Traced, Traces, span_id

log = structlog.stdlib.get_logger()

SERVICE: Final = "rivermouth"
UNKNOWN: Final = "unknown_service"
"""How the SDK calls a service that nobody named."""
FIRST_TOKEN: Final = "rivermouth.first_token"  # noqa: S105 (an event)
RANDOM: Final = 0x02
"""W3C's flag for a trace id whose last 56 bits are chance, as those of our ids are."""

QUEUE_LIMIT: Final = 2048
BATCH: Final = 512
LINGER_MS: Final = 5000
"""What the SDK's own processor would do; the same variables change it here."""


class GivenIds(IdGenerator):
    """Ids that are known before the span is made."""

    trace_id = 0
    span_id = 0

    def generate_trace_id(self) -> int:
        return self.trace_id

    def generate_span_id(self) -> int:
        return self.span_id

    def is_trace_id_random(self) -> bool:
        return True


class Collected(SpanProcessor):
    """Keeps the spans that end, for one export."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        self.spans.append(span)


class Otlp:
    """`Sdk` with a sampler and an exporter.  `begin` belongs to the event loop, `export` to one thread.

    trust_clients: a client's `traceparent` is followed; else its span is linked, and the trace is our own.
    """

    def __init__(self, exporter: SpanExporter, sampler: Sampler, resource: Resource, *, trust_clients: bool) -> None:
        self._exporter = exporter
        self._sampler = sampler
        self._trust_clients = trust_clients
        self._propagator = TraceContextTextMapPropagator()
        self._ids, self._collected = GivenIds(), Collected()
        provider = TracerProvider(sampler=ALWAYS_ON, resource=resource, id_generator=self._ids, shutdown_on_exit=False)
        provider.add_span_processor(self._collected)
        self._tracer = provider.get_tracer(SERVICE)
        self._exported = self._failed = 0
        self._delivering = True

    def begin(self, call_id: str, operation: str, model: str, carrier: Mapping[str, str]) -> CallTrace:
        found = self._propagator.extract(carrier, Context()) if carrier else Context()
        client = get_current_span(found).get_span_context()
        followed = client.is_valid and self._trust_clients
        trace_id = client.trace_id if followed else int(call_id, 16)
        judged = self._sampler.should_sample(
            found if followed else None,
            trace_id,
            span_attributes.name_of(operation, model),
            SpanKind.SERVER,
            span_attributes.at_start(operation, model),
        )
        sampled = SAMPLED if judged.decision is Decision.RECORD_AND_SAMPLE else 0
        return CallTrace(
            call_id=call_id,
            trace_id=trace_id,
            flags=sampled | (client.trace_flags & RANDOM if followed else RANDOM),
            state=judged.trace_state.to_header() if judged.trace_state else "",
            parent=found if followed else None,
            link=Link(client) if client.is_valid and not followed else None,
            attributes=judged.attributes or {},
        )

    def export(self, traced: list[Traced], targets: Mapping[str, Target]) -> None:
        for trace, call in traced:
            self._write(Traced(trace, call), targets)
        spans, self._collected.spans = self._collected.spans, []
        if self._exporter.export(spans) is SpanExportResult.SUCCESS:
            self._exported += len(spans)
            if not self._delivering:
                log.info("traces.delivered", spans=len(spans))
            self._delivering = True
        else:
            self._failed += len(spans)
            if self._delivering:  # said once, not for each batch of an hour
                log.warning("traces.undelivered", spans=len(spans))
            self._delivering = False

    def spans(self) -> Mapping[str, int]:
        return {"exported": self._exported, "failed": self._failed}

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def _write(self, traced: Traced, targets: Mapping[str, Target]) -> None:
        trace, call = traced
        self._ids.trace_id, self._ids.span_id = trace.trace_id, span_id(call.id, 0)
        span = self._tracer.start_span(
            span_attributes.call_name(call),
            context=trace.parent or Context(),
            kind=SpanKind.SERVER,
            attributes={**trace.attributes, **span_attributes.of_call(call)},
            links=[trace.link] if trace.link is not None else [],
            start_time=call.started_ns,
        )
        if call.first_token_ns is not None:
            span.add_event(FIRST_TOKEN, timestamp=call.started_ns + call.first_token_ns)
        if call.kind is not None and call.status == "failed":
            span.set_status(Status(StatusCode.ERROR))
        inside = set_span_in_context(span, Context())
        ended_ns = call.ended_ns or 0
        for attempt in call.attempts:
            if attempt.outcome != span_attributes.SKIPPED:
                self._write_attempt(traced, attempt, targets.get(attempt.provider), inside, ended_ns)
        span.end(call.started_ns + ended_ns)

    def _write_attempt(
        self, traced: Traced, attempt: EndedAttempt, target: Target | None, inside: Context, ended_ns: int
    ) -> None:
        call = traced.call
        self._ids.span_id = span_id(call.id, attempt.number)
        span = self._tracer.start_span(
            span_attributes.name_of(call.operation, attempt.model),
            context=inside,
            kind=SpanKind.CLIENT if target is not None else SpanKind.INTERNAL,
            attributes=span_attributes.of_attempt(call, attempt, target),
            start_time=call.started_ns + attempt.started_ns,
        )
        if attempt.kind is not None:
            span.set_status(Status(StatusCode.ERROR))
        span.end(call.started_ns + (ended_ns if attempt.ended_ns is None else attempt.ended_ns))


def traces(version: str, *, trust_clients: bool, propagate: bool, environ: Mapping[str, str] = os.environ) -> Traces:
    """Traces as the environment wants them."""
    sampler = TracerProvider(shutdown_on_exit=False).sampler
    sdk = Otlp(OTLPSpanExporter(), sampler, resource(version), trust_clients=trust_clients)
    return Traces(
        sdk,
        propagate=propagate,
        limit=_positive(environ.get("OTEL_BSP_MAX_QUEUE_SIZE"), QUEUE_LIMIT),
        batch=_positive(environ.get("OTEL_BSP_MAX_EXPORT_BATCH_SIZE"), BATCH),
        linger_s=_positive(environ.get("OTEL_BSP_SCHEDULE_DELAY"), LINGER_MS) / 1000,
    )


def resource(version: str) -> Resource:
    """What the environment says of this service, and its name and version where it does not."""
    found = Resource.create()
    ours: dict[str, str] = {}
    if str(found.attributes.get(SERVICE_NAME, UNKNOWN)).startswith(UNKNOWN):
        ours[SERVICE_NAME] = SERVICE
    if SERVICE_VERSION not in found.attributes:
        ours[SERVICE_VERSION] = version
    return found.merge(Resource(ours))


def _positive(text: str | None, default: int) -> int:
    """The number, if the text is one that makes sense."""
    return int(text) if text is not None and text.isdigit() and int(text) > 0 else default

"""Records become spans, and spans go over a real socket; a collector that fails costs nobody anything."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping

import pytest

from rivermouth.ir.errors import Kind
from rivermouth.observe.otlp import traces
from rivermouth.observe.span_attributes import Target
from rivermouth.observe.traces import Traces, span_id
from rivermouth.store.port import CallRecord, Outcome, Status
from tests.observe.fake_collector import FakeCollector, Span
from tests.store.records import attempt, ended, opened

ID = f"{0x0123_4567_89AB:012x}{0xFEDC_BA98_7654_3210_AAAA:020x}"
CLIENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
S = 1_000_000_000


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCollector]:
    with FakeCollector() as fake:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", fake.url)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "1")
        yield fake


def started(*, trust_clients: bool = True) -> Traces:
    made = traces("1.2.3", trust_clients=trust_clients, propagate=True)
    made.targets = {"lab": Target("lab.example", 8443)}
    made.start()
    return made


def record(call_id: str = ID, **fields: object) -> CallRecord:
    """A call of two attempts: 0.1 s to 0.4 s and 0.5 s to 2 s, the first token at 1 s."""
    lines = (
        attempt(
            1,
            started_ns=S // 10,
            ended_ns=4 * S // 10,
            outcome=Outcome.FAILED,
            kind=Kind.OVERLOADED,
            status_code=503,
            message="a story",
        ),
        attempt(2, started_ns=S // 2, ended_ns=2 * S, provider="local", endpoint_id="local/m", model="m"),
    )
    call = opened(1, id=call_id, started_ns=1_800_000_000 * S)
    return ended(call, first_token_ns=S, ended_ns=2 * S, attempts=lines, message="a story", **fields)


def traced(made: Traces, call: CallRecord, carrier: Mapping[str, str] | None = None) -> Mapping[str, str]:
    """One call from its begin to its end; what its second attempt tells an upstream."""
    with made.following(call.id, call.operation, call.model_asked, carrier or {}) as trace:
        told = trace.headers(2)
        made.ended(call)
    return told


def exported(collector: FakeCollector, call: CallRecord, carrier: Mapping[str, str] | None = None) -> list[Span]:
    made = started()
    traced(made, call, carrier)
    made.close()
    return collector.wait(1 + len(call.attempts))


def test_a_call_is_a_span_with_one_below_it_for_each_attempt(collector: FakeCollector):
    first, second, whole = exported(collector, record(policy_id="eu-only"))
    assert {span.trace_id for span in (first, second, whole)} == {ID}
    assert (whole.parent_id, first.parent_id, second.parent_id) == ("", whole.span_id, whole.span_id)
    assert [span.name for span in (whole, first, second)] == ["chat gpt-x", "chat gpt-x-2026", "chat m"]
    assert [span.wire.kind for span in (whole, first, second)] == [2, 3, 1]  # server, client, internal
    begun = 1_800_000_000 * S
    times = [(s.wire.start_time_unix_nano - begun, s.wire.end_time_unix_nano - begun) for s in (whole, first, second)]
    assert times == [(0, 2 * S), (S // 10, 4 * S // 10), (S // 2, 2 * S)]
    assert [span.failed for span in (whole, first, second)] == [False, True, False]
    (event,) = whole.wire.events
    assert (event.name, event.time_unix_nano - begun) == ("rivermouth.first_token", S)


def test_the_spans_say_what_the_conventions_ask_for(collector: FakeCollector):
    first, second, whole = exported(collector, record(policy_id="eu-only", cached_tokens=3))
    assert whole.attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "lab",
        "gen_ai.request.model": "gpt-x",
        "gen_ai.request.stream": True,
        "gen_ai.response.id": ID,
        "gen_ai.response.model": "gpt-x-2026",
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.response.time_to_first_chunk": 1.0,
        "gen_ai.usage.input_tokens": 11,
        "gen_ai.usage.output_tokens": 7,
        "gen_ai.usage.cache_read.input_tokens": 3,
        "rivermouth.call.id": ID,
        "rivermouth.call.status": "completed",
        "rivermouth.dialect": "openai_chat",
        "rivermouth.surface": "/v1",
        "rivermouth.key": "RIVERMOUTH_KEY",
        "rivermouth.policy.id": "eu-only",
        "rivermouth.endpoint.id": "lab-eu",
        "rivermouth.attempts": 2,
        "rivermouth.tokens.estimated": False,
        "rivermouth.cost.amount": pytest.approx(0.0000975),
        "rivermouth.cost.currency": "EUR",
        "rivermouth.cost.estimated": False,
    }
    assert first.attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "lab",
        "gen_ai.request.model": "gpt-x-2026",
        "server.address": "lab.example",
        "server.port": 8443,
        "error.type": "overloaded",
        "http.response.status_code": 503,
        "rivermouth.attempt.number": 1,
        "rivermouth.attempt.outcome": "failed",
        "rivermouth.attempt.output_tokens": 7,
        "rivermouth.endpoint.id": "lab-eu",
    }
    assert "server.address" not in second.attributes
    assert whole.resource["service.name"] == "rivermouth"
    assert whole.resource["service.version"] == "1.2.3"


@pytest.mark.fault("F36")
def test_no_message_is_in_a_span(collector: FakeCollector):
    exported(collector, record(status=Status.FAILED, kind=Kind.UPSTREAM))
    assert b"story" not in collector.raw
    assert b"overloaded" in collector.raw


def test_a_failed_call_and_a_cancelled_one_are_told_apart(collector: FakeCollector):
    made = started()
    traced(made, record(f"{1:032x}", status=Status.FAILED, kind=Kind.TIMEOUT))
    traced(made, record(f"{2:032x}", status=Status.CANCELLED, cancelled_by="client"))
    made.close()
    calls = {span.trace_id: span for span in collector.wait(6) if not span.parent_id}
    failed, cancelled = calls[f"{1:032x}"], calls[f"{2:032x}"]
    assert (failed.failed, failed.attributes["error.type"]) == (True, "timeout")
    assert (cancelled.failed, cancelled.attributes["rivermouth.call.cancelled_by"]) == (False, "client")
    assert "error.type" not in cancelled.attributes


def test_a_name_that_nobody_serves_is_not_the_name_of_a_span(collector: FakeCollector):
    unknown = record(model_asked="invented" * 100, endpoint_id=None, provider=None, model_used=None)
    whole = exported(collector, unknown)[-1]
    assert whole.name == "chat"
    assert whole.attributes["gen_ai.request.model"] == ("invented" * 100)[:200]


# -- whose trace it is


def test_a_call_goes_on_with_its_clients_trace(collector: FakeCollector):
    made = started()
    carrier = {"traceparent": CLIENT, "tracestate": "vendor=abc"}
    told = traced(made, record(), carrier)
    made.close()
    first, second, whole = collector.wait(3)
    assert {span.trace_id for span in (first, second, whole)} == {"4bf92f3577b34da6a3ce929d0e0e4736"}
    assert whole.parent_id == "00f067aa0ba902b7"
    assert whole.wire.trace_state == "vendor=abc"
    assert told == {
        "traceparent": f"00-4bf92f3577b34da6a3ce929d0e0e4736-{second.span_id}-01",
        "tracestate": "vendor=abc",
    }


def test_an_upstreams_spans_hang_below_the_attempt_that_called_it(collector: FakeCollector):
    made = started()
    told = traced(made, record())
    made.close()
    second = next(span for span in collector.wait(3) if span.name == "chat m")
    assert told == {"traceparent": f"00-{ID}-{second.span_id}-03"}
    assert span_id(ID, 2) == int(second.span_id, 16)


@pytest.mark.parametrize(
    "parent",
    [
        "",
        "nonsense",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01-more",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\nx: y",
    ],
)
def test_a_context_that_is_none_begins_a_trace_of_its_own(collector: FakeCollector, parent: str):
    made = started()
    told = traced(made, record(), {"traceparent": parent, "tracestate": "a=b\r\nx: y"})
    made.close()
    assert {span.trace_id for span in collector.wait(3)} == {ID}
    assert set(told) == {"traceparent"}
    assert told["traceparent"].startswith(f"00-{ID}-")


def test_a_state_that_is_none_is_not_passed_on(collector: FakeCollector):
    made = started()
    told = traced(made, record(), {"traceparent": CLIENT, "tracestate": "a=b\r\nx: y"})
    made.close()
    assert "\n" not in str(told.values())
    assert "x:" not in str(told.values())


def test_clients_that_are_not_trusted_are_linked(collector: FakeCollector):
    made = started(trust_clients=False)
    told = traced(made, record(), {"traceparent": CLIENT})
    made.close()
    whole = collector.wait(3)[-1]
    assert (whole.trace_id, whole.parent_id) == (ID, "")
    (link,) = whole.wire.links
    assert (link.trace_id.hex(), link.span_id.hex()) == ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7")
    assert told["traceparent"].startswith(f"00-{ID}-")


# -- sampling, and the environment's other words


@pytest.mark.parametrize(
    ("sampler", "argument", "carrier", "sampled"),
    [
        ("always_on", "", {}, True),
        ("always_off", "", {}, False),
        ("parentbased_always_on", "", {}, True),
        ("parentbased_always_on", "", {"traceparent": CLIENT[:-1] + "0"}, False),
        ("parentbased_always_off", "", {"traceparent": CLIENT}, True),
        ("parentbased_always_off", "", {}, False),
        ("always_off", "", {"traceparent": CLIENT}, False),
        ("traceidratio", "0.0", {"traceparent": CLIENT}, False),
        ("traceidratio", "1.0", {}, True),
    ],
)
def test_the_sampler_of_the_environment_decides(
    collector: FakeCollector,
    monkeypatch: pytest.MonkeyPatch,
    sampler: str,
    argument: str,
    carrier: dict[str, str],
    sampled: bool,
):
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", sampler)
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", argument)
    made = started()
    told = traced(made, record(), carrier)
    made.close()
    assert int(told["traceparent"][-2:], 16) & 1 == sampled
    assert made.spans() == {"exported": 3 * sampled, "failed": 0}
    assert len(collector.requests) == sampled


def test_a_share_of_the_traces_is_taken_by_the_chance_in_their_ids(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0.25")
    made = traces("1", trust_clients=True, propagate=True)
    taken = 0
    for number in range(1000):
        call_id = f"{0x0123_4567_89AB:012x}{number * 0x9E37_79B9_7F4A_7C15 % 2**80:020x}"
        with made.following(call_id, "generate", "m", {}) as trace:
            taken += trace.sampled
    assert 200 < taken < 300


def test_the_environment_names_the_service_and_the_headers(collector: FakeCollector, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.name=edge,deployment.environment=prod")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=blue")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
    whole = exported(collector, record())[-1]
    assert whole.resource["service.name"] == "edge"
    assert whole.resource["deployment.environment"] == "prod"
    (request,) = collector.requests
    assert (request["path"], request["x-tenant"], request["content-encoding"]) == ("/v1/traces", "blue", "gzip")


# -- a collector that fails


@pytest.mark.fault("F34")
def test_a_collector_that_hangs_delays_nobody_and_fills_no_memory(
    collector: FakeCollector, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "10")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "2")
    collector.hold.set()
    made = started()
    traced(made, record(f"{1:032x}"))
    collector.wait_asked(1)
    began = time.perf_counter()
    for number in range(2, 202):
        traced(made, record(f"{number:032x}"))
    assert time.perf_counter() - began < 1.0
    seen = made.statistics()
    assert (seen.waiting, seen.limit, seen.dropped) == (10, 10, 191)
    collector.hold.clear()
    collector.released.set()
    made.close()


def test_a_collector_that_is_down_is_counted_and_one_that_returns_gets_what_comes_then(
    collector: FakeCollector, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1")
    collector.status = 400
    made = started()
    traced(made, record(f"{1:032x}"))
    collector.wait_asked(1)
    collector.status = 200
    traced(made, record(f"{2:032x}"))
    assert {span.trace_id for span in collector.wait(3)} == {f"{2:032x}"}
    made.close()
    assert made.spans() == {"exported": 3, "failed": 3}


def test_nobody_listens_there(monkeypatch: pytest.MonkeyPatch):
    with FakeCollector() as gone:
        pass
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", gone.url)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "1")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    made = started()
    traced(made, record())
    closing = threading.Thread(target=made.close)
    closing.start()
    closing.join(8.0)
    assert not closing.is_alive()
    assert made.spans() == {"exported": 0, "failed": 3}


def test_a_call_that_never_began_to_run_has_no_spans(collector: FakeCollector):
    made = started()
    made.ended(record())
    made.close()
    assert collector.requests == []

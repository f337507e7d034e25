"""Metrics are bounded, count what is known, and belong to one server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import NamedTuple

import pytest
from prometheus_client.parser import text_string_to_metric_families

from rivermouth.ir.errors import Kind
from rivermouth.local.machine.places import Waiting
from rivermouth.observe import OTHER, Metrics, watch_loop
from rivermouth.observe.backlog import BacklogStatistics
from rivermouth.observe.collectors import BREAKER_STATES
from rivermouth.routing.health import State
from rivermouth.store.port import Outcome, Status
from tests.store.records import attempt, ended, opened

S = 1_000_000_000


def samples(metrics: Metrics) -> dict[str, float]:
    """Each sample of the page by name and labels, as `name{a=b}`."""
    found = {}
    for family in text_string_to_metric_families(metrics.render().decode()):
        for sample in family.samples:
            labels = ",".join(f"{k}={v}" for k, v in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}"] = sample.value
    return found


@pytest.mark.fault("F16", "F30")
@pytest.mark.promise(74, 75)
def test_a_call_is_counted_by_how_it_ended_with_its_attempts():
    metrics = Metrics({"gpt-x"}, {"lab"}, process=False)
    metrics.ended(ended(opened(1)))
    metrics.ended(ended(opened(2), Status.CANCELLED, kind=Kind.CANCELLED, output_tokens=4, attempts=()))
    found = samples(metrics)
    call = "rivermouth_calls_total{dialect=openai_chat,kind="
    assert found[call + ",model=gpt-x,status=completed}"] == 1
    assert found[call + "cancelled,model=gpt-x,status=cancelled}"] == 1
    assert found["rivermouth_attempts_total{outcome=failed,provider=lab}"] == 1
    assert found["rivermouth_attempts_total{outcome=completed,provider=lab}"] == 1
    assert found["rivermouth_tokens_total{direction=output,model=gpt-x}"] == 11
    assert found["rivermouth_chunks_total{dialect=openai_chat}"] == 14
    assert found["rivermouth_call_duration_seconds_count{dialect=openai_chat}"] == 2
    assert found["rivermouth_call_duration_seconds_sum{dialect=openai_chat}"] == pytest.approx(120e-9)


@pytest.mark.fault("F29")
def test_what_is_not_known_is_not_counted_as_zero():
    metrics = Metrics({"gpt-x"}, process=False)
    unknown = ended(opened(1), input_tokens=None, output_tokens=0, first_token_ns=None, ended_ns=None)
    metrics.ended(unknown)
    found = samples(metrics)
    assert "rivermouth_tokens_total{direction=input,model=gpt-x}" not in found
    assert found["rivermouth_tokens_total{direction=output,model=gpt-x}"] == 0
    assert "rivermouth_first_token_seconds_count{dialect=openai_chat,provider=other}" not in found


@pytest.mark.fault("F35")
def test_names_that_clients_invent_do_not_become_labels():
    metrics = Metrics({"gpt-x"}, {"lab"}, process=False)
    metrics.ended(ended(opened(1)))
    before = len(samples(metrics))
    for n in range(100):
        lines = (attempt(1, provider=f"p{n}", outcome=Outcome.COMPLETED),)
        metrics.ended(ended(opened(n), model_asked=f"invented-{n}", attempts=lines))
    found = samples(metrics)
    assert len(found) - before < 12
    assert found[f"rivermouth_calls_total{{dialect=openai_chat,kind=,model={OTHER},status=completed}}"] == 100
    metrics.allow({"invented-1"}, {"p1"})
    metrics.ended(ended(opened(1), model_asked="invented-1"))
    assert samples(metrics)["rivermouth_calls_total{dialect=openai_chat,kind=,model=invented-1,status=completed}"] == 1


def test_the_pace_of_a_stream_is_told_once_at_its_end():
    metrics = Metrics(providers={"lab"}, process=False)
    metrics.ended(ended(opened(1), first_token_ns=S, ended_ns=4 * S, chunks=7, output_tokens=60))
    found = samples(metrics)
    assert found["rivermouth_content_gap_seconds_sum{provider=lab}"] == 0.5
    assert found["rivermouth_content_gap_seconds_count{provider=lab}"] == 1
    assert found["rivermouth_output_tokens_per_second_sum{provider=lab}"] == 20
    assert found["rivermouth_first_token_seconds_sum{dialect=openai_chat,provider=lab}"] == 1


@pytest.mark.parametrize(
    "fields",
    [{"chunks": 1}, {"chunks": 0, "first_token_ns": None}, {"ended_ns": None}],
    ids=["one piece", "no content", "no end"],
)
def test_what_has_no_pace_is_not_given_one(fields: dict[str, int | None]):
    metrics = Metrics(process=False)
    metrics.ended(ended(opened(1), **fields))
    metrics.ended(ended(opened(2, stream=False), **{"chunks": 9, **fields}))
    assert not any(
        name.startswith(("rivermouth_content_gap", "rivermouth_output_tokens_per")) for name in samples(metrics)
    )


def test_a_stream_whose_tokens_are_not_known_has_gaps_and_no_pace():
    metrics = Metrics(providers={"lab"}, process=False)
    metrics.ended(ended(opened(1), first_token_ns=S, ended_ns=4 * S, chunks=7, output_tokens=None))
    found = samples(metrics)
    assert found["rivermouth_content_gap_seconds_count{provider=lab}"] == 1
    assert not any(name.startswith("rivermouth_output_tokens_per") for name in found)


def test_fallbacks_and_retries_are_told_apart_by_the_endpoint_that_came_next():
    metrics = Metrics(providers={"lab", "spare"}, process=False)
    lines = (
        attempt(1, outcome=Outcome.FAILED, kind=Kind.OVERLOADED),
        attempt(2, outcome=Outcome.FAILED, kind=Kind.NETWORK),
        attempt(3, outcome=Outcome.FAILED, kind=Kind.TIMEOUT, endpoint_id="spare-1", provider="spare"),
        attempt(4),
    )
    metrics.ended(ended(opened(1), attempts=lines))
    metrics.ended(ended(opened(2), Status.FAILED, attempts=lines[:1]))
    found = {
        n: v for n, v in samples(metrics).items() if n.startswith(("rivermouth_fallbacks_t", "rivermouth_retries_t"))
    }
    assert found == {
        "rivermouth_retries_total{kind=overloaded,provider=lab}": 1,
        "rivermouth_fallbacks_total{kind=network,provider=lab}": 1,
        "rivermouth_fallbacks_total{kind=timeout,provider=spare}": 1,
    }


def test_costs_add_up_by_currency_and_by_how_they_are_known():
    metrics = Metrics({"gpt-x"}, {"lab"}, process=False)
    for number, estimated in enumerate((False, False, True), 1):
        metrics.ended(ended(opened(number), price_nano=1_500_000, price_estimated=estimated))
    metrics.ended(ended(opened(4), price_nano=None, price_currency=None))
    metrics.ended(ended(opened(5), price_nano=2_000_000_000, price_currency="USD"))
    cost = "rivermouth_cost_total{basis=%s,currency=%s,model=gpt-x,provider=lab}"
    assert {n: v for n, v in samples(metrics).items() if n.startswith("rivermouth_cost_t")} == {
        cost % ("measured", "EUR"): pytest.approx(0.003),
        cost % ("estimated", "EUR"): pytest.approx(0.0015),
        cost % ("measured", "USD"): 2,
    }


def test_breakers_of_configured_endpoints_are_told_each_and_the_others_together():
    metrics = Metrics(endpoints={"lab-eu", "spare"}, process=False)
    states = {"lab-eu": State.HALF_OPEN, "lab/invented-1": State.OPEN, "lab/invented-2": State.OPEN}
    metrics.breakers_from(lambda: states)
    assert {n: v for n, v in samples(metrics).items() if n.startswith("rivermouth_breakers")} == {
        "rivermouth_breakers{endpoint=other,state=half_open}": 0,
        "rivermouth_breakers{endpoint=other,state=open}": 2,
        "rivermouth_breakers{endpoint=lab-eu,state=closed}": 0,
        "rivermouth_breakers{endpoint=lab-eu,state=half_open}": 1,
        "rivermouth_breakers{endpoint=lab-eu,state=open}": 0,
        "rivermouth_breakers{endpoint=spare,state=closed}": 1,
        "rivermouth_breakers{endpoint=spare,state=half_open}": 0,
        "rivermouth_breakers{endpoint=spare,state=open}": 0,
    }


def test_every_state_of_a_breaker_has_a_label():
    assert set(BREAKER_STATES) == {state.value for state in State}


def test_what_waits_behind_the_calls_backs_is_told_by_queue():
    metrics = Metrics(process=False)
    metrics.backlog_from("traces", lambda: BacklogStatistics(waiting=3, limit=2048, dropped=5))
    metrics.spans_from(lambda: {"exported": 40, "failed": 2})
    found = samples(metrics)
    assert found["rivermouth_backlog{queue=traces}"] == 3
    assert found["rivermouth_backlog_limit{queue=traces}"] == 2048
    assert found["rivermouth_backlog_dropped_total{queue=traces}"] == 5
    assert found["rivermouth_spans_total{outcome=exported}"] == 40
    assert found["rivermouth_spans_total{outcome=failed}"] == 2


def test_running_calls_are_asked_for_when_someone_scrapes():
    metrics, running = Metrics(process=False), [1, 2, 3]
    assert samples(metrics)["rivermouth_calls_inflight{}"] == 0
    metrics.inflight_from(lambda: len(running))
    running.pop()
    assert samples(metrics)["rivermouth_calls_inflight{}"] == 2


class FakeQueue(NamedTuple):
    device: str
    active: int
    waiting: Sequence[Waiting]


def test_queues_are_told_by_device_with_the_longest_wait():
    metrics = Metrics(process=False)
    assert not any(name.startswith("rivermouth_local") for name in samples(metrics))
    found = [
        FakeQueue("CPU", 4, (Waiting(1, 7.5), Waiting(2, 1.0))),
        FakeQueue("CPU", 1, (Waiting(1, 2.0),)),
        FakeQueue("NPU", 0, ()),
    ]
    metrics.queues_from(lambda: found)
    told = {name: value for name, value in samples(metrics).items() if name.startswith("rivermouth_local")}
    assert told == {
        "rivermouth_local_calls{device=CPU,state=active}": 5,
        "rivermouth_local_calls{device=CPU,state=waiting}": 3,
        "rivermouth_local_calls{device=NPU,state=active}": 0,
        "rivermouth_local_calls{device=NPU,state=waiting}": 0,
        "rivermouth_local_oldest_wait_seconds{device=CPU}": 7.5,
        "rivermouth_local_oldest_wait_seconds{device=NPU}": 0,
    }


def test_two_servers_in_one_process_count_apart():
    one, two = Metrics(), Metrics()
    one.ended(ended(opened(1)))
    assert not any(name.startswith("rivermouth_calls_total") for name in samples(two))
    assert any(name.startswith("process_resident_memory_bytes") for name in samples(two))


@pytest.mark.anyio
@pytest.mark.fault("F34")
async def test_a_blocked_loop_shows_in_the_gauge():
    metrics = Metrics(process=False)
    loop = asyncio.get_running_loop()
    watch = asyncio.create_task(watch_loop(metrics, interval_s=0.001))
    await asyncio.sleep(0)
    until = loop.time() + 0.05
    while loop.time() < until:
        pass
    while not samples(metrics)["rivermouth_event_loop_lag_seconds{}"]:
        await asyncio.sleep(0)
    assert samples(metrics)["rivermouth_event_loop_lag_seconds{}"] > 0.04
    watch.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await watch

"""Logs hold no prompt and no secret; metrics are bounded and belong to one server."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import logging
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pytest
import structlog
from prometheus_client.parser import text_string_to_metric_families

from rivermouth.ir.errors import Kind
from rivermouth.local.places import Waiting
from rivermouth.observe import MASKED_FIELDS, OTHER, Metrics, configure_logging, watch_loop
from rivermouth.secrets import MASK, Secret
from rivermouth.store.port import Outcome, Status
from tests.store.records import attempt, ended, opened

SECRET = Secret("hunter2-hunter2")


@pytest.fixture
def restored() -> Iterator[None]:
    """The process's logging as it was, afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


@pytest.fixture
def lines(restored: None) -> io.StringIO:
    """Where JSON logs of this test go."""
    stream = io.StringIO()
    configure_logging("json", secrets=[SECRET], stream=stream)
    return stream


def parsed(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_one_event_is_one_line_of_json_with_its_name_level_and_time(lines: io.StringIO):
    structlog.stdlib.get_logger("rivermouth.turns").info("turn.fenced", generation=7, chat="u1:c2")
    (line,) = parsed(lines)
    assert (line["event"], line["level"], line["logger"]) == ("turn.fenced", "info", "rivermouth.turns")
    assert (line["generation"], line["chat"]) == (7, "u1:c2")
    assert str(line["timestamp"]).endswith("Z")


def test_the_standard_librarys_loggers_come_out_the_same(lines: io.StringIO):
    logging.getLogger("uvicorn.error").warning("listening on %s", "127.0.0.1")
    (line,) = parsed(lines)
    assert (line["event"], line["level"], line["logger"]) == ("listening on 127.0.0.1", "warning", "uvicorn.error")


def test_what_is_below_the_level_is_not_written(lines: io.StringIO):
    structlog.stdlib.get_logger("x").debug("x.seen")
    assert lines.getvalue() == ""


@pytest.mark.fault("F36")
@pytest.mark.parametrize("name", sorted(MASKED_FIELDS))
def test_no_field_of_such_a_name_is_written(lines: io.StringIO, name: str):
    structlog.stdlib.get_logger("x").info("x.done", **{name: "tell me a story", "nested": {name: "tell me a story"}})
    assert "story" not in lines.getvalue()
    assert parsed(lines)[0]["nested"] == {name: MASK}


@pytest.mark.fault("F36")
def test_a_secret_is_written_nowhere(lines: io.StringIO):
    log = structlog.stdlib.get_logger("x")
    value = SECRET.reveal()
    log.info("x.done", url=f"http://u:{value}@host/", several=[value], secret=SECRET, error=ValueError(value))
    logging.getLogger("y").error("refused: %s", value)
    try:
        raise ValueError(value)
    except ValueError:
        log.exception("x.failed")
    assert value not in lines.getvalue()
    assert len(parsed(lines)) == 3
    assert "Traceback" in str(parsed(lines)[2]["exception"])


@pytest.mark.fault("F36")
def test_the_console_form_masks_too(restored: None):
    stream = io.StringIO()
    configure_logging("console", secrets=[SECRET], stream=stream)
    structlog.stdlib.get_logger("x").info("x.done", prompt="a story", why=SECRET.reveal())
    assert "x.done" in stream.getvalue()
    assert "story" not in stream.getvalue()
    assert SECRET.reveal() not in stream.getvalue()


def test_auto_is_json_where_there_is_no_console(restored: None):
    stream = io.StringIO()
    configure_logging(stream=stream)
    structlog.stdlib.get_logger("x").info("x.done")
    assert parsed(stream)[0]["event"] == "x.done"


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
    assert "rivermouth_first_token_seconds_count{dialect=openai_chat}" not in found


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

"""What a whole server says of its calls: each metric over a real socket, and traces at a fake collector."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.engine.client import asking, connected
from tests.engine.lab import Lab, lab, until
from tests.engine.words import END, OPENAI, PLAIN, ROLE, begin, data, document, provider, refusal, says, talk
from tests.fakes import Asked, FakeUpstream
from tests.observe.fake_collector import FakeCollector, Span

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

CLIENT: Final = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
USAGE: Final = data({"id": "up", "choices": [], "usage": {"prompt_tokens": 40, "completion_tokens": 8}})
PRICED: Final = """
[endpoints.dear]
provider = "spare"
model = "m"
price = { input = 10.0, output = 100.0, currency = "EUR" }
[models.both]
endpoints = ["ill/m", "dear"]
"""


async def script(asked: Asked) -> None:
    """An upstream that is ill under /ill, keeps its streams open under /slow, and answers everywhere else."""
    if asked.method == "GET":
        await asked.answer(200, "application/json", b'{"object":"list","data":[]}')
        return
    body = json.loads(asked.body)
    if asked.path.startswith("/ill/"):
        await asked.answer(503, "application/json", refusal("busy"))
    elif asked.path.endswith("/embeddings"):
        vectors = [{"object": "embedding", "index": 0, "embedding": [0.5, 0.25]}]
        reply = {"object": "list", "data": vectors, "model": "m", "usage": {"prompt_tokens": 4, "total_tokens": 4}}
        await asked.answer(200, "application/json", json.dumps(reply).encode())
    elif not body.get("stream"):
        await asked.answer(200, "application/json", document("hello"))
    else:
        await begin(asked, ROLE, says("one "), says("two "), says("three"))
        if not asked.path.startswith("/slow/"):
            await asked.end(END.replace(b"data: [DONE]", USAGE + b"data: [DONE]"))


class Place(NamedTuple):
    server: Lab
    upstream: FakeUpstream


def providers(url: str) -> str:
    return "".join(provider(name, url) for name in ("ill", "spare", "slow"))


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    """A server in which `both` falls back from an endpoint that is ill."""
    async with FakeUpstream(script) as upstream:
        with lab(tmp_path, "[resilience]\nretries = 0\n" + providers(upstream.url) + PRICED) as server:
            yield Place(server, upstream)


async def metrics(server: Lab) -> dict[str, float]:
    async with asking(server.port, "/metrics", method="GET") as answer:
        page = (await answer.rest()).decode()
    found = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            labels = ",".join(f"{k}={v}" for k, v in sorted(sample.labels.items()))
            found[f"{sample.name.removeprefix('rivermouth_')}{{{labels}}}"] = sample.value
    return found


async def ask(server: Lab, name: str, *, stream: bool = True, **headers: str) -> str:
    """One call to its end; its id."""
    named = {key.replace("_", "-"): value for key, value in headers.items()}
    async with asking(server.port, OPENAI.path, talk(name, stream=stream), named) as answer:
        await answer.rest()
        await server.record(answer.call_id)
        return answer.call_id


# -- metrics


async def test_a_call_that_fell_back_moves_each_metric_of_a_call(place: Place) -> None:
    await ask(place.server, "both")
    found = await metrics(place.server)
    once = {
        "calls_total{dialect=openai_chat,kind=,model=both,status=completed}",
        "attempts_total{outcome=failed,provider=ill}",
        "attempts_total{outcome=completed,provider=spare}",
        "fallbacks_total{kind=overloaded,provider=ill}",
        "first_token_seconds_count{dialect=openai_chat,provider=spare}",
        "content_gap_seconds_count{provider=spare}",
        "output_tokens_per_second_count{provider=spare}",
        "call_duration_seconds_count{dialect=openai_chat}",
    }
    assert {name: found.get(name) for name in once} == dict.fromkeys(once, 1.0)
    assert found["chunks_total{dialect=openai_chat}"] == 3
    assert found["tokens_total{direction=input,model=both}"] == 40
    assert found["tokens_total{direction=output,model=both}"] == 8
    cost = found["cost_total{basis=measured,currency=EUR,model=both,provider=spare}"]
    assert cost == pytest.approx((40 * 10 + 8 * 100) / 1_000_000)
    assert not any(name.startswith("retries_total{") for name in found)


async def test_a_second_try_at_the_same_endpoint_is_a_retry(tmp_path: Path) -> None:
    tries = 0

    async def heals(asked: Asked) -> None:
        nonlocal tries
        tries += 1
        await (script(asked) if tries > 1 else asked.answer(503, None, b"", retry_after="0"))

    async with FakeUpstream(heals) as upstream:
        with lab(tmp_path, provider("up", upstream.url)) as server:
            await ask(server, "up/m")
            found = await metrics(server)
    assert found["retries_total{kind=overloaded,provider=up}"] == 1
    assert not any(name.startswith("fallbacks_total{") for name in found)


async def test_breakers_show_what_is_left_alone(place: Place) -> None:
    before = await metrics(place.server)
    for _ in range(3):
        await ask(place.server, "both")
        await ask(place.server, "ill/never-configured")
    after = await metrics(place.server)
    named, others = "breakers{endpoint=ill/m,state=open}", "breakers{endpoint=other,state=open}"
    assert (before[named], after[named]) == (0, 1)
    assert (before[others], after[others]) == (0, 1)
    assert after["breakers{endpoint=dear,state=closed}"] == 1
    assert not any("never-configured" in name for name in after)


async def test_a_running_call_is_in_flight_until_its_client_leaves(place: Place) -> None:
    async with asking(place.server.port, OPENAI.path, talk("slow/m")) as answer:
        await answer.until(b"three")
        assert (await metrics(place.server))["calls_inflight{}"] == 1
    await place.server.idle()
    found = await metrics(place.server)
    assert found["calls_inflight{}"] == 0
    assert found["calls_total{dialect=openai_chat,kind=,model=other,status=cancelled}"] == 1
    assert found["first_token_seconds_count{dialect=openai_chat,provider=slow}"] == 1


async def test_the_scripted_models_are_told_like_any_other(place: Place) -> None:
    async with asking(place.server.port, "/api/chat", talk("scripted")) as answer:
        await answer.rest()
        await place.server.record(answer.call_id)
    found = await metrics(place.server)
    assert found["calls_total{dialect=ollama,kind=,model=other,status=completed}"] == 1
    assert found["content_gap_seconds_count{provider=scripted}"] == 1


async def test_what_waits_to_be_written_is_told(place: Place) -> None:
    found = await metrics(place.server)
    assert {"backlog{queue=records}", "backlog{queue=log}"} <= set(found)
    assert found["backlog_limit{queue=records}"] > 0
    assert not any("queue=traces" in name for name in found), "traces are off"


async def test_names_that_clients_invent_make_no_labels(place: Place) -> None:
    await ask(place.server, "invented-0/m")
    before = set(await metrics(place.server))
    for number in range(1, 8):
        await ask(place.server, f"invented-{number}/m", x_request_id=f"invented-{number}")
    assert set(await metrics(place.server)) == before


# -- traces

OTLP: Final = '[telemetry]\ntraces = "otlp"\n'


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCollector]:
    with FakeCollector() as fake:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", fake.url)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "5")
        yield fake


@pytest.fixture
async def traced(tmp_path: Path, collector: FakeCollector) -> AsyncIterator[Place]:
    async with FakeUpstream(script) as upstream:
        with lab(tmp_path, OTLP + PLAIN + providers(upstream.url) + PRICED) as server:
            yield Place(server, upstream)


async def spans(collector: FakeCollector, count: int) -> list[Span]:
    return await asyncio.to_thread(collector.wait, count)


async def test_a_call_and_its_attempts_are_one_trace_with_the_calls_id(traced: Place, collector: FakeCollector) -> None:
    call_id = await ask(traced.server, "both")
    first, second, whole = await spans(collector, 3)
    assert {span.trace_id for span in (first, second, whole)} == {call_id}
    assert [span.parent_id for span in (whole, first, second)] == ["", whole.span_id, whole.span_id]
    assert whole.attributes["gen_ai.usage.output_tokens"] == 8
    assert whole.attributes["rivermouth.cost.currency"] == "EUR"
    assert (first.failed, first.attributes["error.type"]) == (True, "overloaded")
    port = int(traced.upstream.url.rpartition(":")[2])
    assert (second.attributes["server.address"], second.attributes["server.port"]) == ("127.0.0.1", port)
    record = await traced.server.record(call_id)
    assert whole.wire.start_time_unix_nano == record.started_ns
    assert whole.wire.end_time_unix_nano == record.started_ns + (record.ended_ns or 0)
    found = await metrics(traced.server)
    assert found["backlog_dropped_total{queue=traces}"] == 0
    told = "spans_total{outcome=exported}"
    assert await until(lambda: traced.server.inside.services.observers.traces.spans()["exported"] == 3, told)  # type: ignore[union-attr]
    assert (await metrics(traced.server))[told] == 3


async def test_each_attempt_tells_its_upstream_where_it_stands(traced: Place, collector: FakeCollector) -> None:
    await ask(traced.server, "both", traceparent=CLIENT, tracestate="vendor=abc", baggage="secret=1")
    first, second, whole = await spans(collector, 3)
    assert whole.parent_id == CLIENT.split("-")[2]
    told = [asked.headers for asked in traced.upstream.requests]
    ours = [f"00-{CLIENT.split('-')[1]}-{span.span_id}-01" for span in (first, second)]
    assert [headers["traceparent"] for headers in told] == ours
    assert {headers["tracestate"] for headers in told} == {"vendor=abc"}
    assert not any("baggage" in headers for headers in told), "nothing else of the client's travels on"


@pytest.mark.fault("F36")
@pytest.mark.parametrize("config", ["", OTLP + "propagate = false\n"], ids=["off", "not propagated"])
async def test_upstreams_are_told_nothing_unless_traces_are_on(
    tmp_path: Path, collector: FakeCollector, config: str
) -> None:
    async with FakeUpstream(script) as upstream:
        with lab(tmp_path, config + PLAIN + providers(upstream.url)) as server:
            await ask(server, "spare/m", traceparent=CLIENT, tracestate="vendor=abc")
    (asked,) = upstream.requests
    assert not {"traceparent", "tracestate"} & set(asked.headers)
    assert bool(collector.requests) == bool(config)


async def test_a_parent_that_is_said_twice_is_none(traced: Place, collector: FakeCollector) -> None:
    lines = f"traceparent: {CLIENT}\r\nTraceparent: {CLIENT}\r\n"
    body = json.dumps(talk("spare/m")).encode()
    head = f"POST {OPENAI.path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {len(body)}\r\n{lines}\r\n"
    async with connected(traced.server.port) as client:
        await client.raw(head.encode() + body)
        answer = await client.answer()
        await answer.rest()
    assert {span.trace_id for span in await spans(collector, 2)} == {answer.call_id}


async def test_embeddings_and_whole_answers_are_traced(traced: Place, collector: FakeCollector) -> None:
    await ask(traced.server, "spare/m", stream=False)
    async with asking(traced.server.port, "/v1/embeddings", {"model": "spare/m", "input": "hi"}) as answer:
        assert (await answer.json())["data"]
    found = await spans(collector, 4)
    names = {span.name: span.attributes for span in found if not span.parent_id}
    assert set(names) == {"chat spare/m", "embeddings spare/m"}
    assert names["embeddings spare/m"]["gen_ai.operation.name"] == "embeddings"
    assert "gen_ai.response.time_to_first_chunk" not in names["chat spare/m"]
    assert all("traceparent" in asked.headers for asked in traced.upstream.requests)


async def test_a_turn_of_the_chat_is_traced(traced: Place, collector: FakeCollector) -> None:
    async with asking(traced.server.port, "/api/chats", {}) as answer:
        chat = (await answer.json())["chatId"]
    body = {"content": "tell me a story", "model": "spare/m"}
    async with asking(traced.server.port, f"/api/chats/{chat}/stream", body) as answer:
        await answer.rest()
    attempt, whole = await spans(collector, 2)
    assert (attempt.parent_id, attempt.trace_id) == (whole.span_id, whole.trace_id)
    record = await traced.server.last()
    assert whole.trace_id == record.id
    assert b"story" not in collector.raw
    (asked,) = [asked for asked in traced.upstream.requests if asked.method == "POST"]
    assert asked.headers["traceparent"].split("-")[1:3] == [whole.trace_id, attempt.span_id]


async def test_a_call_whose_client_left_has_its_spans(traced: Place, collector: FakeCollector) -> None:
    async with asking(traced.server.port, OPENAI.path, talk("slow/m")) as answer:
        await answer.until(b"three")
    attempt, whole = await spans(collector, 2)
    assert whole.attributes["rivermouth.call.status"] == "cancelled"
    assert whole.attributes["rivermouth.call.cancelled_by"] == "client"
    assert attempt.attributes["rivermouth.attempt.outcome"] == "cancelled"
    assert whole.attributes["gen_ai.usage.output_tokens"] > 0


async def test_a_client_that_does_not_sample_is_followed_in_that_too(traced: Place, collector: FakeCollector) -> None:
    await ask(traced.server, "spare/m", traceparent=CLIENT[:-1] + "0")
    seen = await ask(traced.server, "spare/m")
    assert {span.trace_id for span in await spans(collector, 2)} == {seen}
    assert traced.upstream.requests[0].headers["traceparent"].endswith("-00")


async def test_what_was_not_exported_yet_is_exported_at_the_end(
    tmp_path: Path, collector: FakeCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "3600000")
    with lab(tmp_path, OTLP) as server:
        call_id = await ask(server, "scripted")
        assert collector.requests == []
    assert {span.trace_id for span in await spans(collector, 2)} == {call_id}


@pytest.mark.fault("F34")
async def test_a_collector_that_hangs_stops_no_call(
    tmp_path: Path, collector: FakeCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "2")
    collector.hold.set()
    with lab(tmp_path, OTLP) as server:
        await ask(server, "scripted")
        await asyncio.to_thread(collector.wait_asked, 1)
        async with AsyncExitStack() as stack:
            answers = [
                await stack.enter_async_context(asking(server.port, OPENAI.path, talk("scripted"))) for _ in "1234"
            ]
            for answer in answers:
                assert (await answer.rest()).endswith(b"data: [DONE]\n\n")
        await server.idle()
        found = await metrics(server)
        assert found["backlog{queue=traces}"] == found["backlog_limit{queue=traces}"] == 2
        assert found["backlog_dropped_total{queue=traces}"] == 3
        collector.released.set()


UNWANTED = ("opentelemetry", "requests", "litestar", "pydantic")


def test_without_traces_the_sdk_is_not_even_imported_nor_the_framework_before_it_is_asked() -> None:
    code = "import sys, rivermouth.compose, rivermouth.http.wiring; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert [name for name in done.stdout.split() if name.partition(".")[0] in UNWANTED] == []

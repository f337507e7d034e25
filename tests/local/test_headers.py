"""What an answer says of the device that made it (R18), through the whole server, on machines with a fake list."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar, Final

import pytest

from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.request import EmbedRequest, Request
from rivermouth.local.machine.places import SlotLease
from rivermouth.local.machine.router import HEADERS, WITHIN, Route
from rivermouth.providers.provider import NOTHING, Batch, Lease, Onward
from tests.engine.client import Answer, asking
from tests.engine.lab import DEADLINE_S, Lab, lab
from tests.engine.words import talk
from tests.local.asking import install
from tests.local.fake_machine import fake_start, pretend

pytestmark = pytest.mark.anyio

CHAT: Final = "/v1/chat/completions"
LIMIT: Final = 40
CONFIG: Final = """
[local]
max_models = 4
max_active = 4
[timeouts]
hold_s = 0.05
[models.one]
endpoints = ["scripted/slow"]
[models.two]
endpoints = ["scripted/slow", "local/tiny"]
"""
ROUTES: Final = (
    CHAT,
    "/openai/v1/chat/completions",
    "/v1/messages",
    "/anthropic/v1/messages",
    "/api/chat",
    "/ollama/api/chat",
    "/api/generate",
    "/ollama/api/generate",
)


def wish(path: str, model: str, text: str = "hi", *, stream: bool = True, tokens: int = 2) -> dict[str, Any]:
    """A request that this route takes."""
    body: dict[str, Any] = {"model": model, "stream": stream}
    body |= {"prompt": text} if path.endswith("generate") else {"messages": [{"role": "user", "content": text}]}
    return body | ({"options": {"num_predict": tokens}} if "/api/" in path else {"max_tokens": tokens})


def told(answer: Answer) -> dict[str, str]:
    """The headers of R18, without the beginning that they share; each is there at most once."""
    found = [(name, value) for name, value in answer.pairs if name.startswith("x-npu-proxy-")]
    assert len(dict(found)) == len(found)
    return {name.removeprefix("x-npu-proxy-"): value for name, value in found}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, files: dict[str, Path]) -> Iterator[Lab]:
    with lab(tmp_path_factory.mktemp("headers"), CONFIG) as made:
        for name in ("tiny", "loop"):
            install(made.inside.services.local.registry, name, files[name])
        yield made


class FakeSlow:
    """A model that says where it runs and then nothing, until the server stops."""

    name = "slow"
    dialect = None
    headers: ClassVar = {"x-npu-proxy-device": "NPU"}

    async def prepare(self, request: Request | EmbedRequest, model: str) -> Lease:
        return NOTHING

    async def open(
        self, request: Request, model: str, lease: Lease, *, same_dialect: bool, warn: Callable[[str], None]
    ) -> FakeSlow:
        return self

    async def read(self, onward: Onward | None = None) -> Batch:
        await asyncio.Event().wait()
        raise AssertionError

    async def close(self) -> None:
        """There is nothing to stop."""


@asynccontextmanager
async def machine(server: Lab, *devices: str) -> AsyncIterator[None]:
    """The server is on a machine with these; nothing is loaded before or after."""
    local = server.inside.services.local
    pretend(local, *devices, npu_tokens=LIMIT)
    try:
        yield
    finally:
        await server.idle()
        for name in ("tiny", "loop"):
            digest = local.registry.get(name).manifest.digest
            ending = asyncio.run_coroutine_threadsafe(local.pool.unload(digest), server.inside.loop)
            await asyncio.to_thread(ending.result, DEADLINE_S)


@asynccontextmanager
async def slot_of(server: Lab, name: str, device: str) -> AsyncIterator[None]:
    """One slot of the model there is taken."""
    local = server.inside.services.local

    async def lease() -> SlotLease:
        return await local.pool.lease(local.registry.get(name), Route(device, device, WITHIN))

    taking = asyncio.run_coroutine_threadsafe(lease(), server.inside.loop)
    taken = await asyncio.to_thread(taking.result, DEADLINE_S)
    try:
        yield
    finally:
        server.on_loop(taken.close)


@pytest.mark.promise(40, 41, 42, 43, 44, 47, 48)
async def test_every_dialect_streamed_and_whole(server: Lab) -> None:
    async with machine(server, "CPU"):
        for path in ROUTES:
            for stream in (True, False):
                async with asking(server.port, path, wish(path, "tiny", stream=stream)) as answer:
                    assert answer.status == 200
                    assert len(answer.call_id) == 32
                    assert told(answer) == {
                        "device": "CPU",
                        "execution-device": "CPU",
                        "routed-device": "CPU",
                        "route-reason": "single_engine_runtime",
                        "context-reason": "within_npu_limit",
                        "token-count": "21",
                    }
                    assert b"Hello" in await answer.rest()


@pytest.mark.promise(48)
async def test_the_count_is_the_one_in_the_answer(server: Lab) -> None:
    async with machine(server, "CPU"):
        async with asking(server.port, CHAT, talk("tiny", stream=False)) as answer:
            usage = (await answer.json())["usage"]
            assert told(answer)["token-count"] == str(usage["prompt_tokens"])
        async with asking(server.port, CHAT, wish(CHAT, "tiny", "x" * 60)) as answer:
            assert told(answer)["token-count"] == "79"
            assert told(answer)["context-reason"] == "prompt_exceeds_npu_limit"


@pytest.mark.promise(43, 44, 45, 46)
async def test_a_prompt_that_the_npu_counts_as_too_long_is_answered_by_the_next_device(server: Lab) -> None:
    async with machine(server, "CPU", "NPU"):
        async with asking(server.port, CHAT, wish(CHAT, "tiny")) as answer:
            assert (told(answer)["device"], told(answer)["routed-device"]) == ("NPU", "NPU")
            assert "fallback-reason" not in told(answer)
        await server.idle()  # the NPU has one slot: a call that still ends there would make it busy
        async with asking(server.port, CHAT, wish(CHAT, "tiny", "x" * 60)) as answer:
            assert answer.status == 200
            assert told(answer) == {
                "device": "CPU",
                "execution-device": "CPU",
                "routed-device": "NPU",
                "fallback-reason": "device_fallback",
                "route-reason": "single_engine_runtime",
                "context-reason": "prompt_exceeds_npu_limit",
                "token-count": "79",
            }
            assert (await answer.rest()).endswith(b"data: [DONE]\n\n")
        record = await server.record(answer.call_id)
        assert [attempt.outcome for attempt in record.attempts] == ["completed"]
        async with asking(server.port, CHAT, wish(CHAT, "tiny", "x" * 1000)) as answer:  # too long by any estimate
            assert "fallback-reason" not in told(answer)
            assert told(answer)["routed-device"] == "CPU"


@pytest.mark.promise(45, 46)
async def test_a_busy_npu_hands_on(server: Lab) -> None:
    async with (
        machine(server, "CPU", "NPU"),
        slot_of(server, "loop", "NPU"),
        asking(server.port, "/api/chat", wish("/api/chat", "loop")) as answer,
    ):
        assert told(answer)["fallback-reason"] == "busy"
        assert (told(answer)["routed-device"], told(answer)["device"]) == ("NPU", "CPU")
        assert b"Hello" in await answer.rest()


@pytest.mark.promise(45, 46)
async def test_a_driver_that_fails_hands_on_and_the_client_sees_an_answer(server: Lab) -> None:
    starts: list[str] = []

    async def start(spec: Any) -> Any:
        starts.append(spec.device)
        if spec.device == "NPU":
            raise ApiError(Kind.UPSTREAM, "the driver said no", code="load_failed")
        return await fake_start(spec)

    async with machine(server, "CPU", "NPU"):
        server.inside.services.local.pool._start = start
        for _ in range(2):
            async with asking(server.port, CHAT, wish(CHAT, "tiny")) as answer:
                assert told(answer)["fallback-reason"] == "device_fallback"
                assert b"Hello" in await answer.rest()
        assert starts == ["NPU", "CPU"]
        assert any(line["event"] == "device.left_alone" for line in server.log)


async def test_an_absent_device_is_refused_before_a_load(server: Lab) -> None:
    placing = server.inside.services.local._placing
    async with machine(server, "CPU"):
        placing._wanted = ("NPU",)
        try:
            async with asking(server.port, CHAT, wish(CHAT, "tiny")) as answer:
                assert answer.status == 501
                assert told(answer) == {}
                message = (await answer.json())["error"]["message"]
                assert "present: CPU" in message
                assert "intel_vpu" in message
        finally:
            placing._wanted = ()
        assert server.inside.services.local.running() == []


async def test_no_other_model_says_any_of_it(server: Lab) -> None:
    for path in ROUTES:
        async with asking(server.port, path, wish(path, "scripted/scripted")) as answer:
            assert answer.status == 200
            assert told(answer) == {}


async def test_a_head_that_goes_before_its_answer_names_a_device_only_if_no_other_can_answer(
    server: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(server.inside.services.engine._providers, "scripted", FakeSlow())  # type: ignore[arg-type]
    for model, known in (("one", {"device": "NPU"}), ("two", {})):
        async with asking(server.port, CHAT, wish(CHAT, model)) as answer:
            await answer.until(b": ping")
            assert told(answer) == known


async def test_a_page_may_read_them(server: Lab) -> None:
    origin = {"origin": "http://localhost:3000"}
    async with asking(server.port, CHAT, wish(CHAT, "scripted/scripted"), origin) as answer:
        exposed = answer.headers["access-control-expose-headers"].split(", ")
    assert set(HEADERS) <= set(exposed)


async def test_the_queues_are_told_by_the_server(server: Lab) -> None:
    async with machine(server, "CPU"), slot_of(server, "loop", "CPU"):
        async with asking(server.port, "/platform/v1/queues", method="GET") as answer:
            assert await answer.json() == {
                "queues": [{"model": "loop:latest", "device": "CPU", "slots": 4, "active": 1, "waiting": []}]
            }
        async with asking(server.port, "/metrics", method="GET") as answer:
            metrics = (await answer.rest()).decode()
        assert 'rivermouth_local_calls{device="CPU",state="active"} 1.0' in metrics
        assert 'rivermouth_local_oldest_wait_seconds{device="CPU"} 0.0' in metrics

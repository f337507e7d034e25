"""Which device a call gets, with a fake list of devices and fake engine processes: the chain, limits and faults."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from rivermouth.ir.errors import ApiError, Kind
from rivermouth.local.machine.devices import Devices, Seen
from rivermouth.local.machine.places import SlotLease
from rivermouth.local.machine.placing import CANNOT_LOAD, LEFT_ALONE_S, Placing
from rivermouth.local.machine.router import (
    BUSY,
    CONTEXT_HEADER,
    COUNT_HEADER,
    DEVICE_HEADER,
    EXCEEDS,
    FALLBACK,
    FALLBACK_HEADER,
    WITHIN,
    Route,
)
from rivermouth.local.models.registry import Model
from rivermouth.local.provider import LocalProvider
from tests.local.asking import asking, begin, install, text_of, whole
from tests.local.fake_engines import A, B, World, on
from tests.local.fake_machine import fake_devices, fake_start
from tests.tiny_gguf import TEXT

pytestmark = pytest.mark.anyio

LIMIT = 100


def broken(code: str = "load_failed") -> ApiError:
    """What a driver's error looks like from outside."""
    return ApiError(Kind.UPSTREAM, "the driver said no", code=code)


@pytest.fixture
async def world(anyio_backend: str) -> AsyncIterator[World]:
    made = World()
    yield made
    await made.pool.close()


def placing(world: World, *present: str, wanted: tuple[str, ...] = ()) -> Placing:
    return Placing(
        world.pool, fake_devices(*present), wanted=wanted, npu_tokens=LIMIT, clock=lambda: world.now
    )  # fmt: skip


async def way(of: Placing, tokens: int, model: Model = A) -> Route:
    """How a call went that has ended at once."""
    with await of.lease(model, tokens) as lease:
        return lease.route


@pytest.mark.promise(43, 44)
async def test_the_best_device_that_is_here_and_takes_the_prompt(world: World) -> None:
    machine = placing(world, "CPU", "GPU", "NPU")
    assert await way(machine, 10) == on("NPU")
    assert await way(machine, 10_000) == Route("GPU", "GPU", EXCEEDS)
    assert [engine.spec.device for engine in world.engines] == ["NPU", "GPU"]
    assert await way(placing(world, "CPU", "NPU", wanted=("cpu", "npu")), 10) == on("CPU")


async def test_an_estimate_alone_turns_no_prompt_away_that_may_fit(world: World) -> None:
    """It may be a third too high; the process counts."""
    assert (await way(placing(world, "CPU", "NPU"), LIMIT * 4 // 3)).device == "NPU"
    assert (await way(placing(world, "CPU", "NPU"), LIMIT * 4 // 3 + 2)).device == "CPU"


@pytest.mark.promise(45, 46)
async def test_what_the_npu_counts_as_too_long_goes_on_and_frees_its_slot(world: World) -> None:
    asked: list[str] = []

    async def count(lease: SlotLease) -> int:
        asked.append(lease.route.device)
        return LIMIT + 1

    with await placing(world, "CPU", "GPU", "NPU").lease(A, 10, None, count) as lease:
        assert lease.route == Route("NPU", "GPU", EXCEEDS, FALLBACK)
        assert lease.loaded.engine.device == "GPU"
    assert asked == ["NPU"]
    assert world.pool.statistics()["active"] == 0


async def test_a_prompt_that_fits_as_counted_stays(world: World) -> None:
    async def count(lease: SlotLease) -> int:
        return LIMIT

    with await placing(world, "CPU", "NPU").lease(A, 10, None, count) as lease:
        assert lease.route == on("NPU")


async def test_where_no_npu_is_routed_to_nothing_is_counted(world: World) -> None:
    async def count(lease: SlotLease) -> int:
        raise AssertionError("the engine counts it anyway")

    with await placing(world, "CPU").lease(A, 10, None, count) as lease:
        assert lease.route == on("CPU")


async def test_a_count_that_fails_frees_the_slot(world: World) -> None:
    async def count(lease: SlotLease) -> int:
        raise ApiError(Kind.INVALID_REQUEST, "no such thing")

    with pytest.raises(ApiError, match="no such thing"):
        await placing(world, "CPU", "NPU").lease(A, 10, None, count)
    assert world.pool.statistics()["active"] == 0


async def test_too_long_for_the_npu_alone_is_the_clients_error(world: World) -> None:
    async def count(lease: SlotLease) -> int:
        return LIMIT + 1

    alone = placing(world, "CPU", "NPU", wanted=("NPU",))
    for estimated in (10, 10_000):
        with pytest.raises(ApiError) as refused:
            await alone.lease(A, estimated, None, count)
        assert (refused.value.kind, refused.value.code) == (Kind.INVALID_REQUEST, "context_length_exceeded")
    assert world.pool.statistics()["active"] == 0


async def test_an_absent_device_is_refused_before_anything_is_loaded(world: World) -> None:
    with pytest.raises(ApiError) as refused:
        await way(placing(world, "CPU", wanted=("NPU", "GPU")), 10)
    assert refused.value.code == "device_absent"
    assert "present: CPU" in refused.value.message
    assert "level-zero" in refused.value.message
    assert world.engines == []


@pytest.mark.promise(45, 46)
async def test_an_absent_first_choice_is_a_fallback(world: World) -> None:
    assert await way(placing(world, "CPU", wanted=("NPU", "CPU")), 10) == Route("NPU", "CPU", WITHIN, FALLBACK)


@pytest.mark.promise(45, 46)
async def test_a_device_that_cannot_load_is_left_for_the_next_and_remembered(world: World) -> None:
    machine = placing(world, "CPU", "GPU", "NPU")
    world.failures = {"NPU": broken(), "GPU": broken("engine_died")}
    loads: list[str] = []
    start = world.pool._start

    async def noted(spec):  # type: ignore[no-untyped-def]
        loads.append(spec.device)
        return await start(spec)

    world.pool._start = noted
    assert await way(machine, 10) == Route("NPU", "CPU", WITHIN, FALLBACK)
    assert loads == ["NPU", "GPU", "CPU"]
    assert await way(machine, 10) == Route("NPU", "CPU", WITHIN, FALLBACK)
    assert loads == ["NPU", "GPU", "CPU"]  # nobody is asked who could not a moment ago
    world.failures = {}
    world.now += LEFT_ALONE_S
    assert await way(machine, 10) == on("NPU")
    assert loads == ["NPU", "GPU", "CPU", "NPU"]


async def test_what_one_model_cannot_another_may(world: World) -> None:
    machine = placing(world, "CPU", "NPU")
    world.failures = {"NPU": broken()}
    assert (await way(machine, 10)).device == "CPU"
    world.failures = {}
    assert (await way(machine, 10, B)).device == "NPU"


@pytest.mark.parametrize("code", sorted(CANNOT_LOAD))
async def test_where_no_device_is_left_the_reason_is_told_and_the_next_call_tries_again(
    world: World, code: str
) -> None:
    machine = placing(world, "CPU", "NPU")
    world.failures = {"NPU": broken(), "CPU": broken(code)}
    for _ in range(2):
        with pytest.raises(ApiError) as failed:
            await way(machine, 10)
        assert failed.value.code in (code, "load_failed")
    world.failures = {}
    assert (await way(machine, 10)).device in ("CPU", "NPU")


async def test_a_load_that_takes_too_long_counts_as_one_that_fails(world: World) -> None:
    world.failures = {"NPU": ApiError(Kind.TIMEOUT, "not loaded", clock="load")}
    assert (await way(placing(world, "CPU", "NPU"), 10)).fallback_reason == FALLBACK


@pytest.mark.parametrize("code", ["engine_not_installed", "models_busy", None])
async def test_what_another_device_would_not_change_is_told_at_once(world: World, code: str | None) -> None:
    world.failure = ApiError(Kind.INTERNAL, "no", code=code)
    with pytest.raises(ApiError, match="no"):
        await way(placing(world, "CPU", "NPU"), 10)
    world.failure = None
    assert (await way(placing(world, "CPU", "NPU"), 10)).device == "NPU"


@pytest.mark.promise(45, 46)
async def test_a_busy_device_hands_on_to_one_that_has_room(world: World) -> None:
    machine = placing(world, "CPU", "NPU")
    with await machine.lease(A, 10) as first:
        assert first.route == on("NPU")
        held = [await machine.lease(A, 10) for _ in range(2)]
        assert [lease.route for lease in held] == [Route("NPU", "CPU", WITHIN, BUSY)] * 2
        waiting = asyncio.create_task(machine.lease(A, 10))  # all are taken: it waits for the device it was routed to
        await world.settle()
        assert [(q.device, len(q.waiting)) for q in world.pool.queues()] == [("CPU", 0), ("NPU", 1)]
    with await waiting as last:
        assert last.route == on("NPU")
    for lease in held:
        lease.close()


async def test_a_second_copy_pushes_no_model_out_that_is_in_use(world: World) -> None:
    machine = placing(world, "CPU", "NPU")
    with await world.pool.lease(B, on("CPU")), await machine.lease(A, 10):
        waiting = asyncio.create_task(machine.lease(A, 10))
        await world.settle()
        assert not waiting.done()
        assert len(world.engines) == 2
    assert (await waiting).route == on("NPU")
    (await waiting).close()


async def test_without_memory_for_a_second_copy_a_call_waits_at_the_first(world: World) -> None:
    machine = placing(world, "CPU", "NPU")
    with await machine.lease(A, 10):
        world.failures = {"CPU": broken("not_enough_memory")}
        waiting = asyncio.create_task(machine.lease(A, 10))
        await world.settle()
        assert [(queue.device, len(queue.waiting)) for queue in world.pool.queues()] == [("NPU", 1)]
    with await waiting as lease:
        assert lease.route == on("NPU")


async def test_vectors_are_made_where_an_encoder_runs(world: World) -> None:
    encoder = Model(A.name, msgspec.structs.replace(A.manifest, kind="embedding"), A.folder)
    assert await way(placing(world, "CPU", "GPU", "NPU"), 0, encoder) == on("GPU")
    assert await way(placing(world, "CPU", "GPU", "NPU", wanted=("NPU",)), 0, encoder) == on("CPU")


async def test_a_model_is_warmed_where_a_short_prompt_goes(world: World) -> None:
    world.failures = {"NPU": broken()}
    await placing(world, "CPU", "GPU", "NPU").load(A)
    assert [queue.device for queue in world.pool.queues()] == ["GPU"]


async def test_with_the_cpu_alone_the_machine_is_not_asked(world: World) -> None:
    async def ask() -> Seen:
        raise AssertionError("nothing depends on it")

    with await Placing(world.pool, Devices(ask), wanted=("cpu",)).lease(A, 10_000) as lease:
        assert lease.route == Route("CPU", "CPU", EXCEEDS)


@pytest.mark.promise(43, 44, 45, 46)
async def test_the_provider_takes_a_fake_list_and_answers_on_it(data_dir: Path, files: dict[str, Path]) -> None:
    """Real processes on the CPU that say they are where they were meant to be."""
    local = LocalProvider(data_dir / "models", devices=fake_devices("CPU", "GPU.1", "NPU"), npu_tokens=40, max_models=3)
    for name in ("tiny", "short"):
        install(local.registry, name, files[name])
    local.pool._start = fake_start
    short = await begin(local, "tiny", asking("Hi"))
    assert text_of(await whole(short)) == TEXT
    assert short.headers[DEVICE_HEADER] == "NPU"
    assert FALLBACK_HEADER not in short.headers
    long = await begin(local, "tiny", asking("x" * 60))
    assert text_of(await whole(long)) == TEXT
    assert (long.headers[DEVICE_HEADER], long.headers[FALLBACK_HEADER]) == ("GPU.1", FALLBACK)
    assert (long.headers[CONTEXT_HEADER], long.headers[COUNT_HEADER]) == (EXCEEDS, "79")
    assert [one.device for one in local.pool.running()] == ["GPU.1", "NPU"]
    with pytest.raises(ApiError) as refused:  # the count says that no device can take it, so none is tried
        await begin(local, "short", asking("x" * 100))
    assert refused.value.code == "context_length_exceeded"
    assert [one.device for one in local.pool.running() if one.model.name.name == "short"] == ["NPU"]
    # as Ollama tells it: each once
    assert [model.id for model in local.running()] == ["short:latest", "tiny:latest"]
    await local.close()

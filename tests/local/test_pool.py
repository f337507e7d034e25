"""Which processes run: one load for all, keep-alive by a fake timer, limits, replacement, a model that keeps dying."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from rivermouth.ir.errors import ApiError, Kind
from rivermouth.local.machine.places import Queue, Waiting
from rivermouth.local.machine.pool import CRASH_WINDOW_S, CRASHES
from tests.local.fake_engines import CPU, GPU, NPU, A, B, C, World

pytestmark = pytest.mark.anyio


@pytest.fixture
async def world(anyio_backend: str) -> AsyncIterator[World]:
    made = World()
    yield made
    made.gate.set()
    made.may_stop.set()
    await made.pool.close()


async def test_all_who_ask_share_one_load(world: World) -> None:
    world.gate.clear()
    asked = [asyncio.create_task(world.pool.load(A, "CPU")) for _ in range(5)]
    await asyncio.sleep(0)
    asked[0].cancel()
    world.gate.set()
    loaded = await asyncio.gather(*asked, return_exceptions=True)
    assert isinstance(loaded[0], asyncio.CancelledError)
    assert len(set(map(id, loaded[1:]))) == 1
    assert len(world.engines) == 1


async def test_a_load_that_fails_fails_for_all_and_is_tried_again(world: World) -> None:
    world.failure = ApiError(Kind.UPSTREAM, "no", code="load_failed")
    for _ in range(5):
        with pytest.raises(ApiError, match="no"):
            await world.pool.load(A, "CPU")
    world.failure = None
    await world.pool.load(A, "CPU")
    assert world.loaded() == ["a"]


async def test_an_idle_model_goes_after_its_time(world: World) -> None:
    with await world.pool.lease(A, CPU):
        assert world.waiting_timers() == []
        assert world.pool.running()[0].expires_at == world.now + 300
    (timer,) = world.waiting_timers()
    assert timer.delay_s == 300
    assert world.pool.running()[0].expires_at == world.now + 300
    await world.fire()
    assert world.loaded() == []
    assert not world.engines[0].alive


async def test_the_last_call_says_how_long(world: World) -> None:
    with await world.pool.lease(A, CPU, 60):
        pass
    assert [timer.delay_s for timer in world.waiting_timers()] == [60]
    with await world.pool.lease(A, CPU, -1):
        pass
    assert world.waiting_timers() == []
    assert world.pool.running()[0].expires_at is None
    with await world.pool.lease(A, CPU, 0):
        pass
    await world.fire()
    assert world.loaded() == []


async def test_a_timer_that_fires_late_harms_no_call(world: World) -> None:
    with await world.pool.lease(A, CPU):
        pass
    (timer,) = world.waiting_timers()
    with await world.pool.lease(A, CPU):
        timer.callback()
        assert world.loaded() == ["a"]


async def test_calls_wait_in_order_and_no_more_than_may(world: World) -> None:
    order: list[int] = []
    go = asyncio.Event()

    async def call(number: int) -> None:
        with await world.pool.lease(A, CPU):
            order.append(number)
            await go.wait()

    await world.pool.load(A, "CPU")
    calls = [asyncio.create_task(call(number)) for number in range(3)]
    while len(order) < 2:
        await asyncio.sleep(0)
    assert world.pool.statistics() == {"models": 1, "loading": 0, "active": 2, "waiting": 1}
    with pytest.raises(ApiError) as full, await world.pool.lease(A, CPU):
        pass
    assert full.value.kind is Kind.OVERLOADED
    assert full.value.retry_after_s is not None
    go.set()
    await asyncio.gather(*calls)
    assert order == [0, 1, 2]


async def test_a_call_that_leaves_the_queue_frees_its_place(world: World) -> None:
    go = asyncio.Event()

    async def call() -> None:
        with await world.pool.lease(A, CPU):
            await go.wait()

    await world.pool.load(A, "CPU")
    calls = [asyncio.create_task(call()) for _ in range(3)]
    while world.pool.statistics()["waiting"] != 1:
        await asyncio.sleep(0)
    calls[2].cancel()
    await asyncio.wait([calls[2]])
    assert world.pool.statistics() == {"models": 1, "loading": 0, "active": 2, "waiting": 0}
    go.set()
    await asyncio.gather(*calls[:2])
    assert len(world.waiting_timers()) == 1


async def test_another_model_takes_the_place_of_the_longest_idle(world: World) -> None:
    await world.pool.load(A, "CPU")
    world.now += 1
    await world.pool.load(B, "CPU")
    world.now += 1
    await world.pool.load(C, "CPU")
    assert world.loaded() == ["b", "c"]


async def test_busy_models_are_not_taken(world: World) -> None:
    with await world.pool.lease(A, CPU), await world.pool.lease(B, CPU):
        with pytest.raises(ApiError) as busy:
            await world.pool.load(C, "CPU")
        assert busy.value.kind is Kind.OVERLOADED
    await world.pool.load(C, "CPU")


async def test_a_dead_process_is_replaced_but_not_for_ever(world: World) -> None:
    for _ in range(CRASHES):
        await world.pool.load(A, "CPU")
        world.engines[-1].die()
        assert world.loaded() == []
        world.now += 1
    with pytest.raises(ApiError) as left_alone:
        await world.pool.load(A, "CPU")
    assert left_alone.value.kind is Kind.OVERLOADED
    assert left_alone.value.retry_after_s == CRASH_WINDOW_S - CRASHES
    await world.pool.load(B, "CPU")
    world.now += CRASH_WINDOW_S
    await world.pool.load(A, "CPU")
    assert world.loaded() == ["a", "b"]


async def test_one_that_had_answered_before_it_died_is_replaced_as_often_as_it_takes(world: World) -> None:
    for _ in range(CRASHES * 2):
        await world.pool.load(A, "CPU")
        world.engines[-1].answered = 1
        world.engines[-1].die()
    await world.pool.load(A, "CPU")
    assert world.loaded() == ["a"]


async def test_a_model_that_is_being_loaded_has_its_place_already(world: World) -> None:
    world.limit(max_models=1)
    world.gate.clear()
    asked = [asyncio.create_task(world.pool.load(model, "CPU")) for model in (A, B, C)]
    await world.settle()
    world.gate.set()
    loaded = await asyncio.gather(*asked, return_exceptions=True)
    assert world.loaded() == ["a"]
    assert len(world.engines) == 1
    for refused in loaded[1:]:
        assert isinstance(refused, ApiError)
        assert (refused.kind, refused.code) == (Kind.OVERLOADED, "models_busy")
        assert refused.retry_after_s


async def test_two_loads_at_once_take_two_places(world: World) -> None:
    await world.pool.load(A, "CPU")
    world.gate.clear()
    asked = [asyncio.create_task(world.pool.load(model, "CPU")) for model in (B, C)]
    await world.settle()
    world.gate.set()
    await asyncio.gather(*asked)
    assert world.loaded() == ["b", "c"]
    assert world.running() == 2


async def test_what_was_loaded_for_a_call_is_there_for_it(world: World) -> None:
    """Another model that is asked for in the same moment does not take its place."""
    world.limit(max_models=1)
    world.gate.clear()
    first = asyncio.create_task(world.pool.lease(A, CPU))
    await world.settle()
    world.gate.set()
    while not world.loaded():
        await asyncio.sleep(0)
    with pytest.raises(ApiError, match="in use"):
        await world.pool.load(B, "CPU")
    with await first as lease:
        assert lease.loaded.engine.alive


async def test_a_process_starts_when_the_one_in_its_place_has_ended(world: World) -> None:
    world.limit(max_models=1)
    await world.pool.load(A, "CPU")
    world.may_stop.clear()
    asked = asyncio.create_task(world.pool.load(B, "CPU"))
    while world.loaded():
        await asyncio.sleep(0)
    await world.settle()
    assert len(world.engines) == 1
    world.may_stop.set()
    await asked
    assert (world.loaded(), world.running()) == (["b"], 1)


async def test_keep_alive_zero_loads_once_for_a_call(world: World) -> None:
    world.limit(keep_alive_s=0)
    with await world.pool.lease(A, CPU):
        assert world.timers == []
    await world.fire()
    assert len(world.engines) == 1
    assert world.loaded() == []


async def test_a_call_that_comes_with_the_expiry_gets_a_living_process(world: World) -> None:
    with await world.pool.lease(A, CPU):
        pass
    (timer,) = world.waiting_timers()
    world.may_stop.clear()
    timer.callback()  # its task has not taken a step yet
    coming = asyncio.create_task(world.pool.lease(A, CPU))
    await world.settle()
    world.may_stop.set()
    with await coming as lease:
        assert lease.loaded.engine.alive
    assert [engine.alive for engine in world.engines] == [False, True]


async def test_a_call_waits_for_its_turn_so_long_and_no_longer(world: World) -> None:
    world.limit(wait_s=0)
    with await world.pool.lease(A, CPU), await world.pool.lease(A, CPU):
        with pytest.raises(ApiError) as late:
            await world.pool.lease(A, CPU)
        assert (late.value.kind, late.value.code) == (Kind.OVERLOADED, "queue_timeout")
        assert late.value.retry_after_s
        assert world.pool.statistics()["waiting"] == 0
    with await world.pool.lease(A, CPU):
        assert world.pool.statistics()["active"] == 1


async def test_a_call_that_leaves_as_its_turn_comes_passes_it_on(world: World) -> None:
    world.limit(max_waiting=2)
    held = [await world.pool.lease(A, CPU) for _ in range(2)]
    waiting = [asyncio.create_task(world.pool.lease(A, CPU)) for _ in range(2)]
    await world.settle()
    held[0].close()
    waiting[0].cancel()
    with await waiting[1]:
        assert world.pool.statistics() == {"models": 1, "loading": 0, "active": 2, "waiting": 0}
    held[1].close()
    assert world.pool.statistics() == {"models": 1, "loading": 0, "active": 0, "waiting": 0}


async def test_calls_that_wait_for_the_load_are_counted_too(world: World) -> None:
    world.gate.clear()
    calls = [asyncio.create_task(world.pool.lease(A, CPU)) for _ in range(3)]
    await world.settle()
    with pytest.raises(ApiError) as full:
        await world.pool.lease(A, CPU)
    assert full.value.code == "queue_full"
    world.gate.set()
    for call in calls:
        (await call).close()
    assert world.pool.statistics() == {"models": 1, "loading": 0, "active": 0, "waiting": 0}


async def test_a_model_whose_callers_have_all_left_expires(world: World) -> None:
    world.gate.clear()
    call = asyncio.create_task(world.pool.lease(A, CPU))
    await world.settle()
    call.cancel()
    await asyncio.wait([call])
    assert world.pool.statistics()["waiting"] == 0
    world.gate.set()
    while not world.loaded():
        await asyncio.sleep(0)
    await world.fire()
    assert world.loaded() == []


async def test_a_process_that_died_is_replaced_for_those_who_waited(world: World) -> None:
    held = [await world.pool.lease(A, CPU) for _ in range(2)]
    waiting = asyncio.create_task(world.pool.lease(A, CPU))
    while world.pool.statistics()["waiting"] != 1:
        await asyncio.sleep(0)
    world.engines[0].die()
    held[0].close()
    with await waiting as lease:
        assert lease.loaded.engine.alive
        held[1].close()
        assert world.pool.statistics() == {"models": 1, "loading": 0, "active": 1, "waiting": 0}
    assert len(world.engines) == 2


async def test_a_lease_counts_until_its_last_holder_closes_it(world: World) -> None:
    lease = await world.pool.lease(A, CPU)
    heir = lease.hand_over()
    lease.close()
    assert world.pool.statistics()["active"] == 1
    with pytest.raises(RuntimeError):
        lease.hand_over()
    heir.close()
    heir.close()
    assert world.pool.statistics()["active"] == 0
    with await world.pool.lease(A, CPU), await world.pool.lease(A, CPU):
        assert world.pool.statistics() == {"models": 1, "loading": 0, "active": 2, "waiting": 0}


async def test_an_unload_goes_on_without_the_one_who_asked(world: World) -> None:
    await world.pool.load(A, "CPU")
    world.may_stop.clear()
    asked = asyncio.create_task(world.pool.unload(A.manifest.digest))
    await asyncio.sleep(0)
    asked.cancel()
    await asyncio.wait([asked])
    world.may_stop.set()
    await asyncio.gather(*world.pool._endings)
    assert world.running() == 0


async def test_release_waits_for_the_calls(world: World) -> None:
    assert not await world.pool.release(A.manifest.digest)
    with await world.pool.lease(A, CPU):
        assert await world.pool.release(A.manifest.digest)
        assert world.loaded() == ["a"]
    await world.fire()
    assert world.loaded() == []
    await world.pool.load(A, "CPU")
    assert await world.pool.release(A.manifest.digest)
    assert world.loaded() == []


async def test_after_close_nothing_is_loaded(world: World) -> None:
    await world.pool.load(A, "CPU")
    await world.pool.close()
    assert not world.engines[0].alive
    with pytest.raises(ApiError):
        await world.pool.load(A, "CPU")


async def test_close_stops_a_load(world: World) -> None:
    world.gate.clear()
    asked = asyncio.create_task(world.pool.load(A, "CPU"))
    await asyncio.sleep(0)
    await world.pool.close()
    with pytest.raises(ApiError) as stopped:
        await asked
    assert stopped.value.code == "shutting_down"


async def test_the_load_is_told_once(world: World) -> None:
    loaded = await world.pool.load(A, "CPU")
    assert (loaded.take_load_ns(), loaded.take_load_ns()) == (5, 0)


async def test_a_model_on_another_device_is_another_process_with_a_queue_of_its_own(world: World) -> None:
    held = [await world.pool.lease(A, CPU) for _ in range(2)]
    waiting = asyncio.create_task(world.pool.lease(A, CPU))
    with await world.pool.lease(A, GPU) as lease:
        assert lease.loaded.engine.device == "GPU"
        assert lease.route is GPU
        assert len(world.engines) == 2
        world.now += 7
        assert world.pool.queues() == [
            Queue(model="a:latest", device="CPU", slots=2, active=2, waiting=(Waiting(1, 7.0),)),
            Queue(model="a:latest", device="GPU", slots=2, active=1, waiting=()),
        ]
    for one in held:
        one.close()
    (await waiting).close()
    assert [(queue.device, queue.active, queue.waiting) for queue in world.pool.queues()] == [
        ("CPU", 0, ()), ("GPU", 0, ())
    ]  # fmt: skip
    assert await world.pool.unload(A.manifest.digest)
    assert world.pool.queues() == []
    assert world.running() == 0


async def test_those_who_wait_are_told_in_order_with_their_age(world: World) -> None:
    world.limit(max_waiting=3)
    held = [await world.pool.lease(A, CPU) for _ in range(2)]
    waiting = []
    for _ in range(3):
        waiting.append(asyncio.create_task(world.pool.lease(A, CPU)))
        await world.settle()
        world.now += 1
    (queue,) = world.pool.queues()
    assert queue.waiting == (Waiting(1, 3.0), Waiting(2, 2.0), Waiting(3, 1.0))
    held[0].close()
    first = await waiting[0]
    (queue,) = world.pool.queues()
    assert queue.waiting == (Waiting(1, 2.0), Waiting(2, 1.0))
    for lease in (held[1], first):
        lease.close()
    for task in waiting[1:]:
        (await task).close()


async def test_an_npu_makes_one_answer_at_a_time(world: World) -> None:
    with await world.pool.lease(A, NPU):
        assert world.pool.busy(A, "NPU")
        waiting = asyncio.create_task(world.pool.lease(A, NPU))
        await world.settle()
        with pytest.raises(ApiError) as full:
            await world.pool.lease(A, NPU)
        assert full.value.code == "queue_full"
    (await waiting).close()
    assert not world.pool.busy(A, "NPU")


async def test_a_device_is_busy_when_its_slots_are_wanted_or_nothing_more_can_be_loaded(world: World) -> None:
    assert not world.pool.busy(A, "CPU")
    world.gate.clear()
    coming = [asyncio.create_task(world.pool.lease(A, CPU)) for _ in range(2)]
    await world.settle()
    assert world.pool.busy(A, "CPU")  # those that wait for the load have its slots
    assert not world.pool.busy(A, "GPU")
    world.gate.set()
    leases = [await task for task in coming]
    with await world.pool.lease(B, CPU):
        assert world.pool.busy(A, "GPU")  # two places, both in use
    assert not world.pool.busy(A, "GPU")  # that of the idle one can be had
    for lease in leases:
        lease.close()


async def test_release_and_rename_reach_every_device(world: World) -> None:
    with await world.pool.lease(A, CPU):
        await world.pool.load(A, "GPU")
        assert await world.pool.release(A.manifest.digest)
        assert [queue.device for queue in world.pool.queues()] == ["CPU"]
    await world.fire()
    assert world.running() == 0

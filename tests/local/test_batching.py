"""Who is given to the engine when, in a memory that has no room for all; against a fake of the engine's pipeline."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rivermouth.local.inference.batching import BatchingPipeline, block_of, blocks_for


class FakeHandle:
    def __init__(self) -> None:
        self.left = 2
        self.dropped = False

    def can_read(self) -> bool:
        return True

    def read(self) -> str:
        return "output"

    def get_status(self) -> Any:
        return SimpleNamespace(name="RUNNING" if self.left > 0 else "FINISHED")

    def cancel(self) -> None:
        self.dropped = True

    stop = cancel


class FakePipeline:
    """Every request takes two steps; a cancelled one goes at the next."""

    def __init__(self) -> None:
        self.live: dict[int, FakeHandle] = {}
        self.begun: list[int] = []
        self.steps = 0

    def get_tokenizer(self) -> str:
        return "tokenizer"

    def add_request(self, identity: int, tokens: Any, config: Any) -> FakeHandle:
        self.begun.append(identity)
        self.live[identity] = FakeHandle()
        return self.live[identity]

    def has_non_finished_requests(self) -> bool:
        return bool(self.live)

    def step(self) -> None:
        self.steps += 1
        for handle in self.live.values():
            handle.left -= 1
        self.live = {i: handle for i, handle in self.live.items() if handle.left > 0 and not handle.dropped}


@pytest.fixture
def native() -> FakePipeline:
    return FakePipeline()


@pytest.fixture
def pipeline(native: FakePipeline) -> BatchingPipeline:
    return BatchingPipeline(native, 10, 32)


def add(pipeline: BatchingPipeline, identity: int, prompt: int, answer: int) -> Any:
    return pipeline.add_request(identity, SimpleNamespace(shape=(1, prompt)), SimpleNamespace(max_new_tokens=answer))


def test_room_is_counted_in_whole_blocks_of_prompt_and_longest_answer(
    pipeline: BatchingPipeline, native: FakePipeline
) -> None:
    add(pipeline, 1, 1, 32)
    pipeline.step()
    assert pipeline.statistics() == {"waiting": 0, "blocks": 10, "taken": 2}
    assert (block_of("CPU"), block_of("GPU.1"), blocks_for(33, 32)) == (32, 16, 2)
    assert pipeline.get_tokenizer() == "tokenizer"


def test_those_that_do_not_fit_stand_in_line_and_nobody_overtakes(
    pipeline: BatchingPipeline, native: FakePipeline
) -> None:
    for identity, blocks in ((1, 8), (2, 8), (3, 1)):
        add(pipeline, identity, 1, blocks * 32 - 1)
    waiting = add(pipeline, 4, 1, 31)
    pipeline.step()
    assert native.begun == [1]
    assert (waiting.can_read(), waiting.get_status().name) == (False, "RUNNING")
    pipeline.step()
    assert native.begun == [1], "the step that ended the first had begun without it"
    pipeline.step()
    assert native.begun == [1, 2, 3, 4], "the large one in its turn, and the small ones that fit beside it"
    assert (waiting.can_read(), waiting.read()) == (True, "output")
    pipeline.step()
    assert not pipeline.has_non_finished_requests()
    assert pipeline.statistics()["taken"] == 0


def test_one_that_would_never_fit_is_refused_by_itself(pipeline: BatchingPipeline) -> None:
    with pytest.raises(ValueError, match="11 blocks"):
        add(pipeline, 1, 320, 1)
    assert not pipeline.has_non_finished_requests()


def test_room_of_a_cancelled_one_is_free_behind_the_step_that_puts_it_away(
    pipeline: BatchingPipeline, native: FakePipeline
) -> None:
    first, second = add(pipeline, 1, 1, 319), add(pipeline, 2, 1, 319)
    third = add(pipeline, 3, 1, 319)
    pipeline.step()
    first.cancel()
    second.cancel()
    assert native.begun == [1]
    pipeline.step()
    assert pipeline.statistics()["taken"] == 0
    pipeline.step()
    assert native.begun == [1, 3], "the second was never begun"
    third.stop()
    pipeline.step()
    assert not pipeline.has_non_finished_requests()


def test_what_only_waits_and_is_not_wanted_keeps_nobody_busy(pipeline: BatchingPipeline, native: FakePipeline) -> None:
    add(pipeline, 1, 1, 1).cancel()
    assert not pipeline.has_non_finished_requests()
    pipeline.step()
    assert (native.begun, native.steps) == ([], 0)

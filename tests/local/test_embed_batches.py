"""Which texts share a step."""

from __future__ import annotations

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from rivermouth.local.embedding.batches import STEP_TEXTS, STEP_TOKENS, Item, in_order, pick

CALLS = st.lists(st.lists(st.integers(2, 512), max_size=60), max_size=5)


def queue(call: int, lengths: list[int]) -> deque[Item]:
    return in_order(Item(call, at, (0,) * length) for at, length in enumerate(lengths))


@given(CALLS)
def test_every_text_once_and_no_step_too_large(calls: list[list[int]]) -> None:
    queues = [queue(call, lengths) for call, lengths in enumerate(calls)]
    taken: list[Item] = []
    while batch := pick(queues):
        longest = max(len(item.ids) for item in batch)
        assert len(batch) <= STEP_TEXTS
        assert len(batch) == 1 or longest * len(batch) <= STEP_TOKENS
        taken += batch
    assert not any(queues)
    wanted = sorted((call, at) for call, lengths in enumerate(calls) for at in range(len(lengths)))
    assert sorted((item.call, item.at) for item in taken) == wanted


def test_texts_of_like_length_go_together() -> None:
    one = queue(1, [10, 500, 10, 480, 10])
    assert [item.at for item in pick([one])] == [1, 3]
    assert [item.at for item in pick([one])] == [0, 2, 4]


def test_the_room_that_is_left_goes_to_others() -> None:
    queues = [queue(1, [256]), queue(2, [400, 100, 100, 100]), queue(3, [5])]
    assert [(item.call, item.at) for item in pick(queues)] == [(1, 0), (2, 0)]
    queues = [queue(1, [256]), queue(2, [256, 200, 100, 100]), queue(3, [5])]
    assert [item.call for item in pick(queues)] == [1, 2, 2, 2]


def test_a_text_larger_than_a_step_goes_alone() -> None:
    assert len(pick([queue(1, [STEP_TOKENS + 1, 2])])) == 1

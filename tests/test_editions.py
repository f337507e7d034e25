"""When the providers of a replaced edition are closed: once, when the last has left, and no other edition has them."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from rivermouth.config import Config
from rivermouth.editions import Edition, Editions, Parts

pytestmark = pytest.mark.anyio


class FakeProvider:
    def __init__(self, name: str, error: Exception | None = None) -> None:
        self.name = name
        self.closed = 0
        self._error = error

    async def close(self) -> None:
        self.closed += 1
        if self._error is not None:
            raise self._error


def edition(*providers: FakeProvider) -> Edition:
    """With these providers, of which one that is called "local" lives as long as the process."""
    nothing: Any = SimpleNamespace(inflight=set())
    named: Any = {provider.name: provider for provider in providers}
    parts = Parts(
        config=Config(),
        providers=named,
        catalog=nothing,
        engine=nothing,
        chooser=nothing,
        shared=frozenset({"local"}),
    )
    return Edition(parts)


async def settled() -> None:
    """What was begun on the loop has ended: closing a fake takes one turn of it."""
    for _ in range(3):
        await asyncio.sleep(0)


async def test_they_are_closed_when_the_last_has_left() -> None:
    old, kept, local = FakeProvider("old"), FakeProvider("kept"), FakeProvider("local")
    first = edition(local, old, kept)
    async with Editions(first) as editions:
        with first, first:
            editions.replace(edition(local, kept))
            with editions.current:
                await settled()
                assert (old.closed, first.users) == (0, 2)
        await settled()
        assert (old.closed, kept.closed, local.closed) == (1, 0, 0)
        assert editions.living() == (editions.current,)
    assert (old.closed, kept.closed, local.closed) == (1, 1, 0)


async def test_one_that_nobody_is_in_is_over_at_once() -> None:
    old = FakeProvider("old")
    async with Editions(edition(old)) as editions:
        editions.replace(edition())
        await settled()
        assert old.closed == 1


async def test_one_that_two_editions_had_is_closed_after_both() -> None:
    old = FakeProvider("old")
    first, second = edition(old), edition(old)
    async with Editions(first) as editions:
        with second:
            with first:
                editions.replace(second)
                editions.replace(edition())
            await settled()
            assert old.closed == 0
        await settled()
        assert old.closed == 1


async def test_at_the_end_all_are_closed_also_where_somebody_is_still_in() -> None:
    old, new = FakeProvider("old"), FakeProvider("new")
    first = edition(old)
    first.__enter__()
    async with Editions(first) as editions:
        editions.replace(edition(new))
    assert (old.closed, new.closed) == (1, 1)
    first.__exit__(None, None, None)
    await settled()
    assert old.closed == 1


async def test_one_that_cannot_be_closed_is_told_of() -> None:
    with capture_logs() as log:
        async with Editions(edition(FakeProvider("old", OSError("stuck")), FakeProvider("other"))):
            pass
    assert [(line["event"], line["provider"]) for line in log] == [("provider.unclosed", "old")]

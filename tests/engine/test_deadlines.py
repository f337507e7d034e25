"""The clocks to the millisecond, on a loop whose time jumps."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rivermouth.engine.deadlines import KEEP_ALIVE_S, WORDS, Deadlines, Limits, timed_out
from rivermouth.ir.errors import ApiError, Kind
from tests.engine.jumping import jump

LIMITS = Limits(first_token_s=60, idle_s=20, total_s=600, hold_s=15)


class Watched:
    """One attempt's clocks: `at` and `clock` say when and by which it expired; `lives` when it showed life."""

    def __init__(self, limits: Limits = LIMITS, *, quiet: bool = False) -> None:
        self.at: float | None = None
        self.clock: str | None = None
        self.lives: list[float] = []
        self._loop = asyncio.get_running_loop()
        self.clocks = Deadlines(limits, limits.total_s, self._expired, self._quiet if quiet else None)

    def _expired(self, error: ApiError) -> None:
        assert self.at is None, "expired twice"
        self.at, self.clock = self._loop.time(), error.clock

    def _quiet(self) -> None:
        self.lives.append(self._loop.time())

    async def content(self, *times: float) -> None:
        """Content comes at these times and is taken at once: with a wait that took no time, and without one."""
        for number, time in enumerate(times):
            await until(time)
            if number % 2:
                self.clocks.content()
                self.clocks.sending()
                self.clocks.sent()
            else:
                self.clocks.passed(content=True, written=True)

    async def blocked(self, since: float, to: float) -> None:
        """Content comes, and the client takes it only at `to`."""
        await until(since)
        self.clocks.content()
        self.clocks.sending()
        await until(to)
        self.clocks.sent()

    async def ended(self) -> tuple[float | None, str | None]:
        await until(10_000)
        return (None if self.at is None else round(self.at, 3)), self.clock


async def until(time: float) -> None:
    await asyncio.sleep(time - asyncio.get_running_loop().time())


def test_without_content_the_first_token_clock_runs_out() -> None:
    async def run() -> None:
        assert await Watched().ended() == (60, "first_token")

    jump(run())


@pytest.mark.parametrize(("times", "at"), [((1,), 21), ((1, 5, 24), 44), ((59,), 79), ((1, 21 - 0.01), 40.99)])
def test_after_content_only_content_winds_the_idle_clock(times: tuple[float, ...], at: float) -> None:
    async def run() -> None:
        watched = Watched()
        await watched.content(*times)
        assert await watched.ended() == (at, "idle")

    jump(run())


@pytest.mark.parametrize("first_token_s", [5.0, 20.0, 300.0])
def test_idle_runs_out_in_time_however_long_the_other_clocks_are(first_token_s: float) -> None:
    """One timer serves all: it must not sleep through a clock that starts later and ends sooner."""

    async def run() -> None:
        watched = Watched(Limits(first_token_s=first_token_s, idle_s=3, total_s=600))
        await watched.content(1)
        assert await watched.ended() == (4, "idle")

    jump(run())


def test_total_runs_out_whatever_comes() -> None:
    async def run() -> None:
        watched = Watched()
        await watched.content(*range(0, 600, 10))
        assert await watched.ended() == (600, "total")

    jump(run())


@pytest.mark.parametrize("to", [31, 100, 590])
def test_while_the_client_is_slow_the_upstream_is_not_idle(to: float) -> None:
    async def run() -> None:
        watched = Watched()
        await watched.blocked(12, to)
        assert watched.at is None
        at, clock = await watched.ended()
        assert (clock, at) == (("idle", at) if to < 580 else ("total", 600))
        assert at is not None
        assert at == 600 or to + 20 <= at <= to + 20 + 2  # at most a tenth late: a blocked call looks only so often

    jump(run())


def test_a_client_that_takes_nothing_meets_the_total_clock() -> None:
    async def run() -> None:
        watched = Watched(quiet=True)
        await watched.blocked(12, 9_000)
        assert (watched.at, watched.clock, watched.lives) == (600, "total", [])

    jump(run())


def test_life_is_shown_after_hold_and_each_hold_after_it() -> None:
    async def run() -> None:
        watched = Watched(quiet=True)
        await watched.ended()
        assert watched.lives == [15, 30, 45]
        assert (watched.at, watched.clock) == (60, "first_token")

    jump(run())


def test_content_puts_off_the_sign_of_life_and_a_sign_of_life_winds_no_clock() -> None:
    async def run() -> None:
        watched = Watched(Limits(first_token_s=60, idle_s=40, total_s=600, hold_s=15), quiet=True)
        await watched.content(10, 14)
        assert await watched.ended() == (54, "idle")
        assert watched.lives == [29, 44]

    jump(run())


def test_what_is_no_content_winds_no_clock_and_what_is_not_sent_shows_no_life() -> None:
    async def run() -> None:
        watched = Watched(Limits(first_token_s=60, idle_s=40, total_s=600, hold_s=15), quiet=True)
        await watched.content(10)
        await until(20)
        watched.clocks.passed(content=False, written=True)
        await until(21)
        watched.clocks.passed(content=True, written=False)
        await until(25)
        watched.clocks.passed(content=False, written=False)
        assert await watched.ended() == (61, "idle")
        assert watched.lives == [35, 50]

    jump(run())


def test_without_a_hold_life_is_shown_at_once_and_then_at_a_measured_pace() -> None:
    async def run() -> None:
        watched = Watched(Limits(first_token_s=60, hold_s=0), quiet=True)
        await watched.ended()
        assert [round(t, 2) for t in watched.lives] == [0, KEEP_ALIVE_S, 2 * KEEP_ALIVE_S, 3 * KEEP_ALIVE_S]

    jump(run())


def test_after_stop_nothing_happens_any_more() -> None:
    async def run() -> None:
        watched = Watched(quiet=True)
        await until(5)
        watched.clocks.stop()
        watched.clocks.stop()
        assert await watched.ended() == (None, None)
        assert watched.lives == []

    jump(run())


def test_a_chunk_costs_no_timer() -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        watched = Watched()
        made: list[float] = []
        call_at = loop.call_at

        def counted(when: float, *rest: Any, **more: Any) -> asyncio.TimerHandle:
            made.append(when)
            return call_at(when, *rest, **more)

        loop.call_at = counted  # type: ignore[method-assign]
        for _ in range(1000):
            await watched.content(loop.time())
        assert made == []
        watched.clocks.stop()

    jump(run())


@pytest.mark.parametrize("clock", WORDS)
def test_every_clock_has_words_and_a_code(clock: str) -> None:
    error = timed_out(clock, 2.5)
    assert (error.kind, error.clock, error.code, error.status) == (Kind.TIMEOUT, clock, f"{clock}_timeout", 504)
    assert "2.5 s" in error.message


def test_the_smaller_of_each_clock_holds() -> None:
    target = Limits(first_token_s=100, idle_s=5, total_s=1000, hold_s=99)
    assert LIMITS.within(target) == Limits(first_token_s=60, idle_s=5, total_s=600, hold_s=15)

"""What is made when it is first asked for: once, whoever asks at the same time, and whoever leaves."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from rivermouth.http.later import Later

pytestmark = pytest.mark.anyio


class Slow:
    """Makes an application once it may, and counts."""

    def __init__(self) -> None:
        self.may = threading.Event()
        self.made = 0
        self.told = 0
        self.asked: list[Any] = []

    def make(self) -> Any:
        assert self.may.wait(10)
        self.made += 1
        return self.app

    def tell(self) -> None:
        self.told += 1

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        self.asked.append(scope)


async def test_it_is_made_once_for_all_who_wait_and_the_loop_goes_on_meanwhile() -> None:
    slow = Slow()
    later = Later(slow.make, slow.tell)
    asking = [asyncio.create_task(later(number, None, None)) for number in range(5)]
    await asyncio.sleep(0)
    assert slow.made == 0
    asking[0].cancel()  # who asked first leaves
    slow.may.set()
    assert isinstance((await asyncio.gather(*asking, return_exceptions=True))[0], asyncio.CancelledError)
    await later(5, None, None)
    assert (slow.made, slow.told, slow.asked) == (1, 1, [1, 2, 3, 4, 5])


async def test_what_cannot_be_made_is_told_to_everybody() -> None:
    def make() -> Any:
        raise ValueError("no")

    later = Later(make)
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            await later(None, None, None)

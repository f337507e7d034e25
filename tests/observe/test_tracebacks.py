"""Where something was raised, without what it said."""

from __future__ import annotations

import asyncio
import io
import threading

import pytest

from rivermouth.observe.tracebacks import loop_failed, thread_failed, told
from tests.observe.test_logs import lines, parsed, restored, said

__all__ = ["lines", "restored"]

STORY = "a mellifluous quokka"


def raised(raise_it: object) -> BaseException:
    with pytest.raises(BaseException) as caught:  # of any kind, and with any words
        raise_it()  # type: ignore[operator]
    return caught.value


class Touchy(Exception):
    """Compares as an array does: with an error."""

    def __eq__(self, other: object) -> bool:
        raise ValueError(STORY)

    __hash__ = None  # type: ignore[assignment]


def test_a_cause_that_cannot_be_compared_is_told() -> None:
    def fails() -> None:
        try:
            raise Touchy(STORY)
        except Touchy as error:
            raise Touchy(STORY) from error

    text = told(raised(fails))
    assert text.count("Touchy") >= 2
    assert text.count("in fails") == 2
    assert STORY not in text


async def deep() -> None:
    raise KeyError(STORY)


def test_the_frames_of_each_exception_of_a_group_are_told() -> None:
    async def grouped() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(deep())

    text = told(raised(lambda: asyncio.run(grouped())))
    assert "in deep" in text
    assert "KeyError" in text
    assert STORY not in text


def test_a_cause_that_leads_back_to_itself_is_told_once() -> None:
    error = ValueError(STORY)
    error.__cause__ = error
    assert told(error) == "Traceback (most recent call last):\nValueError"


def test_what_nobody_waited_for_is_told_without_its_words(lines: io.StringIO) -> None:
    async def forgets() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(loop_failed)
        loop.call_soon(int, STORY)
        task = loop.create_task(deep(), name="forgotten")
        await asyncio.wait({task})
        del task

    asyncio.run(forgets())
    found = {str(line["what"]): line for line in parsed(lines)}
    assert STORY not in said(lines)
    assert found["Task exception was never retrieved"]["task"] == "forgotten"
    assert "in deep" in str(found["Task exception was never retrieved"]["exception"])
    (callback,) = (line for what, line in found.items() if what.startswith("Exception in callback"))
    assert "ValueError" in str(callback["exception"])


def test_so_is_the_end_of_a_thread(lines: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "excepthook", thread_failed)
    thread = threading.Thread(target=int, args=(STORY,), name="counter")
    thread.start()
    thread.join()
    (line,) = parsed(lines)
    assert (line["event"], line["thread"]) == ("thread.failed", "counter")
    assert STORY not in said(lines)

"""AsyncTokenStream: order, one end, abort, bounds, and the races between a thread and a loop."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rivermouth
from rivermouth import bridge
from rivermouth.bridge import REASONS, AsyncTokenStream, foreign_error, normal_reason
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.events import Reason

pytestmark = pytest.mark.anyio


class Aborts:
    """Counts the calls of `on_abort`; `seen` can be awaited, from whichever thread the call came."""

    def __init__(self) -> None:
        self.count = 0
        self.seen = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def __call__(self) -> None:
        self.count += 1
        self._loop.call_soon_threadsafe(self.seen.set)


def in_thread(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


async def joined(thread: threading.Thread) -> None:
    await asyncio.to_thread(thread.join, 10)
    assert not thread.is_alive()


async def read_all(stream: AsyncTokenStream) -> list[str]:
    return [text async for text in stream]


async def the_error(stream: AsyncTokenStream) -> tuple[list[str], ApiError]:
    """What comes before the bad end, and the end."""
    texts, error = await read_to_the_end(stream)
    assert error is not None, "the stream ended well"
    return texts, error


async def read_to_the_end(stream: AsyncTokenStream) -> tuple[list[str], ApiError | None]:
    texts: list[str] = []
    try:
        async for text in stream:
            texts.append(text)  # noqa: PERF401  what came before an error is wanted too
    except ApiError as error:
        return texts, error
    return texts, None


# Order and the good end.


@pytest.mark.promise(29)
async def test_texts_of_a_thread_arrive_in_order() -> None:
    stream = AsyncTokenStream()
    want = [f"t{i} " for i in range(500)]

    def work() -> None:
        for text in want:
            assert stream.push(text)
        stream.finish("stop")

    thread = in_thread(work)
    assert await read_all(stream) == want
    assert stream.reason is Reason.STOP
    await joined(thread)


@pytest.mark.promise(29)
async def test_every_text_of_several_threads_arrives_once_and_each_thread_keeps_its_order() -> None:
    stream = AsyncTokenStream(max_pending=7)
    left = threading.Barrier(4)

    def work(name: str) -> None:
        for i in range(200):
            assert stream.push(f"{name}{i}")
        if left.wait() == 0:
            stream.finish()

    threads = [in_thread(lambda name=name: work(name)) for name in "abcd"]  # type: ignore[misc]
    texts = await read_all(stream)
    for name in "abcd":
        assert [t for t in texts if t[0] == name] == [f"{name}{i}" for i in range(200)]
    assert len(texts) == 800
    for thread in threads:
        await joined(thread)


@pytest.mark.promise(30)
@pytest.mark.parametrize(
    ("word", "want"),
    [("stop", "stop"), ("length", "length"), ("eos", "stop"), ("", "stop"), (None, "stop"), (Reason.LENGTH, "length")],
)
async def test_the_reason_is_stop_or_length(word: str | None, want: str) -> None:
    stream = AsyncTokenStream()
    stream.finish(word)
    assert stream.reason is None, "the reader has not come to the end"
    assert await read_all(stream) == []
    assert stream.reason == want


@pytest.mark.promise(30)
@given(st.text() | st.none())
def test_no_word_gives_another_reason(word: str | None) -> None:
    assert normal_reason(word) in set(REASONS.values()) == {Reason.STOP, Reason.LENGTH}


@pytest.mark.promise(36)
async def test_the_defaults() -> None:
    assert AsyncTokenStream().timeout_s == 60.0
    parameters = inspect.signature(AsyncTokenStream).parameters
    assert {name: p.default for name, p in parameters.items()} == {
        "timeout_s": 60.0,
        "on_abort": None,
        "max_pending": 4096,
        "max_pending_chars": 1024 * 1024,
    }


async def test_an_empty_text_is_nothing() -> None:
    stream = AsyncTokenStream()
    assert stream.push("")
    stream.finish()
    assert await read_all(stream) == []


async def test_after_the_end_there_is_nothing_more() -> None:
    stream = AsyncTokenStream()
    stream.push("a")
    stream.finish("length")
    assert not stream.push("b")
    stream.fail(ValueError("late"))
    stream.cancel()
    assert await read_all(stream) == ["a"]
    assert await read_all(stream) == []
    assert (stream.reason, stream.aborted) == (Reason.LENGTH, False)


def test_made_outside_a_loop_it_belongs_to_the_loop_that_reads() -> None:
    stream = AsyncTokenStream()
    stream.push("early")
    thread = in_thread(lambda: (stream.push("late"), stream.finish()))
    assert asyncio.run(read_all(stream)) == ["early", "late"]
    thread.join(10)


async def test_a_burst_costs_one_wake_up(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    real, calls = loop.call_soon_threadsafe, []
    monkeypatch.setattr(loop, "call_soon_threadsafe", lambda *args: (calls.append(args), real(*args))[1])
    stream = AsyncTokenStream()
    thread = in_thread(lambda: ([stream.push("x") for _ in range(100)], stream.finish()))
    thread.join(10)  # on purpose on the loop: it cannot run in between
    assert len(calls) == 1
    assert len(await read_all(stream)) == 100


# What is there already.


async def test_drain_takes_what_is_there_and_leaves_the_end() -> None:
    stream = AsyncTokenStream()
    assert stream.drain_nowait() == []
    for text in "abc":
        stream.push(text)
    assert await anext(stream) == "a"
    assert stream.drain_nowait() == ["b", "c"]
    stream.push("d")
    stream.finish()
    assert stream.drain_nowait() == ["d"]
    assert stream.drain_nowait() == []
    with pytest.raises(StopAsyncIteration):
        await anext(stream)
    assert stream.drain_nowait() == []
    assert stream.reason is Reason.STOP


async def test_drain_takes_what_a_thread_has_only_just_pushed() -> None:
    stream = AsyncTokenStream()
    in_thread(lambda: stream.push("x")).join(10)
    assert stream.drain_nowait() == ["x"]


@given(st.lists(st.sampled_from(["push", "next", "drain", "finish", "fail", "cancel"]), max_size=30))
def test_whatever_the_order_nothing_is_lost_invented_or_reordered(steps: list[str]) -> None:
    """One thread, any order of calls: what was read is a prefix of what was accepted, and all of it after `finish`."""

    async def walk() -> None:
        stream = AsyncTokenStream(timeout_s=5)
        accepted: list[str] = []
        got: list[str] = []
        ended = ""
        for i, step in enumerate([*steps, "finish"]):
            if step == "push":
                if stream.push(f"{i} "):
                    accepted.append(f"{i} ")
            elif step == "drain":
                got += stream.drain_nowait()
            elif step == "next" and len(got) < len(accepted) and ended != "cancel":
                got.append(await anext(stream))
            elif step in ("finish", "fail", "cancel"):
                ended = ended or step
                {"finish": stream.finish, "fail": lambda: stream.fail(OSError("x")), "cancel": stream.cancel}[step]()
            assert got == accepted[: len(got)]
        rest, error = await read_to_the_end(stream)
        got += rest
        want = {"finish": None, "fail": Kind.UPSTREAM, "cancel": Kind.CANCELLED}[ended]
        assert (error.kind if error is not None else None) is want
        assert got == accepted if ended != "cancel" else got == accepted[: len(got)]
        assert stream.aborted is (ended == "cancel")
        assert (stream.reason is Reason.STOP) is (ended == "finish")

    asyncio.run(walk())


# Bad ends.


@pytest.mark.fault("F10")
async def test_a_failure_comes_after_the_texts_before_it() -> None:
    aborts = Aborts()
    stream = AsyncTokenStream(on_abort=aborts)
    stream.push("partial")
    failure = ApiError(Kind.OVERLOADED, "context memory full")
    stream.fail(failure)
    texts, error = await the_error(stream)
    assert texts == ["partial"]
    assert error is failure
    assert (stream.reason, stream.aborted, aborts.count) == (None, False, 0)
    assert await read_all(stream) == [], "an end is told once"


async def test_a_foreign_error_gets_a_kind_its_class_and_its_message() -> None:
    stream = AsyncTokenStream()
    stream.fail(ZeroDivisionError("division by zero"))
    _, error = await the_error(stream)
    assert (error.kind, error.message) == (Kind.UPSTREAM, "ZeroDivisionError: division by zero")
    assert foreign_error(KeyboardInterrupt()).message == "KeyboardInterrupt"


@pytest.mark.promise(34, 36)
async def test_silence_between_tokens_is_a_timeout_and_aborts_the_worker() -> None:
    aborts = Aborts()
    stream = AsyncTokenStream(timeout_s=0.01, on_abort=aborts)
    stream.push("one")
    texts, error = await the_error(stream)
    assert texts == ["one"]
    assert (error.kind, error.clock) == (Kind.TIMEOUT, "idle")
    assert (aborts.count, stream.aborted, stream.push("two")) == (1, True, False)


class FakeTimeLoop(asyncio.SelectorEventLoop):
    """A loop whose clock jumps to the next timer instead of waiting for it; for tests without threads."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        select = self._selector.select
        self._selector.select = lambda timeout=None: (self._jump(timeout), select(0))[1]

    def _jump(self, timeout: float | None) -> None:
        assert timeout is not None, "nothing will ever happen"
        self.now_s += timeout

    def time(self) -> float:
        return self.now_s


@pytest.mark.promise(36)
@pytest.mark.parametrize(("gap_s", "whole"), [(59.0, True), (61.0, False)])
def test_the_clock_starts_anew_with_each_token(gap_s: float, whole: bool) -> None:
    """Ten tokens: it is each wait that counts, not their sum."""

    async def read() -> tuple[list[str], ApiError | None]:
        stream = AsyncTokenStream()
        loop = asyncio.get_running_loop()
        for i in range(1, 11):
            loop.call_later(gap_s * i, stream.push, "x")
        loop.call_later(gap_s * 11, stream.finish)
        return await read_to_the_end(stream)

    with asyncio.Runner(loop_factory=FakeTimeLoop) as runner:
        texts, error = runner.run(read())
    assert (len(texts), error is None) == ((10, True) if whole else (0, False))


# Cancel.


@pytest.mark.promise(33, 34)
async def test_cancel_drops_what_is_pending_and_tells_the_worker_once() -> None:
    aborts = Aborts()
    stream = AsyncTokenStream(on_abort=aborts)
    for text in "abc":
        stream.push(text)
    assert await anext(stream) == "a"
    stream.cancel()
    stream.cancel()
    assert (aborts.count, stream.aborted, stream.push("d")) == (1, True, False)
    assert (stream.statistics().pending, stream.statistics().pending_chars) == (0, 0)
    assert stream.drain_nowait() == []
    texts, error = await the_error(stream)
    assert (texts, error.kind) == ([], Kind.CANCELLED)


@pytest.mark.promise(34)
async def test_many_threads_may_cancel_and_one_abort_comes_of_it() -> None:
    calls: list[int] = []
    stream = AsyncTokenStream(on_abort=lambda: calls.append(threading.get_ident()))
    together = threading.Barrier(8)
    threads = [in_thread(lambda: (together.wait(), stream.cancel())) for _ in range(8)]
    _, error = await the_error(stream)
    for thread in threads:
        await joined(thread)
    assert error.kind is Kind.CANCELLED
    assert len(calls) == 1


@pytest.mark.promise(33)
@pytest.mark.fault("F31")
async def test_cancel_from_another_thread_wakes_the_reader_that_waits_for_the_first_token() -> None:
    stream = AsyncTokenStream()
    reader = asyncio.create_task(the_error(stream))
    await asyncio.sleep(0)
    in_thread(stream.cancel)
    texts, error = await asyncio.wait_for(reader, 5)
    assert (texts, error.kind) == ([], Kind.CANCELLED)


@pytest.mark.promise(33, 34)
async def test_leaving_the_loop_early_aborts_the_worker() -> None:
    aborts = Aborts()
    stream = AsyncTokenStream(on_abort=aborts)
    stream.push("a")
    async for _ in stream:
        break
    await asyncio.wait_for(aborts.seen.wait(), 5)
    assert not stream.push("b")


@pytest.mark.promise(33, 34)
@pytest.mark.fault("F31")
async def test_a_reader_that_is_cancelled_aborts_the_worker() -> None:
    aborts = Aborts()
    stream = AsyncTokenStream(on_abort=aborts)
    reader = asyncio.create_task(read_all(stream))
    await asyncio.sleep(0)
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    assert aborts.count == 1


async def test_closing_the_iterator_aborts_the_worker() -> None:
    aborts = Aborts()
    stream = AsyncTokenStream(on_abort=aborts)
    stream.push("a")
    texts = aiter(stream)
    assert await anext(texts) == "a"
    await texts.aclose()  # type: ignore[attr-defined]
    assert aborts.count == 1


@pytest.mark.fault("F32")
async def test_the_context_aborts_even_when_nothing_was_read() -> None:
    aborts = Aborts()
    async with AsyncTokenStream(on_abort=aborts) as stream:
        assert stream.push("a")
    assert aborts.count == 1
    stream = AsyncTokenStream(on_abort=aborts)
    await stream.aclose()
    assert aborts.count == 2


async def test_the_context_of_a_stream_read_to_its_end_aborts_nothing() -> None:
    aborts = Aborts()
    async with AsyncTokenStream(on_abort=aborts) as stream:
        stream.push("a")
        stream.finish()
        assert await read_all(stream) == ["a"]
    assert (aborts.count, stream.aborted) == (0, False)


async def test_a_bare_read_that_is_cancelled_loses_nothing() -> None:
    stream = AsyncTokenStream()
    waiting = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    waiting.cancel()
    stream.push("kept")  # arrives in the same turn of the loop in which the read is cancelled
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not stream.aborted
    assert await anext(stream) == "kept"


@pytest.mark.promise(35)
async def test_the_worker_sees_the_abort_at_its_next_token() -> None:
    stream = AsyncTokenStream()
    made: list[int] = []
    first, go_on = threading.Event(), threading.Event()

    def work() -> None:
        for i in range(1000):
            if not stream.push(f"{i}"):
                return
            made.append(i)
            first.set()
            go_on.wait(10)

    thread = in_thread(work)
    assert await anext(stream) == "0"
    await asyncio.to_thread(first.wait, 10)
    stream.cancel()
    go_on.set()
    await joined(thread)
    assert made == [0]


# Bounds.


@pytest.mark.fault("F35")
async def test_a_worker_ahead_of_its_reader_waits() -> None:
    stream = AsyncTokenStream(max_pending=3)

    def work() -> None:
        for i in range(50):
            assert stream.push(f"{i}")
        stream.finish()

    thread = in_thread(work)
    assert await read_all(stream) == [f"{i}" for i in range(50)]
    await joined(thread)
    told = stream.statistics()
    assert (told.pending, told.max_pending, told.pushed) == (0, 3, 50)
    assert told.high_water <= 3


@pytest.mark.fault("F35")
async def test_a_worker_ahead_of_its_reader_by_much_text_waits_too() -> None:
    stream = AsyncTokenStream(max_pending_chars=10)
    texts = ["a" * (i % 7) or "b" * 25 for i in range(60)]  # some of them longer than all that may wait

    def work() -> None:
        for text in texts:
            assert stream.push(text)
        stream.finish()

    thread = in_thread(work)
    assert await read_all(stream) == texts
    await joined(thread)
    told = stream.statistics()
    assert (told.pending, told.pending_chars, told.max_pending_chars) == (0, 0, 10)
    assert told.high_water_chars == 25, "a text longer than the bound waits, but alone"


@pytest.mark.fault("F35")
async def test_how_much_text_waits_is_told_and_drained() -> None:
    stream = AsyncTokenStream(max_pending_chars=10)
    assert [stream.push(t) for t in ("abc", "", "defg")] == [True, True, True]
    assert (stream.statistics().pending, stream.statistics().pending_chars) == (2, 7)
    assert await anext(stream) == "abc"
    assert stream.statistics().pending_chars == 4
    assert stream.drain_nowait() == ["defg"]
    assert stream.push("0123456789")
    assert not stream.push("x"), "the loop itself never waits"
    texts, error = await the_error(stream)
    assert (texts, error.code) == (["0123456789"], "slow_reader")
    assert stream.statistics().pending_chars == 0


@pytest.mark.fault("F35")
async def test_a_worker_that_waits_is_let_go_by_cancel() -> None:
    stream = AsyncTokenStream(max_pending=1)
    answers: list[bool] = []
    thread = in_thread(lambda: [answers.append(stream.push("x")) for _ in range(2)])
    while stream.statistics().waits == 0:
        await asyncio.sleep(0)
    stream.cancel()
    await joined(thread)
    assert answers == [True, False]


@pytest.mark.fault("F35")
async def test_a_reader_that_takes_nothing_for_the_whole_time_ends_the_stream() -> None:
    aborts = Aborts()
    stream = AsyncTokenStream(timeout_s=0.02, max_pending=1, on_abort=aborts)
    answers: list[bool] = []
    thread = in_thread(lambda: [answers.append(stream.push("x")) for _ in range(2)])
    await joined(thread)
    assert answers == [True, False]
    texts, error = await the_error(stream)
    assert texts == ["x"], "what was pending is still read"
    assert (error.kind, error.code, aborts.count) == (Kind.CANCELLED, "slow_reader", 1)


@pytest.mark.fault("F34")
@pytest.mark.fault("F35")
async def test_the_loop_itself_never_waits_for_room() -> None:
    aborts = Aborts()
    stream = AsyncTokenStream(max_pending=2, on_abort=aborts)
    assert [stream.push(t) for t in "abc"] == [True, True, False]
    texts, error = await the_error(stream)
    assert texts == ["a", "b"]
    assert (error.code, aborts.count, stream.aborted) == ("slow_reader", 1, True)


# A loop that goes away.


def closed_loop_with(stream_of: Callable[[], AsyncTokenStream]) -> AsyncTokenStream:
    """A stream that belongs to a loop which is closed by now."""

    async def make() -> AsyncTokenStream:
        return stream_of()

    return asyncio.run(make())


def test_a_push_for_a_closed_loop_aborts() -> None:
    calls: list[int] = []
    stream = closed_loop_with(lambda: AsyncTokenStream(on_abort=lambda: calls.append(1)))
    assert not stream.push("x")
    assert not stream.push("y")
    stream.finish()
    assert (calls, stream.aborted) == ([1], True)


def test_an_end_for_a_closed_loop_is_no_error() -> None:
    stream = closed_loop_with(AsyncTokenStream)
    stream.finish()
    assert not stream.push("x")


def test_a_wake_up_that_finds_the_loop_just_closed_aborts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop closes between the look and the wake-up."""
    calls: list[int] = []
    stream = closed_loop_with(lambda: AsyncTokenStream(on_abort=lambda: calls.append(1)))
    monkeypatch.setattr(stream, "_loop_closed", lambda: False)
    assert not stream.push("x")
    assert calls == [1]


def test_a_worker_that_waits_for_room_notices_a_closed_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bridge, "LOOK_S", 0.01)
    calls: list[int] = []
    answers: list[bool] = []
    made: list[AsyncTokenStream] = []

    async def leave_a_worker_behind() -> threading.Thread:
        stream = AsyncTokenStream(max_pending=1, on_abort=lambda: calls.append(1))
        made.append(stream)
        thread = in_thread(lambda: [answers.append(stream.push("x")) for _ in range(2)])
        while stream.statistics().waits == 0:
            await asyncio.sleep(0)
        return thread

    thread = asyncio.run(leave_a_worker_behind())
    thread.join(10)
    assert not thread.is_alive()
    assert (answers, calls) == ([True, False], [1])


# The package.


def test_importing_the_package_loads_nothing_else() -> None:
    code = (
        "import sys; before = set(sys.modules); import rivermouth; new = set(sys.modules) - before;"
        "assert not {n for n in new if n.split('.')[0] in ('msgspec', 'asyncio')}, new;"
        "assert rivermouth.AsyncTokenStream.__module__ == 'rivermouth.bridge'; print(rivermouth.__version__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=20)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == rivermouth.__version__


def test_the_public_names() -> None:
    assert rivermouth.AsyncTokenStream is AsyncTokenStream
    assert set(rivermouth.__all__) <= set(dir(rivermouth))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        rivermouth.nothing  # noqa: B018

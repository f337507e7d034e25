"""A generator function as a model: its words, its failures, its thread, and how it is cancelled."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.events import Event, Finish, PartEnd, PartKind, PartStart, Reason, Start, TextDelta, Usage
from rivermouth.ir.fold import fold
from rivermouth.ir.grammar import Grammar
from rivermouth.ir.request import (
    Audio,
    Choose,
    EmbedRequest,
    File,
    Format,
    Image,
    Local,
    Message,
    Reasoning,
    Request,
    ResponseFormat,
    Role,
    Sampling,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
)
from rivermouth.providers.provider import Provider, Upstream
from rivermouth.providers.python import IGNORED, PythonProvider, Stream, check, flatten, load
from tests import strategies

pytestmark = pytest.mark.anyio

HELLO = (Message(Role.USER, (Text("Hello"),)),)


def asking(**fields: Any) -> Request:
    return Request(**{"model": "mybot/any", "messages": HELLO, **fields})


async def opened(provider: PythonProvider, request: Request | None = None) -> Upstream:
    ignored: list[str] = []
    return await provider.open(request or asking(), "any", same_dialect=False, warn=ignored.append)


async def batches(upstream: Upstream) -> AsyncIterator[list[Event]]:
    """Every batch up to the end."""
    done = False
    while not done:
        events = (await upstream.read()).events
        yield events
        done = any(isinstance(e, Finish) for e in events)


async def answer(stream: Stream, request: Request | None = None) -> list[Event]:
    """The whole stream of one call, checked by the grammar."""
    provider = PythonProvider("mybot", stream)
    upstream = await opened(provider, request)
    try:
        events = [e async for batch in batches(upstream) for e in batch]
    finally:
        await upstream.close()
        await provider.close()
    Grammar().feed_all(events)
    return events


def texts_of(events: list[Event]) -> list[str]:
    return [e.text for e in events if isinstance(e, TextDelta)]


# What it says.


@pytest.mark.promise(137)
async def test_a_plain_generator_answers() -> None:
    def stream(messages: list[dict[str, str]]) -> Iterator[str]:
        yield from ("You said: ", messages[-1]["content"], "")

    assert await answer(stream) == [
        Start(model="any"),
        PartStart(0, PartKind.TEXT),
        TextDelta(0, "You said: "),
        TextDelta(0, "Hello"),
        PartEnd(0),
        Usage(input_tokens=2, output_tokens=4, estimated=True),
        Finish(Reason.STOP),
    ]


@pytest.mark.promise(137)
@pytest.mark.parametrize("produced", [["a", "b"], ("a", "b"), iter(["a", "b"]), map(str, ["a", "b"])])
async def test_any_iterable_of_texts_answers(produced: Any) -> None:
    assert texts_of(await answer(lambda messages: produced)) == ["a", "b"]


async def test_one_text_answers_whole() -> None:
    assert texts_of(await answer(lambda messages: "all at once")) == ["all at once"]


@given(st.lists(strategies.texts | st.just(""), max_size=8))
def test_the_texts_arrive_unchanged(chunks: list[str]) -> None:
    events = asyncio.run(answer(lambda messages: iter(chunks)))
    assert texts_of(events) == [c for c in chunks if c]
    assert "".join(chunks) == fold(events).choices[0].text


@pytest.mark.fault("F12")
@pytest.mark.parametrize("produced", [[], [""], ""])
async def test_nothing_said_opens_no_part(produced: Any) -> None:
    assert await answer(lambda messages: produced) == [
        Start(model="any"),
        Usage(2, 0, estimated=True),
        Finish(Reason.STOP),
    ]


@pytest.mark.promise(174)
@pytest.mark.fault("F34")
async def test_each_piece_arrives_while_the_generator_waits_for_the_next() -> None:
    go_on = threading.Semaphore(0)

    def stream(messages: list[dict[str, str]]) -> Iterator[str]:
        for i in range(3):
            yield f"piece {i}"
            assert go_on.acquire(timeout=10)

    upstream = await opened(PythonProvider("mybot", stream))
    seen: list[list[str]] = []
    async for events in batches(upstream):
        seen.append(texts_of(events))
        go_on.release() if seen[-1] else None
    await upstream.close()
    assert [s for s in seen if s] == [["piece 0"], ["piece 1"], ["piece 2"]]


@pytest.mark.fault("F34")
async def test_it_never_runs_on_the_loops_thread() -> None:
    threads: list[int] = []

    def stream(messages: list[dict[str, str]]) -> Iterator[str]:
        threads.append(threading.get_ident())
        yield "x"
        threads.append(threading.get_ident())

    await answer(stream)
    assert len(set(threads)) == 1
    assert threads[0] != threading.get_ident()


# What it is given.


def test_the_messages_are_roles_and_texts_with_the_system_text_first() -> None:
    request = asking(
        system=(Text("Be brief."), Text("Be kind.")),
        messages=(
            Message(Role.USER, (Text("Look: "), File(text="the file"))),
            Message(Role.ASSISTANT, (Reasoning("hm"), Text("I call"), ToolCall("c1", "look", "{}"))),
            Message(Role.TOOL, (ToolResult("c1", (Text("18"), Text(" degrees"))),)),
            Message(Role.SYSTEM, (Text("Now end."),)),
        ),
    )
    assert flatten(request) == [
        {"role": "system", "content": "Be brief.\n\nBe kind."},
        {"role": "user", "content": "Look: the file"},
        {"role": "assistant", "content": "I call"},
        {"role": "tool", "content": "18 degrees"},
        {"role": "system", "content": "Now end."},
    ]


async def test_what_the_function_does_to_its_messages_stays_with_it() -> None:
    def stream(messages: list[dict[str, str]]) -> Iterator[str]:
        messages[0].clear()
        messages.clear()
        yield "x"

    assert Usage(2, 1, estimated=True) in await answer(stream)


IGNORED_WISHES: dict[str, dict[str, Any]] = {
    "max_tokens": {"max_tokens": 5},
    "stop": {"stop": ("x",)},
    "tools": {"tools": (Tool("f"),)},
    "thinking": {"thinking": Thinking(effort="low")},
    "keep_alive_s": {"local": Local(keep_alive_s=0)},
    "context_tokens": {"local": Local(context_tokens=10)},
    **{name: {"sampling": Sampling(**{name: 1})} for name in Sampling.__struct_fields__},
}


@pytest.mark.parametrize("name", IGNORED_WISHES)
def test_what_is_ignored_is_named(name: str) -> None:
    told: list[str] = []
    check(asking(**IGNORED_WISHES[name]), told.append)
    assert told == [name]
    assert set(IGNORED_WISHES) == {*IGNORED, *Sampling.__struct_fields__}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"tools": (Tool("f"),), "tool_choice": ToolChoice(Choose.NONE)},
        {"thinking": Thinking(enabled=False)},
        {"response_format": ResponseFormat(Format.TEXT)},
    ],
)
def test_a_wish_that_is_met_is_not_named(fields: dict[str, Any]) -> None:
    told: list[str] = []
    check(asking(**fields), told.append)
    assert told == []


@pytest.mark.parametrize(
    ("param", "fields"),
    [
        ("n", {"n": 2}),
        ("tool_choice", {"tools": (Tool("f"),), "tool_choice": ToolChoice(Choose.REQUIRED)}),
        ("tool_choice", {"tools": (Tool("f"),), "tool_choice": ToolChoice(Choose.NAMED, "f")}),
        ("response_format", {"response_format": ResponseFormat(Format.JSON)}),
        ("response_format", {"response_format": ResponseFormat(Format.JSON_SCHEMA, {})}),
        ("messages", {"messages": (Message(Role.USER, (Image(url="http://x/i.png"),)),)}),
        ("messages", {"messages": (Message(Role.USER, (Audio("QUJD", "wav"),)),)}),
        ("messages", {"messages": (Message(Role.USER, (File(file_id="f"),)),)}),
        ("messages", {"messages": (Message(Role.TOOL, (ToolResult("c", (Image(data="QUJD"),)),)),)}),
    ],
)
async def test_what_would_be_answered_wrongly_is_refused(param: str, fields: dict[str, Any]) -> None:
    with pytest.raises(ApiError) as caught:
        await opened(PythonProvider("mybot", lambda messages: "x"), asking(**fields))
    assert (caught.value.kind, caught.value.param) == (Kind.INVALID_REQUEST, param)


@given(strategies.requests())
def test_any_request_is_refused_or_flattened(request: Request) -> None:
    try:
        check(request, lambda name: None)
    except ApiError as error:
        refused = error
        assert refused.kind is Kind.INVALID_REQUEST
        return
    for message in flatten(request):
        assert set(message) == {"role", "content"}
        assert all(isinstance(v, str) for v in message.values())


# How it fails.


class Unprintable(Exception):
    """Cannot even say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


class Markup(str):
    """A text that is more than a text, as some libraries give."""

    __slots__ = ()


async def test_a_text_of_another_class_is_a_text() -> None:
    upstream = await opened(PythonProvider("mybot", lambda messages: iter([Markup("<b>"), Markup("x")])))
    seen = [event async for events in batches(upstream) for event in events]
    await upstream.close()
    assert texts_of(seen) == ["<b>", "x"]
    assert all(type(text) is str for text in texts_of(seen))


@pytest.mark.fault("F10")
@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("bad day"), "ValueError: bad day"),
        (KeyError(), "KeyError"),
        (SystemExit(3), "SystemExit: 3"),
        (Unprintable(), "Unprintable"),
        (StopIteration(), "RuntimeError: generator raised StopIteration"),
    ],
)
async def test_an_exception_is_an_upstream_failure_with_its_name_and_words(error: BaseException, said: str) -> None:
    def stream(messages: list[dict[str, str]]) -> Iterator[str]:
        yield "before"
        raise error

    upstream = await opened(PythonProvider("mybot", stream))
    seen: list[Event] = []

    async def read_on() -> None:
        async for events in batches(upstream):
            seen.extend(events)

    with pytest.raises(ApiError) as caught:
        await read_on()
    await upstream.close()
    assert (caught.value.kind, caught.value.message, caught.value.provider) == (Kind.UPSTREAM, said, "mybot")
    assert texts_of(seen) == ["before"]


async def test_an_error_of_ours_passes_as_it_is() -> None:
    def stream(messages: list[dict[str, str]]) -> list[str]:
        raise ApiError(Kind.RATE_LIMITED, "slow down", retry_after_s=3)

    with pytest.raises(ApiError) as caught:
        await answer(stream)
    assert caught.value == ApiError(Kind.RATE_LIMITED, "slow down", retry_after_s=3)


@pytest.mark.parametrize(("produced", "said"), [([b"bytes"], "gave bytes"), ([None], "gave NoneType"), (5, "iterable")])
async def test_what_is_not_text_is_a_failure(produced: Any, said: str) -> None:
    with pytest.raises(ApiError, match=said) as caught:
        await answer(lambda messages: produced)
    assert caught.value.kind is Kind.UPSTREAM


async def test_silence_is_a_timeout_and_the_thread_is_told() -> None:
    silent = threading.Event()

    def stream(messages: list[dict[str, str]]) -> Iterator[str]:
        silent.wait(10)
        yield "too late"

    provider = PythonProvider("mybot", stream, timeout_s=0.01)
    upstream = await opened(provider)
    assert (await upstream.read()).events == [Start(model="any")]
    with pytest.raises(ApiError) as caught:
        await upstream.read()
    assert (caught.value.kind, caught.value.clock) == (Kind.TIMEOUT, "idle")
    silent.set()
    await upstream.close()


# How it is cancelled.


class Endless:
    """A generator that tells where and when it was closed."""

    def __init__(self) -> None:
        self.made = 0
        self.closed_in = 0
        self.thread = 0

    def __call__(self, messages: list[dict[str, str]]) -> Iterator[str]:
        self.thread = threading.get_ident()
        try:
            while True:
                self.made += 1
                yield "word "
        finally:
            self.closed_in = threading.get_ident()


@pytest.mark.promise(33, 34)
@pytest.mark.fault("F31")
async def test_close_ends_the_generator_in_its_own_thread() -> None:
    endless = Endless()
    upstream = await opened(PythonProvider("mybot", endless))
    while not texts_of((await upstream.read()).events):
        pass
    await upstream.close()
    made = endless.made
    assert endless.closed_in == endless.thread != 0
    await upstream.close()
    assert endless.made == made


@pytest.mark.fault("F31")
async def test_close_before_the_first_read_ends_it_too() -> None:
    endless = Endless()
    upstream = await opened(PythonProvider("mybot", endless))
    await upstream.close()
    assert endless.closed_in == endless.thread


@pytest.mark.fault("F31")
async def test_a_cancelled_read_followed_by_close_ends_it() -> None:
    go_on, closed = threading.Event(), threading.Event()

    def stream(messages: list[dict[str, str]]) -> Iterator[str]:
        try:
            go_on.wait(10)
            yield "first"
            yield "second"
        finally:
            closed.set()

    upstream = await opened(PythonProvider("mybot", stream))
    await upstream.read()
    reading = asyncio.create_task(upstream.read())
    await asyncio.sleep(0)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    go_on.set()
    await upstream.close()
    assert closed.is_set()


@pytest.mark.fault("F35")
async def test_a_bot_far_ahead_of_its_reader_is_held_back() -> None:
    endless = Endless()
    upstream = await opened(PythonProvider("mybot", endless))
    worker = upstream._worker  # type: ignore[attr-defined]
    while worker.tokens.statistics().waits == 0:
        await asyncio.sleep(0)
    assert endless.made <= worker.tokens.max_pending + 1
    await upstream.close()


@pytest.mark.fault("F35")
async def test_a_bot_of_large_pieces_is_held_back_by_their_length() -> None:
    piece = "x" * 64 * 1024
    made: list[int] = []

    def stream(messages: list[dict[str, str]]) -> Iterator[str]:
        while True:
            made.append(1)
            yield piece

    upstream = await opened(PythonProvider("mybot", stream))
    tokens = upstream._worker.tokens  # type: ignore[attr-defined]
    while tokens.statistics().waits == 0:
        await asyncio.sleep(0)
    assert len(made) * len(piece) <= tokens.max_pending_chars + len(piece)
    await upstream.close()
    assert tokens.statistics().pending_chars == 0


# Its threads.


@pytest.mark.fault("F35")
async def test_more_calls_than_threads_are_refused_and_the_place_comes_back() -> None:
    provider = PythonProvider("mybot", Endless(), threads=2)
    first, second = await opened(provider), await opened(provider)
    with pytest.raises(ApiError) as caught:
        await opened(provider)
    assert (caught.value.kind, caught.value.retry_after_s) == (Kind.OVERLOADED, 1.0)
    await first.close()
    third = await opened(provider)
    await third.close()
    await second.close()


async def test_a_bot_that_hangs_keeps_its_place_and_nobody_waits_for_it_for_long() -> None:
    hanging = threading.Event()

    def stream(messages: list[dict[str, str]]) -> Iterator[str]:
        hanging.wait(10)
        yield "late"

    provider = PythonProvider("mybot", stream, threads=1, close_s=0.01)
    upstream = await opened(provider)
    await upstream.close()
    with pytest.raises(ApiError) as caught:
        await opened(provider)
    assert caught.value.kind is Kind.OVERLOADED
    hanging.set()
    assert await upstream._worker.ended(10)  # type: ignore[attr-defined]
    await (await opened(provider)).close()


def test_a_bot_that_outlives_its_loop_ends_quietly() -> None:
    hanging = threading.Event()

    def stream(messages: list[dict[str, str]]) -> Iterator[str]:
        hanging.wait(10)
        yield "late"

    async def leave() -> PythonProvider:
        provider = PythonProvider("mybot", stream, threads=1, close_s=0.0)
        upstream = await opened(provider)
        await upstream.close()
        return provider

    provider = asyncio.run(leave())
    hanging.set()
    assert provider._places.acquire(timeout=10)


async def test_a_system_without_threads_is_overloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    provider = PythonProvider("mybot", lambda messages: "x", threads=1)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(ApiError) as caught:
            await opened(provider)
    assert caught.value.kind is Kind.OVERLOADED
    await (await opened(provider)).close()


# Where it is found.


@pytest.fixture
def write_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], None]]:
    """Writes a module into the working directory, which is not on the path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)

    def write(name: str, code: str) -> None:
        (tmp_path / f"{name}.py").write_text(code)

    yield write
    for name in set(sys.modules) - before:
        del sys.modules[name]


async def test_the_target_is_found_in_the_working_directory_when_it_is_first_needed(
    write_module: Callable[[str, str], None],
) -> None:
    provider = PythonProvider("mybot", "river_bot_one:stream")
    write_module("river_bot_one", "def stream(messages):\n    yield 'found'\n")
    await provider.prepare(asking(), "any")
    await provider.prepare(asking(), "any")
    upstream = await opened(provider)
    assert texts_of([e async for batch in batches(upstream) for e in batch]) == ["found"]
    await upstream.close()


BAD_TARGETS = {
    "river_bot": 'expected "package.module:function"',
    "river_bot:": 'expected "package.module:function"',
    "river_bot_absent:stream": "ModuleNotFoundError: No module named 'river_bot_absent'",
    "river_bot:absent": "the module has no function 'absent'",
    "river_bot:number": "the module has no function 'number'",
    "river_bot:later": "must be a plain generator, not an async one",
    "river_bot:once": "must be a plain generator, not an async one",
    "river_bot_broken:stream": "ZeroDivisionError: division by zero",
}


@pytest.mark.parametrize("target", BAD_TARGETS)
async def test_a_target_that_cannot_be_loaded_names_the_config_key(
    target: str, write_module: Callable[[str, str], None]
) -> None:
    code = "number = 5\nasync def later(messages):\n    yield 'x'\nasync def once(messages):\n    return 'x'\n"
    write_module("river_bot", code)
    write_module("river_bot_broken", "1 / 0\n")
    with pytest.raises(ApiError) as caught:
        await PythonProvider("mybot", target).prepare(asking(), "any")
    assert (caught.value.kind, caught.value.param) == (Kind.INTERNAL, "providers.mybot.python")
    assert caught.value.message.startswith(f"providers.mybot.python = {target!r}: ")
    assert BAD_TARGETS[target] in caught.value.message


def test_load_gives_the_function_itself(write_module: Callable[[str, str], None]) -> None:
    write_module("river_bot_two", "def stream(messages):\n    yield 'x'\n")
    assert list(load("mybot", "river_bot_two:stream")([])) == ["x"]


# The port.


async def test_it_is_a_provider_without_embeddings() -> None:
    provider: Provider = PythonProvider("mybot", lambda messages: "x")
    assert (provider.name, provider.dialect) == ("mybot", None)
    assert [m.owner for m in await provider.models()] == ["mybot"]
    with pytest.raises(ApiError) as caught:
        await provider.embed(EmbedRequest(model="x", input=("a",)), "x", warn=print)
    assert caught.value.kind is Kind.NOT_FOUND
    await provider.close()

"""A plain Python generator as a model: `[providers.mybot]` with `python = "package.module:stream"`.

    def stream(messages):            # [{"role": "system" | "user" | "assistant" | "tool", "content": "text"}, ...]
        yield "one "
        yield "piece of text"

It may also return any iterable of texts, or one text.  It answers under every model name, `mybot/<any>`.

Theory of operation
* Each call runs in a daemon thread of its own, at most `threads` of them; one more call is refused as overloaded.  It
  is not an executor's thread because the interpreter waits for those at its exit, and a bot may hang for ever.
* Texts cross to the loop by `AsyncTokenStream`, so a reader that is behind makes the bot wait, by number of texts or
  by their length.
* Cancel is seen between two chunks: the generator is closed in its own thread, so its `finally` runs there.
  `close` waits for that, `close_s` at most; a bot that does not come back keeps its thread and its place.
* What a text-only function cannot do is refused where the answer would be wrong (a forced tool, a JSON format, an
  image), and named through `warn` where it is merely ignored (`IGNORED`).
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import sys
import threading
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any, Final

import structlog

from rivermouth.bridge import AsyncTokenStream, foreign_error
from rivermouth.ir.errors import ApiError, Kind, invalid
from rivermouth.ir.events import Event, Finish, PartEnd, PartKind, PartStart, Reason, Start, TextDelta, Usage
from rivermouth.ir.reply import EmbedReply, ModelInfo
from rivermouth.ir.request import (
    Audio,
    Choose,
    EmbedRequest,
    File,
    Format,
    Image,
    Message,
    Part,
    Reasoning,
    Refusal,
    Request,
    Sampling,
    Text,
    ToolCall,
    ToolResult,
    check_translatable,
)
from rivermouth.ir.tokens import estimate_tokens
from rivermouth.providers.provider import NO_HEADERS, NOTHING, Batch, Lease, Onward, Upstream

log = structlog.get_logger()

Stream = Callable[[list[dict[str, str]]], Iterable[str]]

IGNORED: Final[dict[str, Callable[[Request], object]]] = {
    "max_tokens": lambda r: r.max_tokens is not None,
    "stop": lambda r: r.stop,
    "tools": lambda r: r.tools and _choice(r) is not Choose.NONE,
    "thinking": lambda r: r.thinking is not None and r.thinking.enabled,
    "keep_alive_s": lambda r: r.local.keep_alive_s is not None,
    "context_tokens": lambda r: r.local.context_tokens is not None,
}

_TAKES = (Text, Refusal, Reasoning, ToolCall, ToolResult)


def check(request: Request, warn: Callable[[str], None]) -> None:
    """Refuses what would be answered wrongly, and names to `warn` what is ignored.  Raises `ApiError`."""
    check_translatable(request)
    if _choice(request) in (Choose.REQUIRED, Choose.NAMED):
        raise invalid("a Python generator cannot call tools, and this request demands it", "tool_choice")
    if request.response_format is not None and request.response_format.kind is not Format.TEXT:
        raise invalid("a Python generator cannot promise a JSON answer", "response_format")
    if request.n > 1:
        raise invalid("a Python generator gives one answer", "n")
    for message in request.messages:
        for part in message.parts:
            if not _is_text(part):
                raise invalid(f"a Python generator takes text only, not {type(part).__name__.lower()}", "messages")
    for name, asked in IGNORED.items():
        if asked(request):
            warn(name)
    for name in Sampling.__struct_fields__:
        if getattr(request.sampling, name) is not None:
            warn(name)


def flatten(request: Request) -> list[dict[str, str]]:
    """The talk as role and text, the system text first.  Reasoning and tool calls are left out, results are kept."""
    system = "\n\n".join(t.text for t in request.system)
    head = [{"role": "system", "content": system}] if system else []
    return head + [{"role": m.role.value, "content": _message_text(m)} for m in request.messages]


def load(provider: str, target: str) -> Stream:
    """The function that `target` ("package.module:stream") names.  The working directory is on the path, last.

    Raises `ApiError` (internal) that names the config key.
    """
    key = f"providers.{provider}.python"

    def refuse(why: str) -> ApiError:
        return ApiError(Kind.INTERNAL, f"{key} = {target!r}: {why}", param=key, code="bad_target", provider=provider)

    module_name, _, function_name = target.partition(":")
    if not module_name or not function_name:
        raise refuse('expected "package.module:function"')
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)
    try:
        module = import_module(module_name)
    except Exception as error:  # the module is somebody else's and may raise anything
        raise refuse(f"the module cannot be imported: {foreign_error(error).message}") from error
    function = getattr(module, function_name, None)
    if not callable(function):
        raise refuse(f"the module has no function {function_name!r}")
    if inspect.isasyncgenfunction(function) or inspect.iscoroutinefunction(function):
        raise refuse("the function must be a plain generator, not an async one")
    chosen: Stream = function
    return chosen


class PythonProvider:
    """`stream(messages)` behind the provider port.  `target` is "package.module:stream" or the function itself.

    threads: calls that may run at once.  timeout_s: the longest silence between two chunks.
    close_s: how long a cancelled call is waited for.
    """

    dialect: str | None = None

    def __init__(
        self, name: str, target: str | Stream, *, threads: int = 32, timeout_s: float = 60.0, close_s: float = 5.0
    ) -> None:
        self.name = name
        self.threads = threads
        self.timeout_s = timeout_s
        self.close_s = close_s
        self._target = target
        self._stream: Stream | None = None if isinstance(target, str) else target
        self._loading = asyncio.Lock()
        self._places = threading.BoundedSemaphore(threads)

    async def prepare(self, request: Request | EmbedRequest, model: str) -> Lease:
        """Imports the function's module, once, off the loop (it may load a model of its own)."""
        async with self._loading:
            if self._stream is None:
                assert isinstance(self._target, str)
                self._stream = await asyncio.to_thread(load, self.name, self._target)
        return NOTHING

    async def open(
        self, request: Request, model: str, lease: Lease = NOTHING, *, same_dialect: bool, warn: Callable[[str], None]
    ) -> Upstream:
        """Starts the function in a thread."""
        check(request, warn)
        await self.prepare(request, model)
        assert self._stream is not None
        if not self._places.acquire(blocking=False):
            message = f"all {self.threads} threads of {self.name} are busy"
            raise ApiError(Kind.OVERLOADED, message, retry_after_s=1.0, provider=self.name)
        worker = _Worker(self.name, self._stream, flatten(request), self.timeout_s, self._places.release)
        try:
            worker.start()
        except RuntimeError as error:  # the system gives no thread
            self._places.release()
            raise ApiError(Kind.OVERLOADED, str(error), retry_after_s=1.0, provider=self.name) from error
        return PythonUpstream(worker, model, self.close_s)

    async def embed(
        self, request: EmbedRequest, model: str, lease: Lease = NOTHING, *, warn: Callable[[str], None]
    ) -> EmbedReply:
        raise ApiError(Kind.NOT_FOUND, f"{self.name} has no embeddings", param="model", provider=self.name)

    async def models(self) -> list[ModelInfo]:
        """One name to show; any other works as well."""
        return [ModelInfo(id="default", owner=self.name)]

    async def close(self) -> None:
        """Nothing to release: every call closes its own thread."""


class PythonUpstream:
    """One call: texts from the worker, as events.  Usage is estimated; no text means no part."""

    headers = NO_HEADERS

    def __init__(self, worker: _Worker, model: str, close_s: float) -> None:
        self._worker = worker
        self._model = model
        self._close_s = close_s
        self._started = False
        self._parts = 0
        self._characters = 0

    async def read(self, onward: Onward | None = None) -> Batch:
        """First `Start`, then all chunks that are there (one at least), at last the end."""
        if not self._started:
            self._started = True
            return Batch([Start(model=self._model)])
        tokens = self._worker.tokens
        try:
            first = await tokens.__anext__()
        except StopAsyncIteration:
            return Batch(self._end(tokens.reason or Reason.STOP))
        return Batch(self._deltas([first, *tokens.drain_nowait()]))

    async def close(self) -> None:
        self._worker.tokens.cancel()
        await self._worker.ended(self._close_s)

    def _deltas(self, texts: list[str]) -> list[Event]:
        opening: list[Event] = [] if self._parts else [PartStart(0, PartKind.TEXT)]
        self._parts = 1
        self._characters += sum(map(len, texts))
        return [*opening, *(TextDelta(0, text) for text in texts)]

    def _end(self, reason: Reason) -> list[Event]:
        closing: list[Event] = [PartEnd(0)] if self._parts else []
        prompt_tokens = sum(estimate_tokens(len(m["content"])) for m in self._worker.messages)
        return [*closing, Usage(prompt_tokens, estimate_tokens(self._characters), estimated=True), Finish(reason)]


class _Worker:
    """The thread of one call.  `release` is called, and `ended` returns, when the function has really come back."""

    def __init__(
        self,
        provider: str,
        stream: Stream,
        messages: list[dict[str, str]],
        timeout_s: float,
        release: Callable[[], None],
    ) -> None:
        self._provider = provider
        self.messages = messages
        self.tokens = AsyncTokenStream(timeout_s)
        self._stream = stream
        self._release = release
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()

    def start(self) -> None:
        threading.Thread(target=self._run, name=f"rivermouth-{self._provider}", daemon=True).start()

    async def ended(self, within_s: float) -> bool:
        """True when the thread has ended; waits `within_s` for it at most."""
        try:
            async with asyncio.timeout(within_s):
                await self._ended.wait()
        except TimeoutError:
            return False
        return True

    def _run(self) -> None:
        try:
            if self.tokens.aborted:
                return
            # A copy: what the function does to its messages is its own affair.
            self._hand_over(self._stream([dict(m) for m in self.messages]))
        except BaseException as error:  # not Exception: a bot's sys.exit() would end the thread without a word
            self.tokens.fail(foreign_error(error, self._provider))
            if not isinstance(error, ApiError):  # its author has to see where
                log.warning("provider.raised", provider=self._provider, exc_info=True)
        finally:
            self._release()
            self._tell_ended()

    def _hand_over(self, produced: Iterable[str]) -> None:
        chunks = iter((produced,)) if isinstance(produced, str) else iter(produced)
        try:
            for chunk in chunks:
                if not isinstance(chunk, str):
                    raise TypeError(f"the generator gave {type(chunk).__name__}, not str")
                plain = chunk if type(chunk) is str else str.__str__(chunk)  # a Markup, a numpy.str_: text all the same
                if not self.tokens.push(plain):
                    return
        finally:
            close: Any = getattr(chunks, "close", None)
            if close is not None:
                close()
        self.tokens.finish()

    def _tell_ended(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            self._loop.call_soon_threadsafe(self._ended.set)


def _choice(request: Request) -> Choose:
    return request.tool_choice.mode if request.tool_choice is not None else Choose.AUTO


def _is_text(part: Part) -> bool:
    if isinstance(part, ToolResult):
        return all(_is_text(inner) for inner in part.content)
    return isinstance(part, _TAKES) or (isinstance(part, File) and part.text is not None)


def _message_text(message: Message) -> str:
    return "".join(map(_part_text, message.parts))


def _part_text(part: Part) -> str:
    match part:
        case Text() | Refusal():
            return part.text
        case File():
            return part.text or ""
        case ToolResult():
            return "".join(map(_part_text, part.content))
        case Reasoning() | ToolCall() | Image() | Audio():
            return ""

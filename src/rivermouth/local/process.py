"""One engine process, from the server's side: started, fed, read, stopped; never imported.

    EngineProcess.start -> Ready     generate() -> Generation     stop()

Theory of operation
* One task reads the process's words and hands each to its generation; texts go into that call's `AsyncTokenStream`,
  which is bounded, so a slow reader costs its own call only.
* When the process ends, for whatever reason, every generation that lives fails with that reason, and `alive` is False
  from then on.  Nothing is restarted here; the pool starts another process for the next call.
* A generation that does not confirm its cancel in `confirm_s` means a step that hangs: the process is killed.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from rivermouth.bridge import AsyncTokenStream
from rivermouth.ir.errors import ApiError, Kind, WireError
from rivermouth.local.protocol import (
    LINE_CAP_BYTES,
    WORDS,
    Began,
    Cancel,
    Command,
    Delta,
    Done,
    Failed,
    Fatal,
    Generate,
    Load,
    Ready,
    Word,
)
from rivermouth.wire import json
from rivermouth.wire.ndjson import NdjsonReader, line

LOAD_S: Final = 180.0
CONFIRM_S: Final = 30.0
STOP_S: Final = 5.0
READ_BYTES: Final = 1 << 16
STDERR_LINES: Final = 20
STDERR_LINE_BYTES: Final = 500
PROVIDER: Final = "local"

# Of the server's environment the native code sees this much; keys of providers stay here.
ENVIRONMENT: Final = frozenset(
    {"PATH", "HOME", "TMPDIR", "TEMP", "TMP", "LANG", "TZ", "VIRTUAL_ENV", "LD_LIBRARY_PATH"}
)
ENVIRONMENT_PREFIXES: Final = ("LC_", "PYTHON", "OV_", "OPENVINO_", "ONEDNN_", "TBB_", "OMP_", "COVERAGE_", "XDG_")


class EngineSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What a process is started with."""

    path: Path
    context_tokens: int
    end_tokens: tuple[int, ...]
    device: str = "CPU"
    properties: dict[str, str] = {}
    max_active: int = 4
    prefix_cache: bool = False


class Generation:
    """One answer being made.  `stream` has its text; `began` the prompt's tokens; `done` the end, once it is there."""

    def __init__(self, identity: int, process: EngineProcess, timeout_s: float, max_pending: int) -> None:
        loop = asyncio.get_running_loop()
        self.id = identity
        self.done: Done | None = None
        self.closed = asyncio.Event()
        self.began: asyncio.Future[int] = loop.create_future()
        self.stream = AsyncTokenStream(
            timeout_s=timeout_s,
            on_abort=lambda: _on_loop(loop, process.cancel, identity),
            max_pending=max_pending,
        )

    def hear(self, word: Began | Delta | Done | Failed) -> None:
        """Takes one word of the process."""
        match word:
            case Began():
                if not self.began.done():
                    self.began.set_result(word.prompt_tokens)
            case Delta():
                self.stream.push(word.text)
            case Done():
                self.done = word
                if not self.began.done():
                    self.began.set_result(word.prompt_tokens)
                self.stream.finish(word.reason)
                self.closed.set()
            case Failed():
                self.fail(_failure(word))

    def fail(self, error: ApiError) -> None:
        """A bad end, told to whoever waits for the beginning or for the next text."""
        if not self.began.done():
            self.began.set_exception(error)
            self.began.exception()  # read here: nobody may be waiting for it
        self.stream.fail(error)
        self.closed.set()


class EngineProcess:
    """A running engine process with one loaded model."""

    def __init__(self, spec: EngineSpec, process: asyncio.subprocess.Process) -> None:
        self.spec = spec
        self.ready: Ready | None = None
        self.load_ns = 0
        self.stderr: deque[str] = deque(maxlen=STDERR_LINES)
        self._process = process
        self._fatal: Fatal | None = None
        self._stopping = False
        self._next_id = 1
        self._live: dict[int, Generation] = {}
        self._loaded: asyncio.Future[Ready] = asyncio.get_running_loop().create_future()
        self._ended = asyncio.Event()
        self._on_end: list[Callable[[], None]] = []
        self._tasks = [
            asyncio.create_task(self._read_words(), name=f"engine {process.pid}"),
            asyncio.create_task(self._read_stderr(), name=f"engine {process.pid} stderr"),
        ]

    @classmethod
    async def start(cls, spec: EngineSpec, load_s: float = LOAD_S) -> EngineProcess:
        """A process with its model loaded and warm.  Raises `ApiError`; then nothing is left running."""
        begun = time.monotonic_ns()
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-m",
            "rivermouth.local.child",
            str(os.getpid()),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=child_environment(os.environ),
        )
        engine = cls(spec, child)
        try:
            engine._send(line_of(load_command(spec)))
            async with asyncio.timeout(load_s):
                engine.ready = await engine._loaded
        except TimeoutError:
            await engine.kill()
            raise ApiError(
                Kind.TIMEOUT, f"the model was not loaded within {load_s:g} s", provider=PROVIDER, clock="load"
            ) from None
        except BaseException:
            await engine.kill()
            raise
        engine.load_ns = time.monotonic_ns() - begun
        return engine

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def device(self) -> str:
        """Where the model runs; before it is loaded, where it is meant to."""
        return self.ready.device if self.ready else self.spec.device

    @property
    def alive(self) -> bool:
        """False once it has ended or is being stopped."""
        return not self._ended.is_set() and not self._stopping

    def when_ended(self, callback: Callable[[], None]) -> None:
        """`callback` is called on the loop when the process has ended."""
        if self._ended.is_set():
            callback()
        else:
            self._on_end.append(callback)

    def generate(self, wanted: Generate, timeout_s: float) -> Generation:
        """Begins one answer; `wanted.id` is given here.

        Raises `ApiError` when the process has ended, and when the request is longer than its line may be.
        """
        if not self.alive:
            raise self._death()
        identity = self._next_id
        command = line_of(msgspec.structs.replace(wanted, id=identity))
        self._next_id += 1
        # An answer has no more pieces than its context has tokens, so a slow reader never loses one.
        generation = Generation(identity, self, timeout_s, max_pending=self.spec.context_tokens + 1)
        self._live[identity] = generation
        self._send(command)
        return generation

    def cancel(self, identity: int) -> None:
        """Asks for the end of one generation; does nothing when it has ended."""
        if identity in self._live and self.alive:
            self._send(line_of(Cancel(identity)))

    async def confirm(self, generation: Generation, confirm_s: float = CONFIRM_S) -> None:
        """Returns when the process works on `generation` no more.  Kills the process if that takes too long."""
        generation.stream.cancel()
        self.cancel(generation.id)
        try:
            async with asyncio.timeout(confirm_s):
                await generation.closed.wait()
        except TimeoutError:
            self._fatal = Fatal(f"a step did not end within {confirm_s:g} s", "engine_hangs")
            await self.kill()

    async def stop(self, stop_s: float = STOP_S) -> None:
        """Ends the process and waits for it; its generations fail."""
        self._stopping = True
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            async with asyncio.timeout(stop_s):
                await self._gone()
        except TimeoutError:
            await self.kill()

    async def kill(self) -> None:
        """Ends the process at once and waits for that."""
        self._stopping = True
        self._kill_nowait()
        await self._gone()

    async def _gone(self) -> None:
        await self._ended.wait()
        await asyncio.wait(self._tasks)

    def statistics(self) -> dict[str, int]:
        return {"live": len(self._live), "stderr_lines": len(self.stderr)}

    def _send(self, command: bytes) -> None:
        """What does not fit into the pipe waits here; it is bounded by the calls that the pool lets in."""
        stdin = self._process.stdin
        if stdin is not None and not stdin.is_closing():
            stdin.write(command)

    async def _read_words(self) -> None:
        stdout = self._process.stdout
        assert stdout is not None
        reader = NdjsonReader(LINE_CAP_BYTES)
        try:
            while data := await stdout.read(READ_BYTES):
                for frame in reader.feed(data):
                    self._hear(json.decode_as(WORDS, frame.data))
        except WireError as error:
            self._fatal = Fatal(f"the engine process broke its protocol: {error}", "engine_failed")
            self._kill_nowait()
        except asyncio.CancelledError:  # the loop is being closed, and nobody will read any more
            self._kill_nowait()
            raise
        finally:
            await self._finish()

    def _kill_nowait(self) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()

    def _hear(self, word: Word) -> None:
        match word:
            case Ready():
                if not self._loaded.done():
                    self._loaded.set_result(word)
            case Fatal():
                self._fatal = word
            case Began() | Delta():
                if generation := self._live.get(word.id):
                    generation.hear(word)
            case Done() | Failed():
                if generation := self._live.pop(word.id, None):
                    generation.hear(word)

    async def _read_stderr(self) -> None:
        """Keeps the last lines, for `doctor` and the log."""
        stderr = self._process.stderr
        assert stderr is not None
        rest = b""
        while data := await stderr.read(READ_BYTES):
            *lines, rest = (rest + data).split(b"\n")
            rest = rest[-STDERR_LINE_BYTES:]
            self.stderr.extend(text[:STDERR_LINE_BYTES].decode("utf-8", "replace") for text in lines if text)

    async def _finish(self) -> None:
        """The process's stdout has ended: so does everything that waited for it."""
        await self._process.wait()
        self._ended.set()
        error = self._death()
        if not self._loaded.done():
            self._loaded.set_exception(error)
            self._loaded.exception()  # read here: nobody may be waiting for it
        live, self._live = self._live, {}
        for generation in live.values():
            generation.fail(error)
        for callback in self._on_end:
            callback()

    def _death(self) -> ApiError:
        if self._fatal is not None:
            code = self._fatal.code
            if code == "engine_not_installed":
                return ApiError(
                    Kind.INTERNAL,
                    "the local engine is not installed: pip install 'rivermouth[openvino]'",
                    code=code,
                    status=501,
                    provider=PROVIDER,
                )
            return ApiError(Kind.UPSTREAM, f"the engine process failed: {self._fatal.message}", code=code,
                            provider=PROVIDER)  # fmt: skip
        if self._stopping:
            return ApiError(Kind.UPSTREAM, "the model was unloaded", code="model_unloaded", provider=PROVIDER)
        how = exit_words(self._process.returncode)
        return ApiError(Kind.UPSTREAM, f"engine process died ({how})", code="engine_died", provider=PROVIDER)


def line_of(command: Command) -> bytes:
    """The command as the process reads it.  Raises `ApiError` for one that it would not."""
    made = line(json.encode(command))
    if len(made) > LINE_CAP_BYTES:
        raise ApiError(
            Kind.TOO_LARGE,
            f"the request has {len(made)} bytes as the engine gets it, and may have {LINE_CAP_BYTES}",
            code="request_too_large",
            provider=PROVIDER,
        )
    return made


def load_command(spec: EngineSpec) -> Load:
    return Load(
        path=str(spec.path),
        device=spec.device,
        properties=spec.properties,
        max_active=spec.max_active,
        context_tokens=spec.context_tokens,
        end_tokens=spec.end_tokens,
        prefix_cache=spec.prefix_cache,
    )


def child_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """What of the server's environment an engine process gets."""
    return {
        name: value
        for name, value in environment.items()
        if name in ENVIRONMENT or name.startswith(ENVIRONMENT_PREFIXES)
    }


def exit_words(status: int | None) -> str:
    """-11 -> "SIGSEGV", 3 -> "exit status 3"."""
    if status is None:
        return "still running"
    if status < 0:
        try:
            return signal.Signals(-status).name
        except ValueError:
            return f"signal {-status}"
    return f"exit status {status}"


def _failure(word: Failed) -> ApiError:
    return ApiError(Kind(word.kind), word.message, code=word.code, param=word.param, provider=PROVIDER)


def _on_loop(loop: asyncio.AbstractEventLoop, function: Callable[[int], None], argument: int) -> None:
    """From any thread; nothing when the loop has gone, because the process goes with it."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(function, argument)

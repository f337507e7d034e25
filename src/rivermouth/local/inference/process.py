"""One engine process, from the server's side: started, fed, read, stopped; never imported.

    EngineProcess.start -> Ready     generate() -> Generation, or embed() -> Embedding     stop()

Theory of operation
* One task reads the process's words and hands each to the request it is about; texts go into that call's
  `AsyncTokenStream`, which is bounded, so a slow reader costs its own call only.
* When the process ends, for whatever reason, every request that lives fails with that reason, and `alive` is False
  from then on.  Nothing is restarted here; the pool starts another process for the next call.
* A request that does not confirm its cancel in `confirm_s` means a step that hangs: the process is killed.
* So is a process that says nothing for the spec's `step_s` while a request lives, see `watch`.
* What it wrote to stderr is told with its crash; no client gets to see it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple

import msgspec

from rivermouth.ir.errors import ApiError, Kind, WireError
from rivermouth.local.inference.generation import PROVIDER as PROVIDER
from rivermouth.local.inference.generation import Embedding as Embedding
from rivermouth.local.inference.generation import Generation as Generation
from rivermouth.local.inference.generation import Work
from rivermouth.local.inference.spec import EngineSpec as EngineSpec
from rivermouth.local.inference.spec import Spec, load_command, program_of
from rivermouth.local.inference.watch import Verdict, judge, look_every_s
from rivermouth.local.words.protocol import (
    LINE_CAP_BYTES,
    WORDS,
    Beat,
    Began,
    Cancel,
    Command,
    Delta,
    Done,
    Embed,
    Embedded,
    Failed,
    Fatal,
    Generate,
    Ready,
    Vectors,
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
LAST_WORDS_S: Final = 1.0
"""How long the end of stderr is waited for, which a grandchild may hold open."""

# Of the server's environment the native code sees this much; keys of providers stay here.
ENVIRONMENT: Final = frozenset(
    {"PATH", "HOME", "TMPDIR", "TEMP", "TMP", "LANG", "TZ", "VIRTUAL_ENV", "LD_LIBRARY_PATH"}
)
ENVIRONMENT_PREFIXES: Final = ("LC_", "PYTHON", "OV_", "OPENVINO_", "ONEDNN_", "TBB_", "OMP_", "COVERAGE_", "XDG_")


class Crash(NamedTuple):
    """An end that nobody asked for.

    how: as the calls were told.  stderr: the last lines.  loaded: was it ready.  answered: requests, to their end.
    """

    pid: int
    how: ApiError
    stderr: tuple[str, ...]
    loaded: bool
    answered: int


Crashed = Callable[[Crash], Awaitable[None]]


class EngineProcess:
    """A running engine process with one loaded model.

    answered: how many requests it has answered to their end.  crashed: told of an end that nobody asked for.
    """

    def __init__(self, spec: Spec, process: asyncio.subprocess.Process, crashed: Crashed | None = None) -> None:
        self.spec = spec
        self.ready: Ready | None = None
        self.load_ns = 0
        self.answered = 0
        self._crashed = crashed
        self._heard_at = 0.0
        self._look: asyncio.TimerHandle | None = None
        self.stderr: deque[str] = deque(maxlen=STDERR_LINES)
        self._process = process
        self._fatal: Fatal | None = None
        self._stopping = False
        self._next_id = 1
        self._live: dict[int, Work] = {}
        self._loaded: asyncio.Future[Ready] = asyncio.get_running_loop().create_future()
        self._ended = asyncio.Event()
        self._on_end: list[Callable[[], None]] = []
        self._tasks = [
            asyncio.create_task(self._read_words(), name=f"engine {process.pid}"),
            asyncio.create_task(self._read_stderr(), name=f"engine {process.pid} stderr"),
        ]

    @classmethod
    async def start(cls, spec: Spec, load_s: float = LOAD_S, crashed: Crashed | None = None) -> EngineProcess:
        """A process with its model loaded and warm.  Raises `ApiError`; then nothing is left running."""
        begun = time.monotonic_ns()
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-m",
            program_of(spec),
            str(os.getpid()),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=child_environment(os.environ),
        )
        engine = cls(spec, child, crashed)
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
        # An answer has no more pieces than its context has tokens, so a slow reader never loses one.
        most = self.spec.context_tokens + 1
        generation = Generation(self._new_id(), self.cancel, timeout_s, max_pending=most)
        self._begin(generation, msgspec.structs.replace(wanted, id=generation.id))
        return generation

    def embed(self, wanted: Embed) -> Embedding:
        """Begins the vectors of some texts; `wanted.id` is given here.  Raises as `generate`."""
        embedding = Embedding(self._new_id(), len(wanted.texts))
        self._begin(embedding, msgspec.structs.replace(wanted, id=embedding.id))
        return embedding

    def cancel(self, identity: int) -> None:
        """Asks for the end of one request; does nothing when it has ended."""
        if identity in self._live and self.alive:
            self._send(line_of(Cancel(identity)))

    async def confirm(self, work: Work, confirm_s: float = CONFIRM_S) -> None:
        """Returns when the process works on `work` no more.  Kills the process if that takes too long."""
        work.give_up()
        self.cancel(work.id)
        try:
            async with asyncio.timeout(confirm_s):
                await work.closed.wait()
        except TimeoutError:
            self._fatal = Fatal(f"a step did not end within {confirm_s:g} s", "engine_hangs")
            await self.kill()

    async def stop(self, stop_s: float = STOP_S) -> None:
        """Ends the process and waits for it; its requests fail."""
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

    def _new_id(self) -> int:
        self._next_id += 1
        return self._next_id - 1

    def _death(self) -> ApiError:
        ready = self.ready is not None
        return death_of(self._fatal, self._process.returncode, ready=ready, stopping=self._stopping)

    def _begin(self, work: Work, command: Command) -> None:
        if not self.alive:
            raise self._death()
        sent = line_of(command)
        if not self._live:
            self._heard_at = asyncio.get_running_loop().time()
        self._live[work.id] = work
        self._send(sent)
        if self._look is None:
            self._look_later()

    def _look_later(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time() + look_every_s(self.spec.step_s)
        self._look = loop.call_at(due, self._look_now, due)

    def _look_now(self, due: float) -> None:
        self._look = None
        step_s = self.spec.step_s
        now = asyncio.get_running_loop().time()
        match judge(now, due=due, heard_at=self._heard_at, live=bool(self._live), step_s=step_s):
            case Verdict.LOOK_AGAIN:
                self._look_later()
            case Verdict.HANGS:
                self._fatal = Fatal(f"it has made no step for {step_s:g} s", "engine_hangs")
                self._kill_nowait()
            case Verdict.REST:
                pass

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
            loop = asyncio.get_running_loop()
            while data := await stdout.read(READ_BYTES):
                self._heard_at = loop.time()
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
            case Beat():
                pass
            case Began() | Delta() | Vectors():
                if work := self._live.get(word.id):
                    work.hear(word)
            case Done() | Embedded() | Failed():
                if work := self._live.get(word.id):
                    work.hear(word)
                    del self._live[word.id]
                    self.answered += not isinstance(word, Failed) and word.reason != "cancelled"

    async def _read_stderr(self) -> None:
        """Keeps the last lines, to be told with a crash."""
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
        unasked = not self._stopping or self._fatal is not None
        self._ended.set()
        if self._look is not None:
            self._look.cancel()
        error = self._death()
        if not self._loaded.done():
            self._loaded.set_exception(error)
            self._loaded.exception()  # read here: nobody may be waiting for it
        live, self._live = self._live, {}
        for work in live.values():
            work.fail(error)
        for callback in self._on_end:
            callback()
        if unasked and self._crashed is not None:
            await asyncio.wait(self._tasks[1:], timeout=LAST_WORDS_S)
            await self._crashed(Crash(self.pid, error, tuple(self.stderr), self.ready is not None, self.answered))


def death_of(fatal: Fatal | None, returncode: int | None, *, ready: bool, stopping: bool = False) -> ApiError:
    """What the calls of a process are told that has ended.  fatal: its last word.  ready: it had been loaded."""
    if fatal is None and stopping:
        return ApiError(Kind.UPSTREAM, "the model was unloaded", code="model_unloaded", provider=PROVIDER)
    if fatal is None:
        how = exit_words(returncode)
        return ApiError(Kind.UPSTREAM, f"engine process died ({how})", code="engine_died", provider=PROVIDER)
    if fatal.code == "engine_not_installed":
        text = "the local engine is not installed: pip install 'rivermouth[openvino]'"
        return ApiError(Kind.INTERNAL, text, code=fatal.code, status=501, provider=PROVIDER)
    return ApiError(
        Kind.UPSTREAM,
        f"the engine process failed: {fatal.message}",
        code=fatal.code,
        provider=PROVIDER,
        foreign=ready and fatal.code == "engine_failed",  # while it loads there is no prompt that it could quote
    )


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

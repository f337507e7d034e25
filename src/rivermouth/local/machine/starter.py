"""Starting engine processes: is there memory for it, has it just crashed, and what is to be remembered of it.

    spec -> sized (how much memory, for how long a context) -> back-off -> process -> its load time, later its crash

Theory of operation
* The need is told before the load, and a load that is hopeless is refused; nothing native has been started then.
* After a crash the next process of the same model on the same device waits 1 s from then, after the next 2, 4 and so
  on.  One that had answered before it died begins the row anew: its file is not what kills it.
* A crash is told in the log, and kept for `doctor`: with the last lines of stderr where it was while loading.  What a
  process writes that has answered may quote a prompt, so nobody keeps it.  The clients' error has none of it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import structlog

from rivermouth.local.inference.process import Crash, EngineProcess
from rivermouth.local.inference.spec import EngineSpec, Spec
from rivermouth.local.machine import history, memory

log = structlog.get_logger()

BACKOFF_CAP_S: Final = 60.0
KV_BYTES: Final = 1 << 30
ROWS_CAP: Final = 256
CRASHES: Final = frozenset({"engine_died", "engine_failed", "engine_hangs"})
"""Ends that another process may have too; a model that does not load says so, and is tried whenever it is asked for."""

Place = tuple[str, str]
Free = Callable[[], int | None]
Sleep = Callable[[float], Awaitable[None]]


class Row(NamedTuple):
    """Crashes in a row of one model on one device; the last of them at `at`, in monotonic seconds."""

    crashes: int
    at: float


def wait_s(row: Row | None, now: float) -> float:
    """How long the next process has to wait."""
    if row is None:
        return 0.0
    return max(min(2.0 ** (row.crashes - 1), BACKOFF_CAP_S) - (now - row.at), 0.0)


class Starter:
    """`pool.Start`.  check_memory: False loads also what is hopeless.  free: what a new process may take."""

    def __init__(
        self,
        *,
        check_memory: bool = True,
        free: Free = memory.free_bytes,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._check_memory = check_memory
        self._free = free
        self._clock = clock
        self._sleep = sleep
        self._rows: dict[Place, Row] = {}

    async def __call__(self, spec: Spec) -> EngineProcess:
        """A process with its model loaded and warm.  Raises `ApiError`."""
        spec = await self._sized(spec)
        place = _place(spec)
        delay_s = wait_s(self._rows.get(place), self._clock())
        if delay_s:
            log.info("engine.waits", model=spec.model, device=spec.device, delay_s=round(delay_s, 3))
            await self._sleep(delay_s)
        engine = await EngineProcess.start(spec, crashed=lambda crash: self._note_crash(spec, crash))
        try:
            await self._note_load(spec, engine)
        except BaseException:
            await engine.kill()
            raise
        return engine

    async def _sized(self, spec: Spec) -> Spec:
        """The spec with the memory that its answers get.  Raises `ApiError` when there is too little for the model."""
        need, free = await asyncio.to_thread(self._need_of, spec)
        log.info(
            "engine.loading", model=spec.model, device=spec.device, need_mb=need.total >> 20,
            free_mb=None if free is None else free >> 20, kv_tokens=need.kv_tokens,
        )  # fmt: skip
        refused = memory.too_little(need, free, spec.model)
        if refused is not None:
            if self._check_memory:
                raise refused
            log.warning("engine.little_memory", model=spec.model, reason=refused.message)
        if not isinstance(spec, EngineSpec):
            return spec
        context = memory.usable_context(spec.context_tokens, need)
        kv_tokens = 0 if spec.stateful else need.kv_tokens
        return msgspec.structs.replace(spec, kv_tokens=kv_tokens, context_tokens=context)

    def _need_of(self, spec: Spec) -> tuple[memory.Need, int | None]:
        free = self._free()
        return need_of(spec, free), free

    async def _note_load(self, spec: Spec, engine: EngineProcess) -> None:
        assert engine.ready is not None
        seconds = engine.load_ns / 1e9
        log.info("engine.loaded", model=spec.model, device=spec.device, load_s=round(seconds, 3),
                 cached=engine.ready.cached, pid=engine.pid)  # fmt: skip
        if spec.cache is not None:
            await asyncio.to_thread(history.note_load, spec.cache, way_of(spec), seconds, cached=engine.ready.cached)

    async def _note_crash(self, spec: Spec, crash: Crash) -> None:
        if crash.how.code in CRASHES:
            self._add_to_row(_place(spec), anew=crash.answered > 0)
        elif crash.how.code == "engine_not_installed":
            return
        how, stderr = crash.how.own_words, () if crash.loaded else crash.stderr
        log.error(
            "engine.crashed", model=spec.model, device=spec.device, pid=crash.pid, reason=how, loaded=crash.loaded,
            stderr=stderr,
        )  # fmt: skip
        if spec.cache is not None:
            last = history.LastCrash(at=int(time.time()), device=spec.device, how=how, stderr=stderr)
            await asyncio.to_thread(history.note_crash, spec.cache, last)

    def _add_to_row(self, place: Place, *, anew: bool) -> None:
        before = self._rows.pop(place, None)
        self._rows[place] = Row(1 if before is None or anew else before.crashes + 1, self._clock())
        while len(self._rows) > ROWS_CAP:
            del self._rows[next(iter(self._rows))]


def need_of(spec: Spec, free_bytes: int | None) -> memory.Need:
    """What the model needs; reads the header of its file."""
    if not isinstance(spec, EngineSpec):
        return memory.Need(model=memory.model_bytes(_bytes_of(spec.folder)), answers=0, kv_tokens=0)
    return memory.need_of(
        files_bytes=_bytes_of(spec.path),
        token_bytes=int(memory.token_elements(spec.path) * memory.element_bytes(spec.device)),
        context_tokens=spec.context_tokens,
        max_active=1 if spec.stateful else spec.max_active,
        kv_bytes=KV_BYTES if spec.kv_bytes is None else spec.kv_bytes,
        free_bytes=free_bytes,
    )


def way_of(spec: Spec) -> str:
    """How a load is called in the history."""
    return f"{spec.device}, one at a time" if isinstance(spec, EngineSpec) and spec.stateful else spec.device


def _place(spec: Spec) -> Place:
    return str(spec.path if isinstance(spec, EngineSpec) else spec.folder), spec.device


def _bytes_of(path: Path) -> int:
    """Of the file, or of the largest thing in a folder: its weights."""
    try:
        files = list(path.iterdir()) if path.is_dir() else [path]
        return max((file.stat().st_size for file in files), default=0)
    except OSError:
        return 0

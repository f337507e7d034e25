"""Which engine processes run: one for each loaded model, started when asked for, ended when nobody asks any more.

Theory of operation
* A model is loaded once, whoever asks at the same time; those who wait share the one load.
* A call takes one of `max_active` slots of its model; up to `max_waiting` calls wait in order for one, any more are
  refused with `overloaded` and a time to come back.
* After its last call a model stays for `keep_alive_s` (0: not at all, negative: for ever).  At most `max_models` are
  loaded: another one takes the place of the one that has been idle longest.
* A process that died is replaced at the next call.  After `CRASHES` deaths in `CRASH_WINDOW_S` the model is refused
  until the window has passed, so a file that kills the engine does not keep the machine busy.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, Protocol

import msgspec

from rivermouth.ir.errors import ApiError, Kind
from rivermouth.local.process import PROVIDER, EngineProcess, EngineSpec
from rivermouth.local.registry import Model

KEEP_ALIVE_S: Final = 300.0
CRASHES: Final = 3
CRASH_WINDOW_S: Final = 300.0
RETRY_S: Final = 5.0


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """max_active: answers made at once by one model.  max_waiting: calls that wait for their turn."""

    max_active: int = 4
    max_waiting: int = 32
    max_models: int = 2
    keep_alive_s: float = KEEP_ALIVE_S


class Timer(Protocol):
    def cancel(self) -> None: ...


Later = Callable[[float, Callable[[], None]], Timer]
Start = Callable[[EngineSpec], Awaitable[EngineProcess]]
SpecOf = Callable[[Model], EngineSpec]


class Running(msgspec.Struct, frozen=True, kw_only=True):
    """One loaded model.  expires_at: Unix seconds, None for ever; while calls use it, as if they all ended now."""

    model: Model
    device: str
    active: int
    waiting: int
    expires_at: float | None


class Loaded:
    """A model and the process that runs it."""

    def __init__(self, model: Model, engine: EngineProcess, limits: Limits) -> None:
        self.model = model
        self.engine = engine
        self.slots = asyncio.Semaphore(limits.max_active)
        self.users = 0
        self.active = 0
        self.keep_alive_s = limits.keep_alive_s
        self.expires_at: float | None = None
        self.idle_since = 0.0
        self.timer: Timer | None = None
        self._load_ns = engine.load_ns

    def take_load_ns(self) -> int:
        """How long the load took, for the first call after it; 0 for the others, which did not wait for it."""
        taken, self._load_ns = self._load_ns, 0
        return taken

    @property
    def waiting(self) -> int:
        return self.users - self.active


class EnginePool:
    """All engine processes of one server."""

    def __init__(
        self,
        spec_of: SpecOf,
        limits: Limits | None = None,
        *,
        start: Start = EngineProcess.start,
        later: Later | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.limits = limits or Limits()
        self._spec_of = spec_of
        self._start = start
        self._later = later
        self._clock = clock
        self._wall = wall
        self._loaded: dict[str, Loaded] = {}
        self._loading: dict[str, asyncio.Task[Loaded]] = {}
        self._crashes: dict[str, deque[float]] = {}
        self._endings: set[asyncio.Task[None]] = set()
        self._closed = False

    async def load(self, model: Model, keep_alive_s: float | None = None) -> Loaded:
        """The loaded model, loading it if need be.  It stays for `keep_alive_s` from now.  Raises `ApiError`."""
        loaded = await self._ensure(model)
        if keep_alive_s is not None:
            loaded.keep_alive_s = keep_alive_s
        if loaded.users == 0:
            self._rest(loaded)
        return loaded

    @asynccontextmanager
    async def slot(self, model: Model, keep_alive_s: float | None = None) -> AsyncIterator[Loaded]:
        """The loaded model with the right to make one answer.  Waits its turn.  Raises `ApiError`."""
        loaded = await self._ensure(model)
        if loaded.users >= self.limits.max_active + self.limits.max_waiting:
            raise ApiError(
                Kind.OVERLOADED,
                f"the model {model.name} has {loaded.waiting} calls waiting already",
                code="queue_full",
                retry_after_s=RETRY_S,
                provider=PROVIDER,
            )
        if keep_alive_s is not None:
            loaded.keep_alive_s = keep_alive_s
        self._wake(loaded)
        loaded.users += 1
        try:
            async with loaded.slots:
                loaded.active += 1
                try:
                    yield loaded
                finally:
                    loaded.active -= 1
        finally:
            loaded.users -= 1
            if loaded.users == 0:
                self._rest(loaded)

    def running(self) -> list[Running]:
        """The loaded models, by name."""
        return sorted((self._running(loaded) for loaded in self._loaded.values()), key=lambda r: r.model.name)

    def rename(self, model: Model) -> None:
        """A loaded file goes by this one of its names from now on."""
        loaded = self._loaded.get(model.manifest.digest)
        if loaded is not None:
            loaded.model = model

    async def release(self, digest: str) -> bool:
        """Ends the model's process as soon as no call uses it.  False if it was not loaded."""
        loaded = self._loaded.get(digest)
        if loaded is None:
            return False
        loaded.keep_alive_s = 0.0
        return loaded.users > 0 or await self.unload(digest)

    async def unload(self, digest: str) -> bool:
        """Ends the model's process, and waits for that; its calls fail.  False if it was not loaded."""
        loaded = self._loaded.pop(digest, None)
        if loaded is None:
            return False
        self._wake(loaded)
        await loaded.engine.stop()
        return True

    async def close(self) -> None:
        """Ends every process and waits."""
        self._closed = True
        for task in list(self._loading.values()):
            task.cancel()
        await asyncio.gather(*self._loading.values(), return_exceptions=True)
        await asyncio.gather(*(self.unload(digest) for digest in list(self._loaded)))
        await asyncio.gather(*self._endings)

    def statistics(self) -> dict[str, int]:
        loaded = self._loaded.values()
        return {
            "models": len(loaded),
            "loading": len(self._loading),
            "active": sum(one.active for one in loaded),
            "waiting": sum(one.waiting for one in loaded),
        }

    async def _ensure(self, model: Model) -> Loaded:
        """The one load of a model: here already, on its way, or begun now."""
        digest = model.manifest.digest
        loaded = self._loaded.get(digest)
        if loaded is not None and loaded.engine.alive:
            self.rename(model)
            return loaded
        task = self._loading.get(digest)
        if task is None:
            self._check_open(model)
            task = self._loading[digest] = asyncio.create_task(self._load(model), name=f"load {model.name}")
            task.add_done_callback(lambda done: self._load_ended(digest, done))
        try:
            return await asyncio.shield(task)  # one caller who leaves must not take the load from the others
        except asyncio.CancelledError:
            asked = asyncio.current_task()
            if task.cancelled() and asked is not None and not asked.cancelling():
                raise _shutting_down() from None  # the load was stopped, not this caller
            raise

    async def _load(self, model: Model) -> Loaded:
        digest = model.manifest.digest
        await self.unload(digest)  # what is left of a process that died
        await self._make_room()
        try:
            engine = await self._start(self._spec_of(model))
        except ApiError as error:
            if error.code == "engine_died":
                self._note_crash(digest)
            raise
        loaded = self._loaded[digest] = Loaded(model, engine, self.limits)
        engine.when_ended(lambda: self._engine_ended(loaded))
        self._rest(loaded)
        return loaded

    def _load_ended(self, digest: str, task: asyncio.Task[Loaded]) -> None:
        self._loading.pop(digest, None)
        if not task.cancelled():
            task.exception()  # read here: everyone who waited may have left

    async def _make_room(self) -> None:
        while len(self._loaded) >= self.limits.max_models:
            idle = [one for one in self._loaded.values() if one.users == 0]
            if not idle:
                raise ApiError(
                    Kind.OVERLOADED,
                    f"{len(self._loaded)} other models are loaded and busy",
                    code="models_busy",
                    retry_after_s=RETRY_S,
                    provider=PROVIDER,
                )
            await self.unload(min(idle, key=lambda one: one.idle_since).model.manifest.digest)

    def _check_open(self, model: Model) -> None:
        if self._closed:
            raise _shutting_down()
        crashes = self._crashes.get(model.manifest.digest)
        if crashes is None:
            return
        while crashes and self._clock() - crashes[0] > CRASH_WINDOW_S:
            crashes.popleft()
        if len(crashes) >= CRASHES:
            raise ApiError(
                Kind.OVERLOADED,
                f"the engine died {len(crashes)} times with the model {model.name}; it is left alone for a while",
                code="engine_keeps_dying",
                retry_after_s=CRASH_WINDOW_S - (self._clock() - crashes[0]),
                provider=PROVIDER,
            )

    def _engine_ended(self, loaded: Loaded) -> None:
        digest = loaded.model.manifest.digest
        if self._loaded.get(digest) is loaded:  # nobody unloaded it: it died
            del self._loaded[digest]
            self._wake(loaded)
            self._note_crash(digest)

    def _note_crash(self, digest: str) -> None:
        self._crashes.setdefault(digest, deque(maxlen=CRASHES)).append(self._clock())

    def _rest(self, loaded: Loaded) -> None:
        """Nobody uses the model now: sets when it goes."""
        self._wake(loaded)
        digest = loaded.model.manifest.digest
        if self._loaded.get(digest) is not loaded or not loaded.engine.alive:
            return
        loaded.idle_since = self._clock()
        if loaded.keep_alive_s < 0:
            return
        loaded.expires_at = self._wall() + loaded.keep_alive_s
        later = self._later or asyncio.get_running_loop().call_later
        loaded.timer = later(loaded.keep_alive_s, lambda: self._expire(loaded))

    def _wake(self, loaded: Loaded) -> None:
        if loaded.timer is not None:
            loaded.timer.cancel()
        loaded.timer = None
        loaded.expires_at = None

    def _expire(self, loaded: Loaded) -> None:
        digest = loaded.model.manifest.digest
        if loaded.users or self._loaded.get(digest) is not loaded:
            return
        task = asyncio.create_task(self._unload_quietly(digest), name=f"unload {loaded.model.name}")
        self._endings.add(task)
        task.add_done_callback(self._endings.discard)

    async def _unload_quietly(self, digest: str) -> None:
        await self.unload(digest)

    def _running(self, loaded: Loaded) -> Running:
        expires_at = loaded.expires_at
        if expires_at is None and loaded.keep_alive_s >= 0:
            expires_at = self._wall() + loaded.keep_alive_s
        return Running(
            model=loaded.model,
            device=loaded.engine.device,
            active=loaded.active,
            waiting=loaded.waiting,
            expires_at=expires_at,
        )


def _shutting_down() -> ApiError:
    return ApiError(Kind.OVERLOADED, "the server is shutting down", code="shutting_down", provider=PROVIDER)

"""Which engine processes run: one for each loaded model, started when asked for, ended when nobody asks any more.

Theory of operation
* A model is loaded once, whoever asks at the same time; those who wait share the one load.
* A call is counted from the moment it asks (`Demand`), so a model that is wanted is neither expired nor replaced, be
  it on its way, loaded, or about to be used.
* A call gets one of `max_active` slots of its model, as a `SlotLease`; up to `max_waiting` calls wait for theirs, in
  order and `wait_s` at most.  Who may not wait, or has waited too long, is refused with `overloaded` and a time to come
  back.
* After its last call a model stays for `keep_alive_s` (0: not at all, negative: for ever).
* At most `max_models` have a place, those included that are being loaded: another one takes the place of the one that
  has been idle longest.  Its process is started when those that were told to end have ended.
* A process that died is replaced at the next call.  After `CRASHES` deaths in `CRASH_WINDOW_S` the model is refused
  until the window has passed, so a file that kills the engine does not keep the machine busy.
* What decides who has a place and who is told to end does not await, so nobody gets a process that is about to go.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol, Self

import msgspec

from rivermouth.ir.errors import ApiError, Kind
from rivermouth.local.process import PROVIDER, EngineProcess, EngineSpec
from rivermouth.local.registry import Model

KEEP_ALIVE_S: Final = 300.0
WAIT_S: Final = 60.0
CRASHES: Final = 3
CRASH_WINDOW_S: Final = 300.0
RETRY_S: Final = 5.0
# Longer than routing waits before it asks the same endpoint again: a call that has waited here goes elsewhere, or back.
WAITED_RETRY_S: Final = 15.0


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """max_active: answers made at once by one model.  max_waiting: calls that wait for their turn, `wait_s` at most."""

    max_active: int = 4
    max_waiting: int = 32
    max_models: int = 2
    keep_alive_s: float = KEEP_ALIVE_S
    wait_s: float = WAIT_S


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
        self.keep_alive_s = limits.keep_alive_s
        self.expires_at: float | None = None
        self.idle_since = 0.0
        self.timer: Timer | None = None
        self._load_ns = engine.load_ns

    def take_load_ns(self) -> int:
        """How long the load took, for the first call after it; 0 for the others, which did not wait for it."""
        taken, self._load_ns = self._load_ns, 0
        return taken


class Demand:
    """The calls that want one file, loaded or not: all of them, and those that have a slot."""

    __slots__ = ("active", "users")

    def __init__(self) -> None:
        self.users = 0
        self.active = 0

    @property
    def waiting(self) -> int:
        return self.users - self.active


class SlotLease:
    """The right to make one answer with a loaded model.  It counts until it is closed."""

    def __init__(self, model: Model, loaded: Loaded, give_back: Callable[[], None]) -> None:
        self.model = model
        self.loaded = loaded
        self._give_back: Callable[[], None] | None = give_back

    def hand_over(self) -> SlotLease:
        """The same right for another holder: closing this lease does nothing from now on."""
        if self._give_back is None:
            raise RuntimeError("the lease has been closed")
        heir = SlotLease(self.model, self.loaded, self._give_back)
        self._give_back = None
        return heir

    def close(self) -> None:
        """Frees the slot.  Idempotent."""
        give_back, self._give_back = self._give_back, None
        if give_back is not None:
            give_back()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


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
        self._demand: dict[str, Demand] = {}
        self._crashes: dict[str, deque[float]] = {}
        self._endings: set[asyncio.Task[None]] = set()
        self._closed = False

    async def load(self, model: Model, keep_alive_s: float | None = None) -> Loaded:
        """The loaded model, loading it if need be.  It stays for `keep_alive_s` from now.  Raises `ApiError`."""
        with self._wanted(model.manifest.digest):
            loaded = await self._ensure(model)
            if keep_alive_s is not None:
                loaded.keep_alive_s = keep_alive_s
            return loaded

    async def lease(self, model: Model, keep_alive_s: float | None = None) -> SlotLease:
        """A slot of the loaded model, loading it if need be.  Waits its turn.  Raises `ApiError`."""
        digest = model.manifest.digest
        self._check_queue(model)
        demand = self._join(digest)
        try:
            loaded = await self._turn(model)
        except BaseException:
            self._leave(digest, demand)
            raise
        if keep_alive_s is not None:
            loaded.keep_alive_s = keep_alive_s
        demand.active += 1

        def give_back() -> None:
            loaded.slots.release()
            demand.active -= 1
            self._leave(digest, demand)

        return SlotLease(model, loaded, give_back)

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
        return digest in self._demand or await self.unload(digest)

    async def unload(self, digest: str) -> bool:
        """Ends the model's process, and waits for that; its calls fail.  False if it was not loaded."""
        loaded = self._loaded.get(digest)
        if loaded is None:
            return False
        await asyncio.shield(self._end(loaded))
        return True

    async def close(self) -> None:
        """Ends every process and waits."""
        self._closed = True
        loads = list(self._loading.values())
        for task in loads:
            task.cancel()
        await asyncio.gather(*loads, return_exceptions=True)
        for loaded in list(self._loaded.values()):
            self._end(loaded)
        await asyncio.gather(*self._endings)

    def statistics(self) -> dict[str, int]:
        return {
            "models": len(self._loaded),
            "loading": len(self._loading),
            "active": sum(one.active for one in self._demand.values()),
            "waiting": sum(one.waiting for one in self._demand.values()),
        }

    async def _turn(self, model: Model) -> Loaded:
        """A slot of a living process.  One that died while this call waited is replaced once."""
        loaded = await self._ensure(model)
        await self._wait(model, loaded)
        if not loaded.engine.alive:
            loaded.slots.release()
            loaded = await self._ensure(model)
            await self._wait(model, loaded)
        return loaded

    async def _wait(self, model: Model, loaded: Loaded) -> None:
        wait_s = self.limits.wait_s
        try:
            async with asyncio.timeout(wait_s):
                await loaded.slots.acquire()
        except TimeoutError:
            raise _busy(f"the model {model.name} was busy for {wait_s:g} s", "queue_timeout", WAITED_RETRY_S) from None

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
            self._make_room(digest)
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
        if self._endings:
            await asyncio.wait(set(self._endings))  # their memory is this one's
        try:
            engine = await self._start(self._spec_of(model))
        except ApiError as error:
            if error.code == "engine_died":
                self._note_crash(digest)
            raise
        loaded = self._loaded[digest] = Loaded(model, engine, self.limits)
        engine.when_ended(lambda: self._engine_ended(loaded))
        if digest not in self._demand:  # all who asked have left
            self._rest(loaded)
        return loaded

    def _load_ended(self, digest: str, task: asyncio.Task[Loaded]) -> None:
        self._loading.pop(digest, None)
        if not task.cancelled():
            task.exception()  # read here: everyone who waited may have left

    def _make_room(self, digest: str) -> None:
        """Tells processes to end until this model may have a place."""
        dead = self._loaded.get(digest)
        if dead is not None:
            self._end(dead)
        while len(self._loaded.keys() | self._loading.keys()) >= self.limits.max_models:
            idle = [one for at, one in self._loaded.items() if at not in self._demand]
            if not idle:
                raise _busy(f"the {self.limits.max_models} models that may be loaded at once are in use", "models_busy")
            self._end(min(idle, key=lambda one: one.idle_since))

    def _check_queue(self, model: Model) -> None:
        demand = self._demand.get(model.manifest.digest)
        if demand is not None and demand.users >= self.limits.max_active + self.limits.max_waiting:
            raise _busy(f"the model {model.name} has {demand.waiting} calls waiting already", "queue_full")

    def _check_open(self, model: Model) -> None:
        if self._closed:
            raise _shutting_down()
        crashes = self._crashes.get(model.manifest.digest)
        if crashes is None:
            return
        while crashes and self._clock() - crashes[0] > CRASH_WINDOW_S:
            crashes.popleft()
        if len(crashes) >= CRASHES:
            raise _busy(
                f"the engine died {len(crashes)} times with the model {model.name}; it is left alone for a while",
                "engine_keeps_dying",
                CRASH_WINDOW_S - (self._clock() - crashes[0]),
            )

    @contextmanager
    def _wanted(self, digest: str) -> Iterator[None]:
        demand = self._join(digest)
        try:
            yield
        finally:
            self._leave(digest, demand)

    def _join(self, digest: str) -> Demand:
        """One more call wants the file: from here on it stays, if it is loaded."""
        demand = self._demand.setdefault(digest, Demand())
        demand.users += 1
        loaded = self._loaded.get(digest)
        if loaded is not None:
            self._wake(loaded)
        return demand

    def _leave(self, digest: str, demand: Demand) -> None:
        demand.users -= 1
        if demand.users == 0:
            del self._demand[digest]
            loaded = self._loaded.get(digest)
            if loaded is not None:
                self._rest(loaded)

    def _engine_ended(self, loaded: Loaded) -> None:
        digest = loaded.model.manifest.digest
        if self._loaded.get(digest) is loaded:  # nobody unloaded it: it died
            del self._loaded[digest]
            self._wake(loaded)
            self._note_crash(digest)

    def _note_crash(self, digest: str) -> None:
        self._crashes.setdefault(digest, deque(maxlen=CRASHES)).append(self._clock())

    def _rest(self, loaded: Loaded) -> None:
        """Nobody wants the model now: sets when it goes."""
        self._wake(loaded)
        if not loaded.engine.alive:
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
        if digest not in self._demand and self._loaded.get(digest) is loaded:
            self._end(loaded)

    def _end(self, loaded: Loaded) -> asyncio.Task[None]:
        """Tells the process of a loaded model to end.  Nobody gets it any more."""
        del self._loaded[loaded.model.manifest.digest]
        self._wake(loaded)
        task = asyncio.create_task(loaded.engine.stop(), name=f"unload {loaded.model.name}")
        self._endings.add(task)
        task.add_done_callback(self._endings.discard)
        return task

    def _running(self, loaded: Loaded) -> Running:
        demand = self._demand.get(loaded.model.manifest.digest, Demand())
        expires_at = loaded.expires_at
        if expires_at is None and loaded.keep_alive_s >= 0:
            expires_at = self._wall() + loaded.keep_alive_s
        return Running(
            model=loaded.model,
            device=loaded.engine.device,
            active=demand.active,
            waiting=demand.waiting,
            expires_at=expires_at,
        )


def _busy(message: str, code: str, retry_after_s: float = RETRY_S) -> ApiError:
    return ApiError(Kind.OVERLOADED, message, code=code, retry_after_s=retry_after_s, provider=PROVIDER)


def _shutting_down() -> ApiError:
    return ApiError(Kind.OVERLOADED, "the server is shutting down", code="shutting_down", provider=PROVIDER)

"""Which engine processes run: one for each model on a device, started when asked for, ended when nobody asks any more.

Theory of operation
* Everything here is kept by `Place`: a model on one device.  The same model on another device is another process, with
  slots and a queue of its own; which of them a call gets is decided before it comes here.
* A model is loaded once, whoever asks at the same time; those who wait share the one load.
* A call is counted from the moment it asks (`Demand`), so a model that is wanted is neither expired nor replaced, be
  it on its way, loaded, or about to be used.
* A call gets one of the slots of its place, as a `SlotLease`; up to `max_waiting` calls wait for theirs, in order and
  `wait_s` at most, the load not counted.  Who may not wait, or has waited too long, is refused with `overloaded` and a
  time to come back.
* After its last call a model stays for `keep_alive_s` (0: not at all, negative: for ever).
* At most `max_models` places are taken, those included that are being loaded: another one takes the place of the one
  that has been idle longest.  Its process is started when those that were told to end have ended.
* A process that died is replaced at the next call.  After `CRASHES` deaths in `CRASH_WINDOW_S` without an answer
  between them the model is refused until the window has passed, so a file that kills the engine does not keep the
  machine busy.
* What decides who has a place and who is told to end does not await, so nobody gets a process that is about to go.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from rivermouth.ir.errors import ApiError, Kind
from rivermouth.local.inference.generation import PROVIDER
from rivermouth.local.inference.process import EngineProcess
from rivermouth.local.inference.spec import Spec
from rivermouth.local.machine.places import Demand, Loaded, Place, Queue, Running, Timer, Waiting
from rivermouth.local.machine.places import Limits as Limits
from rivermouth.local.machine.places import SlotLease as SlotLease
from rivermouth.local.machine.router import Route
from rivermouth.local.models.registry import Model

CRASHES: Final = 3
CRASH_WINDOW_S: Final = 300.0
RETRY_S: Final = 5.0
# Longer than routing waits before it asks the same endpoint again: a call that has waited here goes elsewhere, or back.
WAITED_RETRY_S: Final = 15.0


Later = Callable[[float, Callable[[], None]], Timer]
Start = Callable[[Spec], Awaitable[EngineProcess]]
SpecOf = Callable[[Model, str], Spec]


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
        self._loaded: dict[Place, Loaded] = {}
        self._loading: dict[Place, asyncio.Task[Loaded]] = {}
        self._demand: dict[Place, Demand] = {}
        self._crashes: dict[Place, deque[float]] = {}
        self._endings: set[asyncio.Task[None]] = set()
        self._closed = False

    async def load(self, model: Model, device: str, keep_alive_s: float | None = None) -> Loaded:
        """The loaded model, loading it if need be.  It stays for `keep_alive_s` from now.  Raises `ApiError`."""
        with self._wanted(model, device):
            loaded = await self._ensure(model, device)
            if keep_alive_s is not None:
                loaded.keep_alive_s = keep_alive_s
            return loaded

    async def lease(self, model: Model, route: Route, keep_alive_s: float | None = None) -> SlotLease:
        """A slot of the model on the route's device, loading it if need be.  Waits its turn.  Raises `ApiError`."""
        device = route.device
        place = Place.of(model, device)
        self._check_queue(model, place)
        demand = self._join(model, place)
        turn = object()
        demand.queue[turn] = self._clock()
        try:
            loaded = await self._turn(model, device)
        except BaseException:
            del demand.queue[turn]
            self._leave(place, demand)
            raise
        if keep_alive_s is not None:
            loaded.keep_alive_s = keep_alive_s
        del demand.queue[turn]
        demand.active += 1

        def give_back() -> None:
            loaded.slots.release()
            demand.active -= 1
            self._leave(place, demand)

        return SlotLease(model, loaded, route, give_back)

    def busy(self, model: Model, device: str) -> bool:
        """Whether one more call would have to wait there, or could not be loaded for."""
        place = Place.of(model, device)
        demand = self._demand.get(place)
        if demand is not None and demand.users >= self.limits.slots_of(model, device):
            return True
        return place not in self._loaded and place not in self._loading and not self._room()

    def running(self) -> list[Running]:
        """The loaded models, by name and device."""
        made = (self._running(loaded) for loaded in self._loaded.values())
        return sorted(made, key=lambda one: (one.model.name, one.device))

    def queues(self) -> list[Queue]:
        """The calls of every place that is taken or wanted, by name and device."""
        now = self._clock()
        models = {place: loaded.model for place, loaded in self._loaded.items()}
        models |= {place: demand.model for place, demand in self._demand.items()}
        made = (self._queue(place, model, now) for place, model in models.items())
        return sorted(made, key=lambda one: (one.model, one.device))

    def rename(self, model: Model) -> None:
        """A loaded file goes by this one of its names from now on."""
        for loaded in self._of(model.manifest.digest):
            loaded.model = model

    async def release(self, digest: str) -> bool:
        """Ends the model's processes, each as soon as no call uses it.  False if there was none."""
        found = self._of(digest)
        for loaded in found:
            loaded.keep_alive_s = 0.0
        await self._end_all(loaded for loaded in found if loaded.place not in self._demand)
        return bool(found)

    async def unload(self, digest: str) -> bool:
        """Ends the model's processes, and waits for that; its calls fail.  False if there was none."""
        found = self._of(digest)
        await self._end_all(found)
        return bool(found)

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
            "waiting": sum(len(one.queue) for one in self._demand.values()),
        }

    def _of(self, digest: str) -> list[Loaded]:
        """The processes of one file."""
        return [loaded for place, loaded in self._loaded.items() if place.digest == digest]

    async def _end_all(self, which: Iterable[Loaded]) -> None:
        """Ends these at the same time, and also when the one who asks for it leaves."""
        endings = [self._end(loaded) for loaded in which]
        if endings:
            await asyncio.shield(asyncio.gather(*endings))

    async def _turn(self, model: Model, device: str) -> Loaded:
        """A slot of a living process.  One that died while this call waited is replaced once."""
        loaded = await self._ensure(model, device)
        await self._wait(model, loaded)
        if not loaded.engine.alive:
            loaded.slots.release()
            loaded = await self._ensure(model, device)
            await self._wait(model, loaded)
        return loaded

    async def _wait(self, model: Model, loaded: Loaded) -> None:
        wait_s = self.limits.wait_s
        try:
            async with asyncio.timeout(wait_s):
                await loaded.slots.acquire()
        except TimeoutError:
            raise _busy(f"the model {model.name} was busy for {wait_s:g} s", "queue_timeout", WAITED_RETRY_S) from None

    async def _ensure(self, model: Model, device: str) -> Loaded:
        """The one load of a model on a device: here already, on its way, or begun now."""
        place = Place.of(model, device)
        loaded = self._loaded.get(place)
        if loaded is not None and loaded.engine.alive:
            self.rename(model)
            return loaded
        task = self._loading.get(place)
        if task is None:
            self._check_open(model, place)
            self._make_room(place)
            work = self._load(model, device)
            task = self._loading[place] = asyncio.create_task(work, name=f"load {model.name} on {device}")
            task.add_done_callback(lambda done: self._load_ended(place, done))
        try:
            return await asyncio.shield(task)  # one caller who leaves must not take the load from the others
        except asyncio.CancelledError:
            asked = asyncio.current_task()
            if task.cancelled() and asked is not None and not asked.cancelling():
                raise _shutting_down() from None  # the load was stopped, not this caller
            raise

    async def _load(self, model: Model, device: str) -> Loaded:
        place = Place.of(model, device)
        if self._endings:
            await asyncio.wait(set(self._endings))  # their memory is this one's
        try:
            engine = await self._start(self._spec_of(model, device))
        except ApiError as error:
            if error.code == "engine_died":
                self._note_crash(place)
            raise
        loaded = self._loaded[place] = Loaded(model, device, engine, self.limits)
        engine.when_ended(lambda: self._engine_ended(loaded))
        if place not in self._demand:  # all who asked have left
            self._rest(loaded)
        return loaded

    def _load_ended(self, place: Place, task: asyncio.Task[Loaded]) -> None:
        self._loading.pop(place, None)
        if not task.cancelled():
            task.exception()  # read here: everyone who waited may have left

    def _make_room(self, place: Place) -> None:
        """Tells processes to end until this place may be taken."""
        dead = self._loaded.get(place)
        if dead is not None:
            self._end(dead)
        while self._taken() >= self.limits.max_models:
            idle = self._idle()
            if not idle:
                raise _busy(f"the {self.limits.max_models} models that may be loaded at once are in use", "models_busy")
            self._end(min(idle, key=lambda one: one.idle_since))

    def _room(self) -> bool:
        """Whether `_make_room` could."""
        return self._taken() - len(self._idle()) < self.limits.max_models

    def _taken(self) -> int:
        return len(self._loaded.keys() | self._loading.keys())

    def _idle(self) -> list[Loaded]:
        """The loaded models that nobody wants now."""
        return [loaded for place, loaded in self._loaded.items() if place not in self._demand]

    def _check_queue(self, model: Model, place: Place) -> None:
        demand = self._demand.get(place)
        if demand is not None and demand.users >= self.limits.slots_of(model, place.device) + self.limits.max_waiting:
            message = f"the model {model.name} has {len(demand.queue)} calls waiting for {place.device} already"
            raise _busy(message, "queue_full")

    def _check_open(self, model: Model, place: Place) -> None:
        if self._closed:
            raise _shutting_down()
        crashes = self._crashes.get(place)
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
    def _wanted(self, model: Model, device: str) -> Iterator[None]:
        place = Place.of(model, device)
        demand = self._join(model, place)
        try:
            yield
        finally:
            self._leave(place, demand)

    def _join(self, model: Model, place: Place) -> Demand:
        """One more call wants the place: from here on the model stays there, if it is loaded."""
        demand = self._demand.setdefault(place, Demand(model))
        demand.users += 1
        loaded = self._loaded.get(place)
        if loaded is not None:
            self._wake(loaded)
        return demand

    def _leave(self, place: Place, demand: Demand) -> None:
        demand.users -= 1
        if demand.users == 0:
            del self._demand[place]
            loaded = self._loaded.get(place)
            if loaded is not None:
                self._rest(loaded)

    def _engine_ended(self, loaded: Loaded) -> None:
        if self._loaded.get(loaded.place) is loaded:  # nobody unloaded it: it died
            del self._loaded[loaded.place]
            self._wake(loaded)
            if loaded.engine.answered:  # its file is not what kills it
                self._crashes.pop(loaded.place, None)
            self._note_crash(loaded.place)

    def _note_crash(self, place: Place) -> None:
        self._crashes.setdefault(place, deque(maxlen=CRASHES)).append(self._clock())

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
        if loaded.place not in self._demand and self._loaded.get(loaded.place) is loaded:
            self._end(loaded)

    def _end(self, loaded: Loaded) -> asyncio.Task[None]:
        """Tells the process of a loaded model to end.  Nobody gets it any more."""
        del self._loaded[loaded.place]
        self._wake(loaded)
        task = asyncio.create_task(loaded.engine.stop(), name=f"unload {loaded.model.name}")
        self._endings.add(task)
        task.add_done_callback(self._endings.discard)
        return task

    def _running(self, loaded: Loaded) -> Running:
        demand = self._demand.get(loaded.place)
        expires_at = loaded.expires_at
        if expires_at is None and loaded.keep_alive_s >= 0:
            expires_at = self._wall() + loaded.keep_alive_s
        return Running(
            model=loaded.model,
            device=loaded.engine.device,
            active=demand.active if demand is not None else 0,
            waiting=len(demand.queue) if demand is not None else 0,
            expires_at=expires_at,
        )

    def _queue(self, place: Place, model: Model, now: float) -> Queue:
        demand = self._demand.get(place) or Demand(model)
        return Queue(
            model=str(model.name),
            device=place.device,
            slots=self.limits.slots_of(model, place.device),
            active=demand.active,
            waiting=tuple(Waiting(at, now - since) for at, since in enumerate(demand.queue.values(), 1)),
        )


def _busy(message: str, code: str, retry_after_s: float = RETRY_S) -> ApiError:
    return ApiError(Kind.OVERLOADED, message, code=code, retry_after_s=retry_after_s, provider=PROVIDER)


def _shutting_down() -> ApiError:
    return ApiError(Kind.OVERLOADED, "the server is shutting down", code="shutting_down", provider=PROVIDER)

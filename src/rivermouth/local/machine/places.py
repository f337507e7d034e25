"""A model on a device: who wants it, who has a slot of it, and what is told of that.

Values and counters without a loop of their own; `pool` decides with them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol, Self

import msgspec

from rivermouth.local.inference.process import EngineProcess
from rivermouth.local.machine.router import NPU, Route, class_of
from rivermouth.local.models.registry import Model

KEEP_ALIVE_S: Final = 300.0
WAIT_S: Final = 60.0
MAX_WAITING: Final = 32
MAX_MODELS: Final = 2


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """max_active: answers made at once by one model on one device; an NPU makes one.

    max_embeds: calls at once for a model that makes vectors; they are short, and their texts share its steps.
    max_waiting: calls that wait for their turn at one model on one device, `wait_s` at most.
    max_models: places that may be taken at once.
    """

    max_active: int = 4
    max_embeds: int = 32
    max_waiting: int = MAX_WAITING
    max_models: int = MAX_MODELS
    keep_alive_s: float = KEEP_ALIVE_S
    wait_s: float = WAIT_S

    def slots_of(self, model: Model, device: str) -> int:
        """How many calls the model serves at once on this device."""
        if model.manifest.kind == "embedding":
            return self.max_embeds
        return 1 if class_of(device) == NPU else self.max_active


class Timer(Protocol):
    def cancel(self) -> None: ...


class Place(NamedTuple):
    """A model on a device."""

    digest: str
    device: str

    @classmethod
    def of(cls, model: Model, device: str) -> Place:
        return cls(model.manifest.digest, device)


class Waiting(msgspec.Struct, frozen=True):
    """One call in a queue.  position: 1 is the next.  age_s: since it came, so of the first ones the load is a part."""

    position: int
    age_s: float


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """The calls of one place, loaded or not.  slots: how many of them may be active."""

    model: str
    device: str
    slots: int
    active: int
    waiting: tuple[Waiting, ...]


class Running(msgspec.Struct, frozen=True, kw_only=True):
    """One loaded model.  expires_at: Unix seconds, None for ever; while calls use it, as if they all ended now."""

    model: Model
    device: str
    active: int
    waiting: int
    expires_at: float | None


class Loaded:
    """A model and the process that runs it."""

    def __init__(self, model: Model, device: str, engine: EngineProcess, limits: Limits) -> None:
        self.model = model
        self.place = Place.of(model, device)
        self.engine = engine
        self.slots = asyncio.Semaphore(limits.slots_of(model, device))
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
    """Who wants one place, loaded or not.  users: all of them; active: those that have a slot; queue: since when the
    others wait for one, in order."""

    __slots__ = ("active", "model", "queue", "users")

    def __init__(self, model: Model) -> None:
        self.model = model
        self.users = 0
        self.active = 0
        self.queue: dict[object, float] = {}


class SlotLease:
    """The right to make one answer with a loaded model, and the way it was routed.  It counts until it is closed."""

    def __init__(self, model: Model, loaded: Loaded, route: Route, give_back: Callable[[], None]) -> None:
        self.model = model
        self.loaded = loaded
        self.route = route
        self._give_back: Callable[[], None] | None = give_back

    def hand_over(self) -> SlotLease:
        """The same right for another holder: closing this lease does nothing from now on."""
        if self._give_back is None:
            raise RuntimeError("the lease has been closed")
        heir = SlotLease(self.model, self.loaded, self.route, self._give_back)
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

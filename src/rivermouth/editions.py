"""Editions: everything that is made of one configuration, taken and left as one.

    new call -> current edition, entered         it begins with these settings and ends with them
    reload   -> another edition is made beside it, whole; then one assignment makes it the current one
    left     -> a replaced edition that nobody is in any more is over: providers that no living edition has are closed

All of it happens on the event loop, and nothing is awaited between looking at the current edition and entering it: so
there is no lock, and no call sees half of a change.  Who outlives an edition (the chat) asks through `CurrentEngine`
and `CurrentChooser`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Final

import msgspec
import structlog

from rivermouth.chat.choice import Chooser
from rivermouth.config import Config
from rivermouth.engine.call import Call, Sink
from rivermouth.engine.engine import Engine
from rivermouth.ir.errors import ApiError
from rivermouth.providers.provider import Provider
from rivermouth.routing.catalog import Catalog
from rivermouth.routing.endpoint import Plan

log = structlog.get_logger()


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """What one configuration became.  shared: names of providers that live as long as the process."""

    config: Config
    providers: Mapping[str, Provider]
    catalog: Catalog
    engine: Engine
    chooser: Chooser
    shared: frozenset[str] = frozenset()


class Edition:
    """`with edition:` around everything that is to begin and to end with it.  `users`: how many are inside."""

    def __init__(self, parts: Parts) -> None:
        self.config: Final = parts.config
        self.providers: Final = parts.providers
        self.catalog: Final = parts.catalog
        self.engine: Final = parts.engine
        self.chooser: Final = parts.chooser
        self.shared: Final = parts.shared
        self.users = 0
        self.over: Callable[[Edition], None] | None = None
        """Set when another edition has taken this one's place: called when the last has left."""

    def __enter__(self) -> Edition:
        self.users += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.users -= 1
        if self.over is not None and not self.users:
            self.over(self)

    def serves(self, plan: Plan) -> bool:
        """Every provider of the plan is one of this edition."""
        return all(candidate.endpoint.provider in self.providers for candidate in plan.candidates)


class Editions:
    """The current edition, and those before it in which calls still run.  `async with` closes them all."""

    def __init__(self, first: Edition) -> None:
        self.current = first
        self._living = [first]
        self._closing: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Editions:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        living, self._living = self._living, []
        self._close(own(edition for edition in living))
        if self._closing:
            await asyncio.wait(self._closing)

    def replace(self, edition: Edition) -> None:
        """From now on new calls begin in this one."""
        before, self.current = self.current, edition
        self._living.append(edition)
        before.over = self._over
        if not before.users:
            self._over(before)

    def inflight(self) -> Iterator[Call]:
        """Every call that runs, in whichever edition."""
        return (call for edition in self._living for call in list(edition.engine.inflight))

    def living(self) -> tuple[Edition, ...]:
        """The current edition is the last."""
        return tuple(self._living)

    def _over(self, edition: Edition) -> None:
        if edition in self._living:
            self._living.remove(edition)
            kept = {id(provider) for provider in own(self._living)}
            self._close(provider for provider in own([edition]) if id(provider) not in kept)

    def _close(self, providers: Iterable[Provider]) -> None:
        for provider in {id(p): p for p in providers}.values():
            task = asyncio.get_running_loop().create_task(_closed(provider))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)


def own(editions: Iterable[Edition]) -> Iterator[Provider]:
    """The providers that live only as long as these editions."""
    return (p for edition in editions for name, p in edition.providers.items() if name not in edition.shared)


async def _closed(provider: Provider) -> None:
    try:
        await provider.close()
    except (OSError, ApiError) as error:
        log.warning("provider.unclosed", provider=provider.name, reason=str(error))


class CurrentEngine:
    """The engine for whoever outlives an edition: each call runs in the edition that is current when it begins."""

    def __init__(self, editions: Editions) -> None:
        self._editions = editions

    async def generate(self, call: Call, sink: Sink) -> None:
        """As `Engine.generate`.  A plan of before a reload that names what is gone is made again."""
        with self._editions.current as edition:
            if call.plan is not None and not edition.serves(call.plan):
                call.plan = await planned_again(edition, call.plan)
            await edition.engine.generate(call, sink)


async def planned_again(edition: Edition, plan: Plan) -> Plan | None:
    """What this edition says to the same choice; None when it knows nothing of it, and the engine will say so."""
    try:
        return await edition.chooser.plan(plan.model)
    except ApiError:
        return None


class CurrentChooser:
    """The chooser for whoever outlives an edition."""

    def __init__(self, editions: Editions) -> None:
        self._editions = editions

    def order(self) -> list[str]:
        return self._editions.current.chooser.order()

    async def check(self, name: str) -> None:
        with self._editions.current as edition:
            await edition.chooser.check(name)

    async def plan(self, name: str) -> Plan:
        with self._editions.current as edition:
            return await edition.chooser.plan(name)

    async def window(self, plan: Plan) -> int | None:
        with self._editions.current as edition:
            return await edition.chooser.window(plan) if edition.serves(plan) else None

    async def listed(self) -> list[dict[str, Any]]:
        with self._editions.current as edition:
            return await edition.chooser.listed()

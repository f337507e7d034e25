"""An edition of a configuration: providers, catalogue, engine and chooser, made as one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial

from rivermouth.chat.choice import Chooser
from rivermouth.compose.providers import provider_of, pullable
from rivermouth.compose.routes import catalog_of
from rivermouth.compose.settings import (
    engine_settings,
)
from rivermouth.config import Config
from rivermouth.editions import Edition, Parts
from rivermouth.engine.engine import Engine
from rivermouth.engine.gate import Gate
from rivermouth.engine.record import Recorder
from rivermouth.engine.traced import TracedEngine
from rivermouth.observe import Observers
from rivermouth.providers.provider import Provider
from rivermouth.routing.health import Health


class Maker:
    """Makes an edition of a configuration, from what outlives them all.

    shared: providers that live as long as the process.  observers: told of each final record.  gate: lets calls in.
    """

    def __init__(
        self, shared: dict[str, Provider], recorder: Recorder, observers: Observers, gate: Gate | None = None
    ) -> None:
        self._shared = shared
        self._recorder = recorder
        self._observers = observers
        self._gate = gate
        self._health: Health | None = None

    def edition(self, config: Config, before: Edition | None = None) -> Edition:
        """Nothing of it runs yet.  A provider of `before` that is configured as it was goes on in the new edition, with
        its connections; so does what is known of the endpoints' health.  Raises `ConfigError`.
        """
        providers = dict(self._shared)
        for name, provider in config.providers.items():
            kept = before is not None and _same(name, before.config, config)
            providers[name] = before.providers[name] if before is not None and kept else provider_of(provider, config)
        own = tuple(self._shared)
        catalog = catalog_of(config, providers, own=own, pullable=pullable(self._shared))
        if self._health is None or before is None or before.config.resilience != config.resilience:
            self._health = Health(enabled=config.resilience.cooldown)
        traces = self._observers.traces
        engine = (Engine if traces is None else partial(TracedEngine, traces))(
            catalog=catalog,
            providers=providers,
            recorder=self._recorder,
            settings=engine_settings(config),
            health=self._health,
            ended=self._observers.ended,
            gate=self._gate,
        )
        chooser = Chooser(
            catalog,
            providers=tuple(config.providers),
            own=own,
            models=config.chat.models,
            prefer_local=config.chat.prefer_local,
            arrange=engine.arrange,
        )
        parts = Parts(
            config=config,
            providers=providers,
            catalog=catalog,
            engine=engine,
            chooser=chooser,
            shared=frozenset(self._shared),
        )
        return Edition(parts)

    def breakers(self) -> Mapping[str, str]:
        """The endpoints whose breaker is not closed."""
        return self._health.states(asyncio.get_running_loop().time()) if self._health is not None else {}


def _same(name: str, before: Config, after: Config) -> bool:
    """The provider need not be made again.  One with a file of an authority must: the file may hold another now."""
    had, has = before.providers.get(name), after.providers[name]
    around = [(config.timeouts.connect_s, config.timeouts.idle_s, config.outbound) for config in (before, after)]
    return had == has and around[0] == around[1] and has.ca_file is None and after.outbound.ca_file is None

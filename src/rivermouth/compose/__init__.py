"""The composition root: from a configuration to a running set of services.  The only place that names adapters.

settings: what each part takes of the configuration.  routes: endpoints, policies and names of models.

An adapter that drags a large library along (a database, an HTTP client) is imported where it is made: who does without
it starts without it, and a local model can be loading while the rest is still being imported.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import urlsplit

import msgspec
import structlog

from rivermouth import __version__
from rivermouth.chat.choice import Chooser
from rivermouth.chat.clock import LoopClock
from rivermouth.chat.ports import Ports
from rivermouth.chat.service import ChatService
from rivermouth.chat.settings import ChatSettings
from rivermouth.compose.routes import catalog_of, policies_of
from rivermouth.compose.settings import (
    LOCAL,
    account_settings,
    chat_settings,
    engine_settings,
    kept_terms,
    local_wishes,
    log_settings,
)
from rivermouth.config import Config, ProviderConfig
from rivermouth.config.telemetry import OTLP, obstacle, wished_for
from rivermouth.dialects import discover
from rivermouth.doorbell.local import LocalDoorbell
from rivermouth.editions import CurrentChooser, CurrentEngine, Edition, Editions, Parts
from rivermouth.engine.call import Call
from rivermouth.engine.engine import Engine
from rivermouth.engine.gate import Gate
from rivermouth.engine.interrupt import By
from rivermouth.engine.logged import LoggedCalls
from rivermouth.engine.record import Recorder
from rivermouth.engine.traced import TracedEngine
from rivermouth.kept.service import KeptAnswers
from rivermouth.local.catalog import load_catalog
from rivermouth.local.places import Limits as QueueLimits
from rivermouth.local.provider import LocalProvider
from rivermouth.local.references import Pulls
from rivermouth.local.starter import Starter
from rivermouth.log.memory import MemoryLog
from rivermouth.observe import Metrics, Observers, watch_loop
from rivermouth.observe.backlog import BacklogStatistics
from rivermouth.observe.span_attributes import Target
from rivermouth.observe.traces import Traces
from rivermouth.platform.gate import PlatformGate
from rivermouth.platform.keyring import KeyRing
from rivermouth.platform.retention import Janitor
from rivermouth.platform.service import PlatformService
from rivermouth.providers.outbound import Outbound, configured
from rivermouth.providers.provider import Provider
from rivermouth.providers.signing import Signer
from rivermouth.routing.catalog import Catalog
from rivermouth.routing.health import Health
from rivermouth.secrets import Secret
from rivermouth.store.archive import CallArchive
from rivermouth.store.datadir import DataDir
from rivermouth.store.pseudonyms import FACT as END_USER_KEY
from rivermouth.store.pseudonyms import Pseudonyms

if TYPE_CHECKING:
    from rivermouth.accounts.service import Accounts

__all__ = [
    "Ids",
    "Maker",
    "Services",
    "account_settings",
    "catalogue",
    "chat_settings",
    "local_provider",
    "policies_of",
    "services",
]

log = structlog.get_logger()

SCRIPTED: Final = "scripted"
DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class Services(msgspec.Struct, frozen=True):
    """Everything that a front (HTTP, the CLI) needs.  What is made of the configuration is in an edition."""

    editions: Editions
    maker: Maker
    local: LocalProvider
    metrics: Metrics
    recorder: Recorder
    logged: LoggedCalls
    kept: KeptAnswers
    chat: ChatService
    chat_settings: ChatSettings
    accounts: Accounts
    observers: Observers
    platform: PlatformService
    archive: CallArchive
    pseudonyms: Pseudonyms
    janitor: Janitor

    @property
    def config(self) -> Config:
        """The configuration with which calls begin now."""
        return self.editions.current.config

    @property
    def engine(self) -> Engine:
        """The engine in which calls begin now."""
        return self.editions.current.engine

    @property
    def catalog(self) -> Catalog:
        return self.editions.current.catalog

    def inflight(self) -> Iterator[Call]:
        """Every call that runs, also with the settings of before a reload."""
        return self.editions.inflight()

    def adopt(self, edition: Edition) -> None:
        """From now on new calls begin in this edition of `maker`, which never fails; running ones go on in theirs."""
        self.editions.replace(edition)
        config = edition.config
        secrets = (secret for living in self.editions.living() for secret in living.config.secrets)
        self.recorder.secrets = tuple(dict.fromkeys(secrets))
        _introduce(self.observers, config, self.recorder.secrets)
        self.local.adopt(local_wishes(config))
        self.logged.adopt(log_settings(config))
        self.kept.adopt(kept_terms(config))
        self.platform.adopt(config)
        self.accounts.adopt(account_settings(config))
        self.janitor.wake()

    def end_all(self) -> None:
        """End every call that runs, because of the shutdown."""
        self.chat.end_all()
        for call in self.inflight():
            call.interrupt.cancel(By.SHUTDOWN)


class Ids:
    """Ids that sort by time: 48 bits of milliseconds, 80 bits of chance, as 32 hex digits.

    Chance is fetched for many ids at once: a system call for each is dearer than everything else about it.
    """

    CHANCE_CHARS: Final = 20

    def __init__(self) -> None:
        self._chance = ""

    def __call__(self) -> str:
        chance = self._chance or os.urandom(5120).hex()
        self._chance = chance[self.CHANCE_CHARS :]
        return f"{time.time_ns() // 1_000_000:012x}{chance[: self.CHANCE_CHARS]}"


@asynccontextmanager
async def services(
    config: Config, data: DataDir, *, scripted: bool = False, local: LocalProvider | None = None
) -> AsyncIterator[Services]:
    """Open them all, and close them in the opposite order: nothing recorded is lost.

    local: an engine made by `local_provider` that is to be used, and closed, instead of a new one.
    Takes the data directory for this process and ends the calls that a killed server left open.
    Raises `DataDirBusy`, `StoreError`, `ConfigError`.
    """
    await asyncio.to_thread(import_module, "rivermouth.accounts.service")  # signing takes a moment to import
    from rivermouth.accounts.keyring import Keyring
    from rivermouth.accounts.service import Accounts
    from rivermouth.store.accounts.sqlite import SqliteAccountStore
    from rivermouth.store.accounts.transaction import must_exist
    from rivermouth.store.chats.sqlite import SqliteChatStore
    from rivermouth.store.database import open_database
    from rivermouth.store.kept.sqlite import SqliteKeptStore
    from rivermouth.store.platform.sqlite import SqlitePlatformStore
    from rivermouth.store.sqlite import SqliteCallStore
    from rivermouth.store.sqlite_archive import SqliteCallArchive

    async with AsyncExitStack() as stack:
        stack.enter_context(data.lock())
        store = await asyncio.to_thread(SqliteCallStore.open, data.database)
        stack.callback(store.dispose)
        interrupted = await asyncio.to_thread(store.interrupt_open)
        if interrupted:
            log.warning("calls.interrupted", count=interrupted)
        metrics = Metrics()
        observers = _observers(config, metrics)
        _introduce(observers, config, config.secrets)
        observers.start()
        stack.push_async_callback(asyncio.to_thread, observers.close)
        recorder = await stack.enter_async_context(Recorder(store, secrets=config.secrets))
        kept = SqlitePlatformStore(await asyncio.to_thread(open_database, data.database))
        gate = PlatformGate()
        platform = PlatformService(kept, config, ring=KeyRing(), gate=gate, flush=recorder.flush)
        await stack.enter_async_context(platform)
        local = local or local_provider(config, data)
        stack.push_async_callback(local.close)
        shared: dict[str, Provider] = {LOCAL: local}
        if scripted:
            from rivermouth.providers.scripted import ScriptedProvider

            shared[SCRIPTED] = ScriptedProvider()

        maker = Maker(shared, recorder, observers, gate)
        editions = await stack.enter_async_context(Editions(maker.edition(config)))
        answers = SqliteKeptStore(await asyncio.to_thread(open_database, data.database))
        kept_answers = KeptAnswers(answers, kept_terms(config), discover(), clock_ns=time.time_ns)
        await stack.enter_async_context(kept_answers)  # closed when the calls are over that write there
        logged = await stack.enter_async_context(LoggedCalls(log_settings(config)))
        metrics.logs_from(logged.statistics)
        metrics.inflight_from(lambda: sum(1 for _ in editions.inflight()))
        metrics.queues_from(local.pool.queues)
        metrics.breakers_from(maker.breakers)
        metrics.backlog_from("records", lambda: _waiting_records(recorder))
        watch = asyncio.create_task(watch_loop(metrics))
        stack.callback(watch.cancel)
        chats = SqliteChatStore(
            await asyncio.to_thread(open_database, data.database), clock_ns=time.time_ns, must_exist=must_exist
        )
        stack.push_async_callback(chats.close)
        settings = chat_settings(config)
        ports = Ports(
            store=chats,
            log=MemoryLog(now_s=time.monotonic),
            doorbell=LocalDoorbell(),
            clock=LoopClock(),
            engine=cast("Engine", CurrentEngine(editions)),
            chooser=cast("Chooser", CurrentChooser(editions)),
            settings=settings,
            metrics=metrics.chat,
            new_id=Ids(),
        )
        chat = await stack.enter_async_context(ChatService(ports, boot_id=Ids()(), alone=True))
        people = SqliteAccountStore(await asyncio.to_thread(open_database, data.database), clock_ns=time.time_ns)
        stack.push_async_callback(people.close)
        accounts = await stack.enter_async_context(
            Accounts(
                people,
                Keyring(data.path, time.time),
                chat,
                account_settings(config),
                now_s=time.monotonic,
                unix_s=time.time,
            )
        )
        archive = await asyncio.to_thread(SqliteCallArchive.open, data.database)
        stack.callback(archive.dispose)
        pseudonyms = Pseudonyms(await asyncio.to_thread(archive.fact, END_USER_KEY, os.urandom(32).hex()))
        janitor = Janitor(archive, lambda: editions.current.config, now_ns=time.time_ns)
        cleaning = asyncio.create_task(janitor.run())
        stack.push_async_callback(_ended, cleaning)
        yield Services(
            editions=editions,
            maker=maker,
            local=local,
            metrics=metrics,
            recorder=recorder,
            logged=logged,
            kept=kept_answers,
            chat=chat,
            chat_settings=settings,
            accounts=accounts,
            observers=observers,
            platform=platform,
            archive=archive,
            pseudonyms=pseudonyms,
            janitor=janitor,
        )


async def _ended(task: asyncio.Task[None]) -> None:
    """Cancelled, and over."""
    task.cancel()
    await asyncio.wait({task})


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
            providers[name] = before.providers[name] if before is not None and kept else _provider(provider, config)
        own = tuple(self._shared)
        catalog = catalog_of(config, providers, own=own)
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


def _observers(config: Config, metrics: Metrics) -> Observers:
    """Nothing of it runs yet.  OpenTelemetry is imported where traces are on, and nowhere else."""
    traces: Traces | None = None
    if config.telemetry.traces == OTLP:
        from rivermouth.observe import otlp

        wanted = config.telemetry
        traces = otlp.traces(__version__, trust_clients=wanted.trust_clients, propagate=wanted.propagate)
    elif wished_for(os.environ) and (why := obstacle(os.environ)) is not None:
        log.warning("traces.off", reason=why)
    return Observers(metrics, lines=config.log.calls, traces=traces)


def _introduce(observers: Observers, config: Config, secrets: Iterable[Secret]) -> None:
    """Tell them the names of this configuration; every other name is a client's invention."""
    endpoints = {reference for model in config.models.values() for reference in model.endpoints}
    observers.allow(
        models=config.models,
        providers=(LOCAL, SCRIPTED, *config.providers),
        endpoints=endpoints | set(config.endpoints),
        targets={name: target for name, p in config.providers.items() if (target := _target(p.base_url)) is not None},
        secrets=secrets,
    )


def _target(base_url: str | None) -> Target | None:
    found = urlsplit(base_url or "")
    return Target(found.hostname, found.port or DEFAULT_PORTS[found.scheme]) if found.hostname else None


def _waiting_records(recorder: Recorder) -> BacklogStatistics:
    seen = recorder.statistics()
    return BacklogStatistics(seen.opens + seen.marks + seen.closes + seen.writing, seen.limit, seen.rejected)


def _same(name: str, before: Config, after: Config) -> bool:
    """The provider need not be made again.  One with a file of an authority must: the file may hold another now."""
    had, has = before.providers.get(name), after.providers[name]
    around = [(config.timeouts.connect_s, config.timeouts.idle_s, config.outbound) for config in (before, after)]
    return had == has and around[0] == around[1] and has.ca_file is None and after.outbound.ca_file is None


def local_provider(config: Config, data: DataDir) -> LocalProvider:
    """The engine on this machine; nothing is loaded yet."""
    return LocalProvider(
        data.path / "models",
        keep_alive_s=config.local.keep_alive,
        max_models=config.local.max_models,
        chat_template=config.local.chat_template,
        wanted=config.local.devices,
        npu_tokens=config.local.npu_prompt_tokens,
        limits=QueueLimits(
            max_active=1 if config.local.profile == "single" else config.local.max_active,
            max_waiting=config.local.max_waiting,
            wait_s=config.local.wait_s,
        ),
        starter=Starter(check_memory=config.local.check_memory),
        kv_bytes=config.local.context_memory_bytes,
        step_s=config.local.step_s,
        catalog=load_catalog(config.local.catalog),
        pulls=Pulls(config.local.pulls),
        pull_limit_bytes=config.local.pull_limit_bytes,
        outbound=configured(config.outbound),
    )


def _provider(config: ProviderConfig, whole: Config) -> Provider:
    if config.python is not None:
        from rivermouth.providers.python import PythonProvider

        return PythonProvider(config.name, config.python, timeout_s=config.timeouts.idle_s or whole.timeouts.idle_s)
    if config.dialect is None or config.base_url is None:
        raise TypeError(f"provider {config.name} has neither a generator nor an address")
    from rivermouth.providers.http import HttpProvider, HttpTarget

    connect_s = min(whole.timeouts.connect_s, config.timeouts.connect_s or whole.timeouts.connect_s)
    return HttpProvider(
        HttpTarget(
            name=config.name,
            dialect=discover()[config.dialect],
            base_url=config.base_url,
            api_key=config.api_key,
            headers=config.headers,
            ca_file=config.ca_file,
            outbound=_outbound(config, whole),
            connect_s=connect_s,
            quirks=tuple(sorted(config.quirks)),
            signer=_signer(config),
            key_header=config.key_header,
            api_version=config.api_version,
        )
    )


def _outbound(config: ProviderConfig, whole: Config) -> Outbound:
    """The way out as everybody has it; a proxy of its own is not spared anybody."""
    common = configured(whole.outbound)
    return common if config.proxy is None else msgspec.structs.replace(common, proxy=config.proxy, no_proxy=())


def _signer(config: ProviderConfig) -> Signer | None:
    if config.region is None:
        return None
    from rivermouth.providers.signing import SigV4

    return SigV4(config.name, region=config.region, profile=config.profile)


@asynccontextmanager
async def catalogue(config: Config, data: DataDir, *, scripted: bool = False) -> AsyncIterator[Catalog]:
    """The catalogue of a server with this configuration, without the server."""
    providers: dict[str, Provider] = {LOCAL: local_provider(config, data)}
    if scripted:
        from rivermouth.providers.scripted import ScriptedProvider

        providers[SCRIPTED] = ScriptedProvider()
    own = tuple(providers)
    providers |= {name: _provider(provider, config) for name, provider in config.providers.items()}
    try:
        yield catalog_of(config, providers, own=own)
    finally:
        for provider in providers.values():
            await provider.close()
